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

    @Test(
        "The error of a download that another program removes or creates meanwhile names that program",
        arguments: [0, 10]
    )
    func taken(start: Int64) async throws {
        let url = store.file("download")
        // This device can't remove it, as if another program had created it just after that.
        if start == 0 { try FileManager.default.createDirectory(at: url, withIntermediateDirectories: false) }
        let receiving = OperationSupervisor(width: 1).add { context in
            try await FileReceiver(url: url, context: context, start: start).receive(RemoteContent([7]))
        }
        let error = await #expect(throws: StoreSyncError.self) { try await receiving.value }
        #expect(error?.code == .busy && error?.message.contains("removed by another program") == true)
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
