import RemoteStorage

// Checks of writes that resume an interrupted one.
extension BackendCheck {
    /// Checks the resumption of an interrupted write.
    public static let resumption = BackendCheck(
        "A repeated write keeps nothing of an interrupted one, and a resumed write keeps all of it"
    ) { trial in
        let backend = trial.backend
        let (path, directory) = (try RemotePath("directory/file"), try RemotePath("directory"))
        try await trial.requireContentFailure(of: "a write") {
            try await backend.write(.failing(after: 200_000), to: path, when: .ifAbsent)
        }
        let keeps = trial.claimed.contains(.resumableWrite)
        let receipts = InMemoryReceipts()
        // Large enough for storages that keep parts of some megabytes.
        let unit = keeps ? 8_000_000 : 100_000
        let bytes = pattern(3 * unit + 1)
        let checkKept = { @Sendable (kept: Int64, limit: Int) in
            let range = keeps ? 1...Int64(limit) : 0...0
            try trial.require(range.contains(kept), "\(kept) of \(limit) bytes are kept, not \(range)")
        }
        try await trial.requireContentFailure(of: "a resumable write") {
            try await backend.resumeWrite(to: path, when: .ifAbsent, receipts: receipts) { kept in
                try trial.requireEqual(kept, 0, "the kept bytes before the first write")
                return RemoteContentRest(.cutOff(bytes[..<(2 * unit)]), after: 0)
            }
        }
        let first = Question()
        try await trial.requireContentFailure(of: "a resumed write") {
            try await backend.resumeWrite(to: path, when: .ifAbsent, receipts: receipts) { kept in
                if !(await first.isOver) { try checkKept(kept, 2 * unit) }
                await first.end()
                return RemoteContentRest(.cutOff(bytes[Int(kept / 2)..<5 * unit / 2]), after: kept / 2)
            }
        }
        try await trial.requireNothingVisible(in: directory, "after interrupted writes")
        try await backend.resumeWrite(to: path, when: .ifAbsent, receipts: receipts) { kept in
            try checkKept(kept, 5 * unit / 2)
            return RemoteContentRest(RemoteContent(Array(bytes[Int(kept)...])), after: kept)
        }
        try await trial.requireBytes(bytes, at: path, "written in three pieces")
        try await trial.requireError(.alreadyExists, of: "resuming the write of an existing file, if absent") {
            try await backend.resumeWrite(to: path, when: .ifAbsent, receipts: receipts) { _ in
                RemoteContentRest(.failing(after: 1), after: 0)
            }
        }
        try await backend.remove(path)
        try await backend.write(bytes, to: path, when: .ifAbsent)
        try await trial.requireBytes(bytes, at: path, "written after writes that failed")
        try await trial.requireNames(["directory"], in: .root, "after resumed writes")
    }

    /// Checks the resumption of a write whose content has changed.
    public static let changedResumption = BackendCheck(
        "A write resumed with a changed content keeps nothing that an earlier attempt sent after the change"
    ) { trial in
        let backend = trial.backend
        guard trial.claimed.contains(.resumableWrite) else { return }
        let (path, receipts) = (try RemotePath("file"), InMemoryReceipts())
        // Several parts of some megabytes; the change is in the second.
        let former = pattern(24_000_000)
        let change = 9_000_000
        let bytes = former[..<change] + pattern(former.count - change, seed: 1)
        try await trial.requireContentFailure(of: "a resumable write") {
            try await backend.resumeWrite(to: path, when: .ifAbsent, receipts: receipts) { _ in
                RemoteContentRest(.cutOff(former[...]), after: 0)
            }
        }
        try await trial.requireContentFailure(of: "a write resumed with a changed content") {
            try await backend.resumeWrite(to: path, when: .ifAbsent, receipts: receipts) { kept in
                RemoteContentRest(.cutOff([]), after: min(kept, Int64(change)))
            }
        }
        try await backend.resumeWrite(to: path, when: .ifAbsent, receipts: receipts) { kept in
            try trial.require(kept <= change, "\(kept) bytes are kept, but only \(change) are of the last attempt")
            return RemoteContentRest(RemoteContent(Array(bytes[Int(kept)...])), after: kept)
        }
        try await trial.requireBytes(Array(bytes), at: path, "written in two pieces, the second of them changed")
    }
}

/// Whether `rest` has been called: the check applies to its first call only.
private actor Question {
    private(set) var isOver = false
    func end() { isOver = true }
}

extension RemoteContent {
    /// Returns a content that is some bytes, then an error.
    fileprivate static func cutOff(_ bytes: ArraySlice<UInt8>) -> RemoteContent {
        RemoteContent(length: nil) {
            var rest = bytes
            return {
                guard !rest.isEmpty else { throw BackendTrial.ContentFailure() }
                defer { rest = rest.dropFirst(RemoteContent.chunkSize) }
                return Array(rest.prefix(RemoteContent.chunkSize))
            }
        }
    }
}
