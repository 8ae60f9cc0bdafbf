import OperationsTesting
import Testing
import ThreadSupport

@testable import Operations

@Suite("A supervisor and its operations know each other", .timeLimit(.minutes(60)))
struct SupervisorIdentityTests {
    private func supervisor(named name: String, isSuspended: Bool = false) -> OperationSupervisor {
        OperationSupervisor(.init(name: name, isSuspended: isSuspended))
    }

    @Test("An operation reaches its supervisor and itself through its context, and adds operations there")
    func context() async throws {
        let photos = supervisor(named: "photos")
        let added = Locked<OperationHandle<String?>?>(nil)
        let first = photos.add(options: OperationOptions(name: "first")) { context in
            #expect(context.operation.id == context.id)
            #expect(context.operation.isExecuting)
            let next = context.supervisor?.add(after: [context.operation]) { $0.supervisor?.name }
            added.withLock { $0 = next }
            return context.supervisor === photos && OperationSupervisor.current === photos
        }
        #expect(try await first.value)
        #expect(try await added.withLock { $0 }?.value == "photos")
        #expect(photos.name == "photos")
        #expect(first.supervisorName == "photos")
        #expect(OperationSupervisor.current == nil)
    }

    @Test("An operation that runs alone has no supervisor, and doesn't keep a released one alive")
    func released() async throws {
        #expect(try await Block { context in context.supervisor == nil }.run())
        let gate = Gate()
        var photos: OperationSupervisor? = supervisor(named: "photos")
        let isReleased = photos?.add { context in
            try await gate.wait()
            return context.supervisor == nil
        }
        await gate.arrival()
        weak let former = photos
        photos = nil
        #expect(former == nil)
        gate.open()
        #expect(try await isReleased?.value == true)
    }

    @Test("An explanation names the operation's supervisor, and that of the operation for which it waits")
    func explanation() throws {
        let (photos, uploads) = (
            supervisor(named: "photos", isSuspended: true), supervisor(named: "uploads", isSuspended: true)
        )
        let upload = uploads.add(options: OperationOptions(name: "upload")) { _ in }
        let photo = photos.add(after: [upload]) { _ in }
        #expect(photo.explain().supervisorName == "photos")
        let expected = "waiting in \"photos\": it waits for upload (operation \(upload.id), ready) in \"uploads\""
        #expect("\(photo.explain())" == expected)
    }
}
