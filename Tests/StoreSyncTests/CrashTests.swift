import Foundation
import Operations
import OperationsTesting
import RemoteStorage
import TestSupport
import Testing
import ThreadSupport

@testable import StoreSync

/// Crashes between any two steps, which leave exactly the files that are on the disk at that moment.
///
/// An operation runs once, undisturbed. At every request to the remote, every change of the device's memory and every
/// step of the store's replacement, another process copies all folders to an image. Then each image is restored in
/// turn, a device that wasn't involved pulls from it, and the operation runs again on the device that died.
///
/// Deep tests try all images. Otherwise each scenario tries every few steps, and begins at another step than the scenario
/// before it.
@Suite("A crash between any two steps", .timeLimit(.minutes(60)))
struct CrashTests {
    /// An operation, and the states that must be found before and after it.
    struct Scenario: Sendable, CustomTestStringConvertible {
        var name: String
        var capabilities: RemoteCapabilities?
        /// Prepares the state before the operation, without being observed.
        var prepare: @Sendable (Fixture) async throws -> Void
        /// The operation of the device "a" that dies, and that must complete when it runs again.
        var act: @Sendable (Device) async throws -> Void
        /// The notes that another device may pull from an image, where `nil` means that nothing is published.
        var mayBePulled: [Set<String>?]
        /// The notes that another device pulls at the end, or `nil` if nothing was pushed.
        var pulledAtEnd: Set<String>?
        /// The notes in the store of "a" at the end.
        var inStoreAtEnd: Set<String>?
        /// The minimum number of crash points: with fewer, the enumeration has missed some.
        var leastPoints: Int
        /// Whether the application is sealed.
        var isSealed = false

        var testDescription: String { isSealed ? "\(name), sealed" : name }

        var sealed: Scenario {
            var sealed = self
            sealed.isSealed = true
            // A sealed application has no fixed names to refresh.
            sealed.leastPoints -= 6
            return sealed
        }
    }

    private static let one: Set<String> = ["one"]
    private static let two: Set<String> = ["one", "two"]
    private static let three: Set<String> = ["one", "two", "three"]

    /// A prime, so that steps that recur at regular intervals aren't all skipped.
    private static let interval = TestDepth.choose(quick: 19, deep: 1)

    static let scenarios = unsealed + unsealed.map(\.sealed) + [delta]

    private static let delta = Scenario(
        name: "a push of a delta, which removes an old delta and the whole copy that it builds on",
        prepare: { fixture in
            let a = try fixture.device("a")
            var generator = SplitMix64(seed: 1)
            try RowStore.insert(30, into: a.store, &generator)
            for (note, rows) in [("one", 0), ("two", 0), ("", 30)] {
                if note.isEmpty { try RowStore.update(rows, in: a.store, &generator) } else { try a.write(note) }
                _ = try await a.push().value
            }
            try a.write("three")
        },
        act: { _ = try await $0.push().value },
        mayBePulled: [two, three],
        pulledAtEnd: three,
        inStoreAtEnd: three,
        leastPoints: 40,
        isSealed: true
    )

    private static let unsealed: [Scenario] = [
        Scenario(
            name: "the first registration of an application",
            prepare: { _ in },
            act: { _ = try await $0.register().value },
            mayBePulled: [nil],
            pulledAtEnd: nil,
            inStoreAtEnd: nil,
            leastPoints: 25
        ),
        Scenario(
            name: "the first registration where directories can't be moved exclusively",
            capabilities: RemoteCapabilities.all.subtracting(.exclusiveDirectoryMove),
            prepare: { _ in },
            act: { _ = try await $0.register().value },
            mayBePulled: [nil],
            pulledAtEnd: nil,
            inStoreAtEnd: nil,
            leastPoints: 20
        ),
        Scenario(
            name: "the first registration where the directory exists already",
            prepare: { fixture in
                try await fixture.remote.createDirectory(at: RemotePath(fixture.application.rawValue))
            },
            act: { _ = try await $0.register().value },
            mayBePulled: [nil],
            pulledAtEnd: nil,
            inStoreAtEnd: nil,
            leastPoints: 20
        ),
        Scenario(
            name: "the first registration of a document",
            prepare: { _ = try await $0.device("b").register().value },
            act: { _ = try await $0.registerDocument().value },
            mayBePulled: [nil],
            pulledAtEnd: nil,
            inStoreAtEnd: nil,
            leastPoints: 40
        ),
        Scenario(
            name: "the first push, to an empty remote",
            prepare: { try $0.device("a").write("one") },
            act: { _ = try await $0.push().value },
            mayBePulled: [nil, one],
            pulledAtEnd: one,
            inStoreAtEnd: one,
            leastPoints: 80
        ),
        Scenario(
            name: "a later push, which removes an old generation",
            prepare: { fixture in
                let a = try fixture.device("a")
                for note in ["one", "two"] {
                    try await a.push(adding: note)
                }
                try a.write("three")
            },
            act: { _ = try await $0.push().value },
            mayBePulled: [two, three],
            pulledAtEnd: three,
            inStoreAtEnd: three,
            leastPoints: 40
        ),
        Scenario(
            name: "the first pull on a new device",
            prepare: { fixture in
                try fixture.device("b").write("one")
                _ = try await fixture.device("b").push().value
            },
            act: { _ = try await $0.pull().value },
            mayBePulled: [one],
            pulledAtEnd: one,
            inStoreAtEnd: one,
            leastPoints: 30
        ),
        Scenario(
            name: "a pull that replaces a store",
            prepare: { fixture in
                let (a, b) = (try fixture.device("a"), try fixture.device("b"))
                try await b.push(adding: "one")
                _ = try await a.pull().value
                try Store.setJournalMode("wal", of: a.store)
                try await b.push(adding: "two")
            },
            act: { _ = try await $0.pull().value },
            mayBePulled: [two],
            pulledAtEnd: two,
            inStoreAtEnd: two,
            leastPoints: 30
        ),
        Scenario(
            name: "the registration and push of a document that was deleted",
            prepare: { fixture in
                let (a, b) = (try fixture.device("a"), try fixture.device("b"))
                try await b.push(adding: "one")
                _ = try await a.pull().value
                try await fixture.deleteDocument(by: b)
                try FileManager.default.removeItem(at: a.store)
                try a.write("one", "two")
            },
            act: { device in
                // The former store belongs to the deleted document, so the device pushes a store without history.
                let fresh = device.store.deletingLastPathComponent().appending(path: "fresh.sqlite")
                if !FileManager.default.fileExists(atPath: fresh.path) {
                    try Store.write(["one", "two"], to: fresh)
                }
                _ = try await device.push(fresh, recreates: true).value
            },
            mayBePulled: [nil, two],
            pulledAtEnd: two,
            inStoreAtEnd: two,
            leastPoints: 60
        ),
        Scenario(
            name: "the registration and push of a document that was deleted, with the store that the device has",
            prepare: { fixture in
                let (a, b) = (try fixture.device("a"), try fixture.device("b"))
                try await a.push(adding: "one")
                try await fixture.deleteDocument(by: b)
                try a.write("two")
            },
            act: { _ = try await $0.push(recreates: true).value },
            mayBePulled: [nil, two],
            pulledAtEnd: two,
            inStoreAtEnd: two,
            leastPoints: 50
        ),
    ]

    @Test(
        "D10 D13 F2 F10 F20: A crash between two steps leaves the former or the new state; the next run completes",
        arguments: scenarios
    )
    func everyPoint(scenario: Scenario) async throws {
        let fixture = try Fixture(password: scenario.isSealed ? "correct horse" : nil)
        try await scenario.prepare(fixture)
        let number = Self.scenarios.firstIndex { $0.testDescription == scenario.testDescription } ?? 0
        let images = try Images(of: fixture.folder, every: Self.interval, from: number % Self.interval)
        try await scenario.act(fixture.device("a", capabilities: scenario.capabilities) { try images.take($0) })
        #expect(images.count >= scenario.leastPoints && !images.points.isEmpty)
        print("crash points of \(scenario.testDescription): \(images.points.count) of \(images.count)")
        for point in images.points {
            try images.restore(point)
            try await inspect(fixture, scenario, "before the second run, died \(point.name)")
            let a = try fixture.device("a", capabilities: scenario.capabilities) { _ in }
            do {
                try await scenario.act(a)
            } catch {
                Issue.record("died \(point.name): the second run failed: \(error)")
                continue
            }
            try await checkEnd(of: fixture, a, scenario, "died \(point.name)")
        }
    }

    /// Checks what an uninvolved device finds.
    func inspect(_ fixture: Fixture, _ scenario: Scenario, _ comment: String) async throws {
        let spectator = try fixture.device("spectator")
        do {
            _ = try await spectator.pull().value
            let notes = try spectator.notes()
            #expect(scenario.mayBePulled.contains(notes), "\(comment): \(notes)")
        } catch let error as StoreSyncError {
            let nothing: Set<StoreSyncError.Code> = [
                .applicationMissing, .applicationIncomplete, .documentNotFound, .documentDeleted, .noUploadedStore,
            ]
            #expect(scenario.mayBePulled.contains(nil) && nothing.contains(error.code), "\(comment): \(error)")
        }
    }

    private func checkEnd(of fixture: Fixture, _ a: Device, _ scenario: Scenario, _ comment: String) async throws {
        _ = try await a.verify(repairs: true).value
        let report = try await a.verify().value
        #expect(report.problems.isEmpty && report.warnings.isEmpty, "\(comment): \(report)")
        let shared = try FileManager.default.contentsOfDirectory(atPath: fixture.share.path)
        #expect(shared == [fixture.application.rawValue], "\(comment): \(shared)")
        let home = try FileManager.default.contentsOfDirectory(atPath: a.store.deletingLastPathComponent().path)
        #expect(!home.contains { $0.contains(".storesync-") }, "\(comment): \(home)")
        if let expected = scenario.inStoreAtEnd {
            #expect(try a.notes() == expected, "\(comment)")
        }
        guard let expected = scenario.pulledAtEnd else { return }
        let latecomer = try fixture.device("latecomer")
        _ = try await latecomer.pull().value
        #expect(try latecomer.notes() == expected, "\(comment)")
    }
}

/// Images of a folder, taken while an operation works in it, that can be restored one after the other.
private final class Images: Sendable {
    struct Point: Sendable {
        var name: String
        var url: URL
    }

    private let folder: URL
    private let store: URL
    private let taken = Locked<(points: [Point], count: Int)>(([], 0))
    private let interval: Int
    private let first: Int

    /// Prepares for images of the steps `first`, `first + interval` and so on.
    init(of folder: URL, every interval: Int, from first: Int) throws {
        (self.folder, self.interval, self.first) = (folder, interval, first)
        store = folder.deletingLastPathComponent().appending(path: "storesync-test-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: store, withIntermediateDirectories: true)
    }

    deinit {
        try? FileManager.default.removeItem(at: store)
    }

    var points: [Point] { taken.withLock { $0.points } }
    /// The number of steps, with and without an image.
    var count: Int { taken.withLock { $0.count } }

    /// Takes an image, if it's the turn of this step.
    ///
    /// Another process copies the files: closing an SQLite file in this process would drop the locks on it.
    func take(_ name: String) throws {
        // One at a time, since requests run concurrently. An image catches them in progress, as a crash does.
        try taken.withLock { taken in
            let number = taken.count
            taken.count += 1
            guard number % interval == first else { return }
            let url = store.appending(path: "\(number)")
            let copy = Process()
            copy.executableURL = URL(fileURLWithPath: "/bin/cp")
            copy.arguments = ["-a", folder.path, url.path]
            copy.standardError = FileHandle.nullDevice
            try copy.run()
            copy.waitUntilExit()
            taken.points.append(Point(name: name, url: url))
        }
    }

    /// Moves an image to the folder's path, so it can be restored only once.
    func restore(_ point: Point) throws {
        try FileManager.default.removeItem(at: folder)
        try FileManager.default.moveItem(at: point.url, to: folder)
    }
}
