import Foundation
import Operations
import RemoteStorage
import SyncCryptography
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("The first registrations of a device", .timeLimit(.minutes(60)))
struct FirstRegistrationTests {
    private static let password = "correct horse"

    /// A fixture whose application is encrypted, and which its new devices don't know.
    private static func fixture() async throws -> Fixture {
        let fixture = try Fixture()
        let delegate = await AppDelegate(try .cheap(password))
        _ = try await fixture.device("first").manager(delegate).register().value
        return fixture
    }

    @Test("Two pipelines that a new device adds together ask for the password once")
    func asksOnce() async throws {
        let fixture = try await Self.fixture()
        let device = try fixture.device("second")
        try device.write("one")
        let supervisor = OperationSupervisor(.init(isSuspended: true, temporaryDirectory: fixture.temporary))
        let delegate = await AppDelegate(try .cheap(Self.password))
        let manager = device.manager(delegate, on: supervisor)
        let upload = manager.document(fixture.document).upload(storeAt: device.store)
        let other = try manager.document(RemoteIdentifier("other")).register()
        let registrations = manager.activity.filter { $0.name == "ApplicationRegistrationOperation" }
        try #require(registrations.count == 2)
        #expect(registrations[1].explain().description.contains("\(fixture.application) at "))
        supervisor.isSuspended = false
        _ = try await (upload.value, other.value)
        #expect(delegate.questions.withLock { $0 } == [.joiningEncrypted(passwordWasWrong: false)])
    }

    @Test("Registrations of a known client, or with dependencies, don't wait for each other")
    func concurrent() async throws {
        let fixture = try await Self.fixture()
        let device = try fixture.device("second")
        let supervisor = OperationSupervisor(.init(temporaryDirectory: fixture.temporary))
        let delegate = await AppDelegate(try .cheap(Self.password))
        let manager = device.manager(delegate, on: supervisor)
        supervisor.isSuspended = true
        let dependent = manager.register(after: [supervisor.add { _ in }])
        let (first, second) = (manager.register(), manager.register())
        let shared = "\(fixture.application) at "
        #expect(!dependent.explain().description.contains(shared))
        #expect(!first.explain().description.contains(shared))
        #expect(second.explain().description.contains(shared))
        dependent.cancel()
        supervisor.isSuspended = false
        _ = try await (first.value, second.value)
        supervisor.isSuspended = true
        let later = [manager.register(), manager.register()]
        for registration in later { #expect(!registration.explain().description.contains(shared)) }
        supervisor.isSuspended = false
        for registration in later { _ = try await registration.value }
        withExtendedLifetime(delegate) {}
    }
}
