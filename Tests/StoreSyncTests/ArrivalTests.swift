import Foundation
import Operations
import RemoteStorage
import Testing

@testable import StoreSync

/// A folder that reports that it has written a store, although its last byte or the whole file is lost.
private actor LosingBackend: InterceptingBackend {
    enum Loss: String, CaseIterable, Sendable {
        case lastByte, wholeFile
    }

    let base: any RemoteBackend
    private var loss: Loss?

    init(_ base: any RemoteBackend) { self.base = base }

    /// Loses a part of every store from now on, or nothing if it's `nil`.
    func lose(_ loss: Loss?) { self.loss = loss }

    func write(
        _ content: RemoteContent,
        to path: RemotePath,
        when condition: WriteCondition
    ) async throws -> RemoteItem {
        guard let loss, path.lastComponent == WholeStoreFile.store.rawValue else {
            return try await base.write(content, to: path, when: condition)
        }
        let bytes = try await content.bytes(upTo: 1 << 26)
        let item = try await base.write(Array(bytes.dropLast()), to: path, when: condition)
        if loss == .wholeFile { try await base.remove(path) }
        return item
    }
}

/// A folder that reports that it has written a store although it has never asked for the content.
private actor IncuriousBackend: ForwardingBackend, WholeStoreUploadHooks {
    nonisolated let base: any RemoteBackend
    nonisolated var backend: any RemoteBackend { self }

    init(_ base: any RemoteBackend) { self.base = base }

    func capabilities() async throws -> RemoteCapabilities { try await base.capabilities().union(.resumableWrite) }

    func resumeUpload(
        to path: RemotePath,
        receipts: any WriteReceipts,
        _ rest: @Sendable (_ keptBytes: Int64) async throws -> RemoteContentRest
    ) async throws -> RemoteItem {
        try await base.write([], to: path, when: .ifAbsent)
    }
}

@Suite("A push whose files don't arrive as they were sent", .timeLimit(.minutes(60)))
struct ArrivalTests {
    @Test("A push publishes nothing and says so if the storage never asks for the content")
    func notRequested() async throws {
        let fixture = try Fixture()
        let a = try fixture.device("a", backend: IncuriousBackend(LocalFolderBackend(root: fixture.share)))
        try ChunkedStore(url: a.store).make(chunks: 3, version: 0)
        #expect(await code { try await a.push().value } == .corrupt)
        let b = try fixture.device("b")
        #expect(await code { try await b.pull().value } == .noUploadedStore)
    }

    @Test(
        "A push whose files don't arrive as sent publishes nothing and says so, and the next push starts over",
        arguments: LosingBackend.Loss.allCases.map(\.rawValue),
        [true, false]
    )
    func loss(loss: String, isSealed: Bool) async throws {
        let deltas = try DeltaFixture(isSealed: isSealed)
        let line = LosingBackend(LocalFolderBackend(root: deltas.fixture.share))
        let (a, b) = (try deltas.fixture.device("a", backend: line), try deltas.fixture.device("b"))
        let store = ChunkedStore(url: a.store)
        try store.make(chunks: 3, version: 0)
        await line.lose(LosingBackend.Loss(rawValue: loss))
        do {
            _ = try await a.push().value
            Issue.record("a store that didn't arrive was published")
        } catch let error as StoreSyncError {
            #expect(error.code == .corrupt)
            let found = loss == "lastByte" ? "bytes, and" : "no bytes, and"
            #expect(error.message.contains(found), "\(error)")
            #expect(error.message.hasSuffix("were sent. Nothing was published. Push again."), "\(error)")
        }
        #expect(await code { try await b.pull().value } == .noUploadedStore)
        await line.lose(nil)
        _ = try await a.push().value
        try await deltas.expectPulled(b, is: a.store)
    }
}
