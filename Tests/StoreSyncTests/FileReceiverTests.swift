import ContentDigests
import Foundation
import Operations
import RemoteStorage
import Testing

@testable import StoreSync

@Suite("A download to a file", .timeLimit(.minutes(60)))
struct FileReceiverTests {
    private let store: TestStore

    init() throws { store = try TestStore() }

    @Test(
        "A download ends with the chunk that makes the file too long: endless content doesn't fill the disk",
        arguments: [0, 2_500]
    )
    func endless(start: Int64) async throws {
        let url = store.file("download")
        try Data(count: Int(start)).write(to: url)
        let endless = RemoteContent(length: nil) { { [UInt8](repeating: 7, count: 1_000) } }
        let receiving = OperationSupervisor(width: 1).add { context in
            try await FileReceiver(url: url, context: context, start: start, limit: 4_200).receive(endless)
        }
        try await receiving.value
        #expect(try url.resourceValues(forKeys: [.fileSizeKey]).fileSize == (start == 0 ? 5_000 : 4_500))
    }

    /// The error of a download to a path.
    private func error(receivingTo url: URL, after start: Int64) async -> StoreSyncError? {
        let receiving = OperationSupervisor(width: 1).add { context in
            try await FileReceiver(url: url, context: context, start: start).receive(RemoteContent([7]))
        }
        return await #expect(throws: StoreSyncError.self) { try await receiving.value }
    }

    @Test("The error of a download whose first bytes another program removes meanwhile names that program")
    func taken() async throws {
        let error = await error(receivingTo: store.file("download"), after: 10)
        #expect(error?.code == .busy && error?.message.contains("removed by another program") == true)
    }

    @Test("A download to a path that this device can't clear isn't tried again: no other program removed anything")
    func occupied() async throws {
        let url = store.file("download")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: false)
        let error = await error(receivingTo: url, after: 0)
        #expect(error?.code == .cannotWrite && error?.message.contains("check the permissions") == true)
    }

    @Test("The error of a download that is gone when it's compared says that another program removed it")
    func removed() async throws {
        let url = store.file("download")
        let error = await #expect(throws: StoreSyncError.self) {
            try await ContentRoot.of(fileAt: url, .plain, on: nil)
        }
        #expect(error?.code == .busy && error?.message.contains("removed by another program") == true)
    }
}
