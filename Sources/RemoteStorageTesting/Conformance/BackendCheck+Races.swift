import RemoteStorage

// Checks of conditions, without and with races.
extension BackendCheck {
    /// Checks conditions without concurrent writes.
    public static let conditions = BackendCheck(
        "A write “if absent” to an existing file is refused, and its content isn't read"
    ) { trial in
        let backend = trial.backend
        let path = try RemotePath("file")
        try await backend.write([1], to: path, when: .ifAbsent)
        for _ in 0..<2 {
            try await trial.requireError(.alreadyExists, of: "writing an existing file, if absent") {
                try await backend.write(.failing(after: 1), to: path, when: .ifAbsent)
            }
        }
        try await trial.requireBytes([1], at: path, "after a refused write")
        try await backend.write([2, 2], to: path, when: .always)
        try await trial.requireBytes([2, 2], at: path, "replaced")
        try await backend.remove(path)
        try await backend.write([3], to: path, when: .ifAbsent)
        try await trial.requireBytes([3], at: path, "created again after it was removed")
    }

    /// Checks the replacement of a certain version.
    public static let conditionalReplace = BackendCheck(
        "A write “if it matches” replaces only that version, and exactly one of several concurrent writes succeeds"
    ) { trial in
        let backend = trial.backend
        let path = try RemotePath("file")
        try await backend.write([1], to: path, when: .always)
        guard trial.claimed.contains(.conditionalReplace) else {
            try await keepsVersionsUnclaimed(trial, path)
            return
        }
        let tag = try await tag(of: path, trial)
        try await backend.write([2], to: path, when: .ifMatches(tag))
        try await trial.requireBytes([2], at: path, "replaced if it matches")
        let second = try await Self.tag(of: path, trial)
        try trial.require(second != tag, "a file of the same size has the tag of its former version")
        for stale in [tag, RemoteTag("another"), RemoteTag("\"another\"")] {
            try await trial.requireError(.preconditionFailed, of: "replacing another version") {
                try await backend.write(.failing(after: 1), to: path, when: .ifMatches(stale))
            }
            try await trial.requireError(.preconditionFailed, of: "copying onto another version") {
                try await backend.copy(path, to: path, when: .ifMatches(stale))
            }
        }
        try await trial.requireError(.preconditionFailed, of: "replacing a missing file") {
            try await backend.write([3], to: RemotePath("absent"), when: .ifMatches(tag))
        }
        try await trial.requireBytes([2], at: path, "after refused writes")
        try await backend.write([3], to: RemotePath("source"), when: .always)
        try await backend.copy(RemotePath("source"), to: path, when: .ifMatches(second))
        try await trial.requireBytes([3], at: path, "replaced by a copy if it matches")
        for round in 0..<trial.effort.rounds {
            let path = try RemotePath("race \(round)")
            try await backend.write([0], to: path, when: .always)
            let tag = try await Self.tag(of: path, trial)
            let meeting = Meeting(of: trial.effort.racers)
            let winners = try await trial.winners(at: meeting) { number in
                let content = RemoteContent([UInt8(number)], then: { try await meeting.arrive(number) }, [1])
                try await backend.write(content, to: path, when: .ifMatches(tag))
            }
            try trial.requireEqual(winners.count, 1, "the number of writes that replaced the same version")
            try await trial.requireBytes([UInt8(winners[0]), 1], at: path, "the winner's file")
        }
    }

    private static func tag(of path: RemotePath, _ trial: BackendTrial) async throws -> RemoteTag {
        guard let tag = try await trial.backend.status(of: path)?.tag else {
            throw BackendTrial.Violation(words: "conditionalReplace is claimed, but “\(path)” has no tag to match")
        }
        return tag
    }

    /// Requires a correct replacement without concurrent writes, or a refusal that names the missing capability.
    private static func keepsVersionsUnclaimed(_ trial: BackendTrial, _ path: RemotePath) async throws {
        let backend = trial.backend
        let name = "\(RemoteCapabilities.conditionalReplace)"
        do {
            if let tag = try await backend.status(of: path)?.tag {
                try await backend.write([2], to: path, when: .ifMatches(tag))
                try await trial.requireBytes([2], at: path, "replaced if it matches")
            }
            for stale in [RemoteTag("another"), RemoteTag("\"another\"")] {
                try await trial.requireError(.preconditionFailed, .unsupported, of: "replacing another version") {
                    try await backend.write([3], to: path, when: .ifMatches(stale))
                }
                try await trial.requireError(.preconditionFailed, .unsupported, of: "copying onto another version") {
                    try await backend.copy(path, to: path, when: .ifMatches(stale))
                }
            }
            try await backend.write([3], to: path, when: .ifMatches(RemoteTag("another")))
        } catch let error as RemoteError where error.code == .unsupported {
            try trial.require(error.message.contains(name), "the refusal doesn't name \(name): \(error)")
        } catch let error as RemoteError where error.code == .preconditionFailed {
        }
        let bytes = try await backend.bytes(at: path)
        try trial.require(bytes == [1] || bytes == [2], "a refused write changed the file")
    }

    /// Checks a race to create a file.
    public static let exclusiveCreate = BackendCheck(
        "Exactly one of several concurrent creations of a file succeeds, and the file has its bytes"
    ) { trial in
        guard trial.claimed.contains(.exclusiveCreate) else { return }
        let backend = trial.backend
        for round in 0..<trial.effort.rounds {
            let path = try RemotePath("directory \(round)/file")
            let source = try RemotePath("source \(round)")
            // All writers pass every check that precedes the content, and then all commit.
            let meeting = Meeting(of: trial.effort.racers)
            let byCopy = round % 4 == 3
            if byCopy { try await backend.write([9], to: source, when: .always) }
            let winners = try await trial.winners(at: meeting) { number in
                guard !byCopy else { return try await backend.copy(source, to: path, when: .ifAbsent) }
                let bytes = [UInt8](repeating: UInt8(number), count: 1000)
                let content = RemoteContent(bytes, then: { try await meeting.arrive(number) }, bytes)
                try await backend.write(content, to: path, when: .ifAbsent)
            }
            try trial.requireEqual(winners.count, 1, "the number of writes that created the same file")
            let expected = byCopy ? [9] : [UInt8](repeating: UInt8(winners[0]), count: 2000)
            try await trial.requireBytes(expected, at: path, "the winner's file")
            try await trial.requireNames(["file"], in: RemotePath("directory \(round)"), "after the race")
        }
    }

    /// Checks a race to move a directory.
    public static let exclusiveDirectoryMove = BackendCheck(
        "Exactly one of several concurrent moves to one name succeeds, and its directory gets that name"
    ) { trial in
        guard trial.claimed.contains(.exclusiveDirectoryMove) else { return }
        let backend = trial.backend
        for round in 0..<trial.effort.rounds {
            let destination = try RemotePath("published \(round)")
            for number in 0..<trial.effort.racers {
                try await backend.write([UInt8(number)], to: RemotePath("staging \(number)/x"), when: .always)
            }
            let winners = try await trial.winners { number in
                try await backend.move(RemotePath("staging \(number)"), to: destination)
            }
            try trial.requireEqual(winners.count, 1, "the number of moves to the same name that succeeded")
            try await trial.requireNames(["x"], in: destination, "the winner's directory")
            try await trial.requireBytes([UInt8(winners[0])], at: destination.appending("x"), "the winner's directory")
            for number in 0..<trial.effort.racers where number != winners[0] {
                try await trial.requireBytes(
                    [UInt8(number)],
                    at: RemotePath("staging \(number)/x"),
                    "a loser's directory"
                )
            }
        }
    }

    /// Checks reads of a file that is being replaced.
    public static let atomicReplace = BackendCheck(
        "A reader of a file that is being replaced sees one complete version"
    ) { trial in
        guard trial.claimed.contains(.atomicReplace) else { return }
        let backend = trial.backend
        let path = try RemotePath("file")
        let version: @Sendable (Int) -> [UInt8] = { Array(repeating: UInt8($0), count: 1 << 16 + $0 * 100) }
        let count = min(5 * trial.effort.rounds, 200)
        try await backend.write(version(0), to: path, when: .always)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                for number in 1...count { try await backend.write(version(number), to: path, when: .always) }
            }
            for _ in 0..<2 {
                group.addTask {
                    for _ in 0..<count {
                        guard let bytes = try await backend.bytes(at: path, upTo: 1 << 24), let first = bytes.first
                        else {
                            throw BackendTrial.Violation(words: "a file that is being replaced was missing, or empty")
                        }
                        try trial.require(
                            bytes == version(Int(first)),
                            "a file that is being replaced had \(bytes.count) bytes from \(first) on: a torn write"
                        )
                    }
                }
            }
            try await group.waitForAll()
        }
        try await trial.requireBytes(version(count), at: path, "the last version")
    }

    /// Checks concurrent creations of the same directories.
    public static let racingDirectories = BackendCheck(
        "All of several concurrent creations of the same directories succeed"
    ) { trial in
        let backend = trial.backend
        for round in 0..<trial.effort.rounds {
            let path = try RemotePath("round \(round)/b/c/d")
            let winners = try await trial.winners { number in
                try await backend.write([1], to: path.appending("\(number)"), when: .always)
                try await backend.createDirectory(at: path.appending("e"))
            }
            try trial.requireEqual(winners.count, trial.effort.racers, "the number of creations that succeeded")
            try trial.requireEqual(try await backend.list(path)?.count, trial.effort.racers + 1, "the number of files")
        }
    }
}
