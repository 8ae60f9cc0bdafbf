import Foundation
import Operations
import RemoteStorage
import Testing
import ThreadSupport

@testable import StoreSync

@Suite("Two operations of one device at the same time", .timeLimit(.minutes(60)))
struct SharedStateTests {
    /// What a device does while it pulls the document to another path.
    enum Work: String, CaseIterable, CustomTestStringConvertible {
        case pull, push, status

        var testDescription: String { rawValue }
    }

    /// The codes of the errors that the work reports.
    private static func errors(of work: Work, by device: Device) async throws -> [StoreSyncError.Code] {
        do {
            switch work {
            case .pull: _ = try await device.pull().value
            case .push: _ = try await device.push().value
            case .status: return try await device.status().value.unreadable.map(\.code)
            }
            return []
        } catch let error as StoreSyncError {
            return [error.code]
        }
    }

    @Test(
        "An upload that another pull of this device has seen meanwhile isn't taken for a missing one",
        arguments: Work.allCases
    )
    func newUpload(work: Work) async throws {
        var number = 0
        while true {
            let fixture = try Fixture()
            let (a, b) = (try fixture.device("a"), try fixture.device("b"))
            try a.write("one")
            _ = try await a.push().value
            _ = try await b.pull().value
            try a.write("two")
            if work == .push { try b.write("three") }
            // Another process of the same device.
            let other = try fixture.device("b")
            let connection = DyingBackend(fixture.remote)
            let newest = Locked(0)
            await connection.meet(atRequest: number) {
                await #expect(throws: Never.self) {
                    let push = try await a.push().value
                    newest.withLock { $0 = push.generation }
                }
                let path = fixture.folder.appending(path: "other.sqlite")
                do {
                    _ = try await other.pull(path).value
                } catch {
                    // The pushing operation has published its own edit.
                    #expect(work == .push && (error as? StoreSyncError)?.code == .diverged, "\(error)")
                }
            }
            let errors = try await Self.errors(of: work, by: b.with(backend: connection))
            #expect(errors.isEmpty || work == .push && errors == [.diverged], "before request \(number): \(errors)")
            let generation = newest.withLock(\.self)
            #expect(generation > 1, "before request \(number)")
            let status = try await b.status().value
            let reached = status.documents.flatMap(\.stores).map(\.generation).max() ?? 0
            #expect(status.unreadable.isEmpty && reached >= generation, "before request \(number): \(status)")
            if work != .push {
                #expect(try await b.pull().value.generation == generation, "before request \(number)")
                #expect(try b.notes() == a.notes(), "before request \(number)")
            }
            number += 1
            guard await number < connection.requests.count else { break }
        }
        #expect(number > 2, "the upload is seen meanwhile")
    }

    @Test(
        "An upload that the user gives up meanwhile, by another pull of this device, isn't reported as missing",
        arguments: ["pull", "push", "status", "verify"]
    )
    func givenUp(work: String) async throws {
        let fixture = try Fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try await a.push(adding: "one")
        let before = try fixture.files()
        try await a.push(adding: "two")
        _ = try await b.pull().value
        try fixture.restore(before)
        // Another process of the same device.
        let (other, path) = (try fixture.device("b"), fixture.folder.appending(path: "other.sqlite"))
        let connection = DyingBackend(fixture.remote)
        await connection.meet(at: { $0.hasPrefix("read of") && $0.contains("/manifest-1-") }) {
            await #expect(throws: Never.self) { _ = try await other.pull(path, acceptRollback: true).value }
        }
        let device = b.with(backend: connection)
        switch work {
        case "pull": _ = try await device.pull(fixture.folder.appending(path: "third.sqlite")).value
        case "push": try await device.push(adding: "three")
        case "status": #expect(try await device.status().value.unreadable == [])
        default: #expect(try await device.verify().value.problems == [])
        }
        #expect(try Store.notes(in: path) == ["one"])
    }

    @Test("A document that this device creates meanwhile isn't missing from its status")
    func newDocument() async throws {
        var number = 0
        while true {
            let fixture = try Fixture()
            let device = try fixture.device("device")
            try device.write("one")
            _ = try await device.push().value
            let other = try fixture.device("device").with(document: RemoteIdentifier("other"))
            let connection = DyingBackend(fixture.remote)
            await connection.meet(atRequest: number) {
                await #expect(throws: Never.self) { _ = try await other.registerDocument().value }
            }
            let status = try await device.with(backend: connection).status().value
            #expect(status.unreadable.isEmpty, "before request \(number): \(status)")
            let documents = try await device.status().value.documents.map(\.document)
            #expect(documents.contains(other.document) && documents.count == 2, "before request \(number)")
            number += 1
            guard await number < connection.requests.count else { break }
        }
        #expect(number > 2, "the document is created meanwhile")
    }
}
