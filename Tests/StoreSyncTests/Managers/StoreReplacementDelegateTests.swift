import Foundation
import Operations
import RemoteStorage
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("What a delegate is told about the replacement of a store", .timeLimit(.minutes(60)))
struct StoreReplacementDelegateTests {
    private struct Veto: Error {}

    /// A device that has pushed twice, and another that has pulled the first push.
    private static func devices(_ fixture: Fixture) async throws -> Device {
        let (first, second) = (try fixture.device("first"), try fixture.device("second"))
        try await first.push(adding: "one")
        _ = try await second.pull().value
        try await first.push(adding: "two")
        return second
    }

    private static func download(
        _ device: Device,
        _ delegate: AppDelegate
    ) -> OperationHandle<WholeStoreDownload> {
        device.manager(delegate).document(device.document).download(WholeStoreDownloadRequest(url: device.store))
    }

    @Test("The app closes the former store before it's replaced, and opens the new one afterwards")
    func replacement() async throws {
        let fixture = try Fixture()
        let device = try await Self.devices(fixture)
        let seen = Locked<[Set<String>]>([])
        let delegate = await AppDelegate { _, url in
            let notes = try Store.notes(in: url)
            seen.withLock { $0.append(notes) }
        }
        #expect(try await !Self.download(device, delegate).value.isUnchanged)
        #expect(delegate.events.withLock { $0 } == [.willReplace, .didReplace(true)])
        #expect(seen.withLock { $0 } == [["one"], ["one", "two"]])

        // A download that changes nothing doesn't close the store.
        #expect(try await Self.download(device, delegate).value.isUnchanged)
        #expect(delegate.events.withLock { $0.count } == 2)
    }

    @Test("The app opens the former store if it vetoes the replacement")
    func veto() async throws {
        let fixture = try Fixture()
        let device = try await Self.devices(fixture)
        let delegate = await AppDelegate { event, _ in if event == .willReplace { throw Veto() } }
        await #expect(throws: Veto.self) { try await Self.download(device, delegate).value }
        #expect(delegate.events.withLock { $0 } == [.willReplace, .didReplace(false)])
        #expect(try device.notes() == ["one"])
        let willing = await AppDelegate()
        _ = try await Self.download(device, willing).value
        #expect(try device.notes() == ["one", "two"])
    }

    @Test("The app opens the former store if the replacement fails after it was closed")
    func failure() async throws {
        let fixture = try Fixture()
        let device = try await Self.devices(fixture)
        let delegate = await AppDelegate { event, url in
            // An app that saves on closing.
            if event == .willReplace { try Store.write(["late"], to: url) }
        }
        #expect(await code { try await Self.download(device, delegate).value } == .localChanges)
        #expect(delegate.events.withLock { $0 } == [.willReplace, .didReplace(false)])
        #expect(try device.notes() == ["one", "late"])
    }

    @Test("The app opens the former store if the download is cancelled while the app closes it")
    func cancellation() async throws {
        let fixture = try Fixture()
        let device = try await Self.devices(fixture)
        let handle = Locked<OperationHandle<WholeStoreDownload>?>(nil)
        let wasCancelled = Locked<[Bool]>([])
        let delegate = await AppDelegate { event, _ in
            if event == .willReplace { handle.withLock { $0 }?.cancel() }
            wasCancelled.withLock { $0.append(Task.isCancelled) }
        }
        let supervisor = OperationSupervisor(.init(isSuspended: true, temporaryDirectory: fixture.temporary))
        let download = device.manager(delegate, on: supervisor).document(device.document)
            .download(WholeStoreDownloadRequest(url: device.store))
        handle.withLock { $0 = download }
        supervisor.isSuspended = false
        await #expect(throws: CancellationError.self) { try await download.value }
        #expect(delegate.events.withLock { $0 } == [.willReplace, .didReplace(false)])
        // The app isn't cancelled while it opens the store.
        #expect(wasCancelled.withLock { $0 } == [true, false])
        #expect(try device.notes() == ["one"])
    }

    @Test("A download continues without a delegate that was released")
    func released() async throws {
        let fixture = try Fixture()
        let device = try await Self.devices(fixture)
        let handle = Self.download(device, await AppDelegate())
        _ = try await handle.value
        #expect(try device.notes() == ["one", "two"])
    }
}
