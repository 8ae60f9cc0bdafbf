import Foundation
import GRDB
import Operations
import RemoteStorage
import Testing

@testable import StoreSync

/// A storage that fails when the key file is replaced.
private actor FailingBackend: InterceptingBackend {
    enum Failure: CaseIterable, Sendable {
        case losesRequest, losesReply, losesReplyAndReads, redirectsReads, isAway, onlyReportsSuccess, refuses,
            hasOtherDevice

        /// Whether the new password is saved, and the file can't be read afterwards.
        var hidesSuccess: Bool { [.losesReplyAndReads, .redirectsReads].contains(self) }
    }

    nonisolated let base: any RemoteBackend
    private let keyFile: RemotePath
    private let failure: Failure
    private var hasFailed = false

    init(_ base: any RemoteBackend, keyFile: RemotePath, _ failure: Failure) {
        (self.base, self.keyFile, self.failure) = (base, keyFile, failure)
    }

    private var lost: RemoteError { RemoteError(.unavailable, "The reply was lost. Try again later.") }

    func write(
        _ content: RemoteContent,
        to path: RemotePath,
        when condition: WriteCondition
    ) async throws -> RemoteItem {
        guard path == keyFile else { return try await base.write(content, to: path, when: condition) }
        hasFailed = true
        switch failure {
        case .losesRequest, .isAway: throw lost
        case .refuses: throw RemoteError(.preconditionFailed, "The test's file has changed.", path: path)
        case .losesReply, .losesReplyAndReads, .redirectsReads:
            _ = try await base.write(content, to: path, when: condition)
            throw lost
        case .onlyReportsSuccess: return RemoteItem(name: path.lastComponent ?? "", kind: .file, size: 0)
        case .hasOtherDevice: return try await base.write(RemoteContent([7]), to: path, when: .always)
        }
    }

    func read(_ path: RemotePath, range: Range<Int64>?) async throws -> RemoteContent? {
        if hasFailed, [.losesReplyAndReads, .isAway].contains(failure) { throw lost }
        if hasFailed, failure == .redirectsReads { throw RemoteError(.notAllowed, "The test's share redirects.") }
        return try await base.read(path, range: range)
    }

    func status(of path: RemotePath) async throws -> RemoteItem? {
        if failure == .isAway, path == keyFile {
            hasFailed = true
            throw lost
        }
        return try await base.status(of: path)
    }
}

@Suite("A change of the password whose outcome the storage doesn't report", .timeLimit(.minutes(60)))
struct LostPasswordChangeTests {
    @Test(
        "A password change without a known outcome is made, or fails with an error that says what is known",
        arguments: FailingBackend.Failure.allCases
    )
    fileprivate func outcome(failure: FailingBackend.Failure) async throws {
        let fixture = try Fixture(password: "correct horse")
        let device = try fixture.device("a")
        _ = try await device.register().value
        let path = fixture.hierarchy.passwordTest
        let former = try #require(try fixture.files()["\(path)"])
        let failing = FailingBackend(device.backend, keyFile: path, failure)
        guard failure != .losesReply else {
            #expect(try await device.changePassword(to: "another one", through: failing) == 2)
            let pin = try device.state.pin(for: device.key)
            #expect(pin?.passwordVersion == 2)
            return
        }
        let error = await #expect(throws: StoreSyncError.self) {
            try await device.changePassword(to: "another one", through: failing)
        }
        let (code, words): (StoreSyncError.Code, String) =
            switch failure {
            case .losesRequest, .isAway: (.remoteUnavailable, "The reply was lost. Try again later.")
            case .onlyReportsSuccess: (.remoteUnavailable, "still has the former one. Try again.")
            case .refuses, .hasOtherDevice: (.busy, "was not saved, probably because another device")
            default: (.remoteUnavailable, "may be valid already. Run the command again with the same new password.")
            }
        #expect(error?.code == code && error?.message.contains(words) == true, "\(error as Any)")
        guard failure != .hasOtherDevice else { return }
        #expect(try (fixture.files()["\(path)"] != former) == failure.hidesSuccess)
        // The remedy.
        #expect(
            try await device.changePassword(to: "another one", through: device.backend)
                == (failure.hidesSuccess ? 3 : 2)
        )
    }

    @Test("A storage that replaces conditionally changes no password while it reports no version of the key file")
    func untagged() async throws {
        let fixture = try Fixture(password: "correct horse", place: InMemoryBackend())
        let device = try fixture.device("a")
        _ = try await device.register().value
        let former = try await device.backend.bytes(at: fixture.hierarchy.passwordTest)
        let code = await code {
            try await device.changePassword(to: "another one", through: UntaggedBackend(device.backend))
        }
        #expect(code == .busy)
        #expect(try await device.backend.bytes(at: fixture.hierarchy.passwordTest) == former)
        #expect(try await device.changePassword(to: "another one") == 2)
    }

    @Test("A password change that this device can't note is reported as made, and repeating it succeeds")
    func unnoted() async throws {
        let fixture = try Fixture(password: "correct horse")
        let device = try fixture.device("a")
        _ = try await device.register().value
        let backend = RefusingState(device.backend, keyFile: fixture.hierarchy.passwordTest, state: device.state.url)
        let error = await #expect(throws: StoreSyncError.self) {
            try await device.changePassword(to: "another one", through: backend)
        }
        #expect(error?.message.contains("is changed, but this device couldn't note that") == true, "\(error as Any)")
        try await backend.allow()
        #expect(try await device.changePassword(to: "another one", through: backend) == 3)
    }
}

/// A storage that doesn't report the versions of files.
private actor UntaggedBackend: InterceptingBackend {
    nonisolated let base: any RemoteBackend

    init(_ base: any RemoteBackend) { self.base = base }

    func status(of path: RemotePath) async throws -> RemoteItem? {
        var item = try await base.status(of: path)
        item?.tag = nil
        return item
    }
}

/// A storage during whose first write of the key file the state directory begins to refuse writes.
private actor RefusingState: InterceptingBackend {
    nonisolated let base: any RemoteBackend
    private let keyFile: RemotePath
    private let database: String
    private var isRefused = false

    init(_ base: any RemoteBackend, keyFile: RemotePath, state: URL) {
        (self.base, self.keyFile, database) = (base, keyFile, state.appending(path: "state.sqlite").path)
    }

    private func execute(_ sql: String) throws {
        let queue = try DatabaseQueue(path: database)
        try queue.write { try $0.execute(sql: sql) }
        try queue.close()
    }

    /// Lets the state directory be written again.
    func allow() throws { try execute("DROP TRIGGER refusal") }

    func write(
        _ content: RemoteContent,
        to path: RemotePath,
        when condition: WriteCondition
    ) async throws -> RemoteItem {
        let item = try await base.write(content, to: path, when: condition)
        if path == keyFile, !isRefused {
            isRefused = true
            try execute(
                "CREATE TRIGGER refusal BEFORE INSERT ON fact BEGIN SELECT raise(ABORT, 'The test refuses the write.'); END"
            )
        }
        return item
    }
}
