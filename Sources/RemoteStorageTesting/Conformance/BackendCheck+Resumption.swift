import RemoteStorage

extension BackendCheck {
    /// Checks the resumption of a write whose content has changed.
    public static let changedResumption = BackendCheck(
        "A write resumed with a changed content keeps nothing that an earlier attempt sent after the change"
    ) { trial in
        let backend = trial.backend
        guard try await backend.capabilities().contains(.resumableWrite) else { return }
        let (path, receipts) = (try RemotePath("file"), InMemoryReceipts())
        // Several parts of some megabytes; the change is in the second.
        let former = pattern(24_000_000)
        let change = 9_000_000
        let bytes = former[..<change] + pattern(former.count - change, seed: 1)
        try await trial.requireContentFailure(of: "a resumable write") {
            try await backend.resumeWrite(to: path, when: .ifAbsent, receipts: receipts) { _ in
                RemoteContentRest(.cutOff(former), after: 0)
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

extension RemoteContent {
    /// Returns a content that is some bytes, then an error.
    fileprivate static func cutOff(_ bytes: [UInt8]) -> RemoteContent {
        RemoteContent(length: nil) {
            var rest = bytes[...]
            return {
                guard !rest.isEmpty else { throw BackendTrial.ContentFailure() }
                defer { rest = rest.dropFirst(RemoteContent.chunkSize) }
                return Array(rest.prefix(RemoteContent.chunkSize))
            }
        }
    }
}
