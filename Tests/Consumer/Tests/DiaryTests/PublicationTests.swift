import Diary
import Foundation
import Operations
import RemoteStorage
import StoreSync
import Testing

@Suite("Publishing a diary", .timeLimit(.minutes(10)))
struct PublicationTests {
    /// Publishes entries as a device.
    private static func publish(
        _ entries: [String],
        as device: String,
        _ manager: ApplicationSyncManager,
        _ backend: any RemoteBackend,
        in folder: Folder
    ) throws -> Publication {
        Publication(of: entries, in: try folder.folder(of: device), folder.diary, manager, backend: backend)
    }

    @Test("A published diary arrives on the other device, which is called and reads its note")
    func publication() async throws {
        let (folder, questions) = (try Folder(), Questions())
        let (rings, ring) = AsyncStream.makeStream(of: RemotePath.self)
        let backend = RingingBackend(InMemoryBackend()) { ring.yield($0) }
        let laptop = try folder.manager(of: "laptop", backend, questions)
        let phone = try folder.manager(of: "phone", backend, questions)
        let first = try Self.publish(["one"], as: "laptop", laptop, backend, in: folder)
        // Only the laptop knows the diary so far.
        #expect(try await first.announcement.value == 1)

        let store = try folder.folder(of: "phone").appending(path: "diary.archive")
        let download = phone.document(folder.diary).download(WholeStoreDownloadRequest(url: store))
        _ = try await download.value
        let entries = ["one", "two", "zzzzzzzzzz"]
        let second = try Self.publish(entries, as: "laptop", laptop, backend, in: folder)
        #expect(try await second.announcement.value == 2)
        let document = try await phone.document(folder.diary).register().value
        let note = try await Announcement.read(by: document.application.client, in: document, backend: backend)
        #expect(note == 2)
        _ = try await phone.document(folder.diary).download(WholeStoreDownloadRequest(url: store)).value
        #expect(try Archive.text(in: store) == "one\ntwo\nzzzzzzzzzz\n")
        ring.finish()
        var called = 0
        for await _ in rings { called += 1 }
        #expect(called == 3)
    }

    @Test("A publication is completed although three of its operations can't reach the storage at first")
    func retries() async throws {
        let (folder, questions, waits) = (try Folder(), Questions(), Waits())
        let backend = UnreachableAtFirst(InMemoryBackend(), ["Information", "WholeStore", "announcements"])
        let supervisor = OperationSupervisor(.init(clock: ImpatientClock(waits: waits)))
        let manager = try folder.manager(of: "laptop", backend, questions, on: supervisor)
        let publication = try Self.publish(["one"], as: "laptop", manager, backend, in: folder)
        #expect(try await publication.announcement.value == 1)
        #expect(await waits.durations.count { $0 <= .seconds(1) } == 3)
    }

    @Test("If the export fails, nothing is created on the storage, and the announcement fails with the same error")
    func failure() async throws {
        let (folder, questions, backend) = (try Folder(), Questions(), InMemoryBackend())
        let manager = try folder.manager(of: "laptop", backend, questions)
        let nowhere = folder.url.appending(path: "missing")
        let publication = Publication(of: ["one"], in: nowhere, folder.diary, manager, backend: backend)
        await #expect(throws: CocoaError.self) { try await publication.announcement.value }
        #expect(publication.upload.error is CocoaError)
        #expect(try await backend.list(.root) == [])
    }

    @Test("An urgent publication overtakes an earlier one")
    func priorities() async throws {
        let (folder, questions, backend) = (try Folder(), Questions(), InMemoryBackend())
        let supervisor = OperationSupervisor(.init(width: 1))
        let manager = try folder.manager(of: "laptop", backend, questions, on: supervisor)
        let (work, home) = (try RemoteIdentifier("work"), try RemoteIdentifier("home"))
        // While a registration waits for the password, others run.
        for diary in [work, home] { _ = try await manager.document(diary).register().value }
        supervisor.isSuspended = true
        let (order, finish) = AsyncStream.makeStream(of: String.self)
        let files = [try folder.folder(of: "a"), try folder.folder(of: "b")]
        let slow = Publication(of: ["one"], in: files[0], work, manager, backend: backend, priority: .low)
        let urgent = Publication(of: ["one"], in: files[1], home, manager, backend: backend, priority: .high)
        slow.upload.whenEnded { finish.yield("slow") }
        urgent.upload.whenEnded { finish.yield("urgent") }
        supervisor.isSuspended = false
        _ = try await (slow.announcement.value, urgent.announcement.value)
        finish.finish()
        #expect(await order.reduce(into: []) { $0.append($1) } == ["urgent", "slow"])
    }
}
