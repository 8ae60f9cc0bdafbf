import Foundation
import Operations
import RemoteStorage
import Testing

@testable import StoreSync

@Suite("No order of pushes and pulls loses a note", .timeLimit(.minutes(60)))
struct HistoryTests {
    /// An action of one of two devices.
    enum Step: CaseIterable, Sendable {
        case aEditsAndPushes, bEditsAndPushes, aPulls, bPulls, aEdits, bEdits

        var isOfA: Bool { [.aEditsAndPushes, .aPulls, .aEdits].contains(self) }
        var edits: Bool { ![.aPulls, .bPulls].contains(self) }
        var pushes: Bool { [.aEditsAndPushes, .bEditsAndPushes].contains(self) }
    }

    @Test("D16: After any sequence of three steps each note is where a model expects it, or the pull names the reason")
    func everySequence() async throws {
        try await Self.run(Self.sequences(of: Step.allCases, length: 3), skew: 0)
    }

    @Test("D17: No order of pushes and pulls loses a note if clocks are a year apart", arguments: [-1, 1])
    func clockSkew(years: Int) async throws {
        let steps: [Step] = [.aEditsAndPushes, .bEditsAndPushes, .aPulls, .bPulls]
        try await Self.run(Self.sequences(of: steps, length: 3), skew: TimeInterval(years) * 366 * 86_400)
    }

    @Test("A device that pulls another's store after a divergence continues from it, and the other device follows")
    func resolution() async throws {
        let fixture = try Fixture()
        let backend = InMemoryBackend()
        let (a, b) = (try fixture.device("a", backend: backend), try fixture.device("b", backend: backend))
        let clientA = try await a.push(adding: "base").client
        _ = try await b.pull().value
        try a.write("from a")
        try b.write("from b")
        _ = try await a.push().value
        let second = try await b.push().value
        #expect(second.divergedFrom == [clientA])
        for device in [a, b] { #expect(await code { try await device.pull().value } == .diverged) }
        // A refused pull leaves every store as it was.
        #expect(try a.notes() == ["base", "from a"])
        #expect(try b.notes() == ["base", "from b"])

        try b.write("never pushed")
        #expect(await code { try await b.pull(from: clientA).value } == .localChanges)
        #expect(try await b.pull(from: clientA, overwrite: true).value.from == clientA)
        #expect(try b.notes() == ["base", "from a"])
        try b.write("after")
        #expect(try await b.push().value.divergedFrom == [second.client], "its former upload is still a head")
        #expect(await code { try await a.pull().value } == .diverged)
        #expect(try await b.push(resolves: true).value.divergedFrom.isEmpty)
        #expect(try await a.pull().value.from == second.client)
        #expect(try a.notes() == ["base", "from a", "after"])
    }

    @Test("A push that settles a divergence names the uploads that this device has never pulled")
    func unseenHeads() async throws {
        let fixture = try Fixture()
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        let clientA = try await a.push(adding: "base").client
        _ = try await b.pull().value
        let clientB = try await b.push(adding: "from b").client
        try await a.push(adding: "from a")
        _ = try await b.pull(from: clientA, overwrite: true).value
        try b.write("after")
        let seen = try await b.push(resolves: true).value.warnings
        #expect(!seen.contains { $0.contains("never pulled") }, "\(seen)")
        try await a.push(adding: "from a again")
        let unseen = try await a.push(resolves: true).value.warnings
        #expect(unseen.contains { $0.contains("never pulled") && $0.contains("--from \(clientB)") }, "\(unseen)")
    }

    @Test("No warning says that a device has never pulled an upload that its store contains, if a later one is damaged")
    func containedHead() async throws {
        let fixture = try Fixture(password: "correct horse")
        let (a, b) = (try fixture.device("a"), try fixture.device("b"))
        try await a.push(adding: "one")
        _ = try await b.pull().value
        try await b.push(adding: "two")
        let path = try #require(try fixture.files().keys.first { $0.contains("/manifest-2-") })
        let content = try #require(try fixture.files()[path])
        try fixture.put(content.dropLast(), at: path)
        let upload = try await b.push(adding: "three")
        #expect(upload.generation == 3)
        #expect(!upload.warnings.contains { $0.contains("never pulled") }, "\(upload.warnings)")
    }

    // MARK: The model

    /// An independent model of the notes that both devices must have, in plain sets.
    private struct Model {
        var local: [String: Set<String>] = [:]
        var synchronized: [String: Set<String>] = [:]
        var uploads: [Set<String>] = []

        var allPushed: Set<String> { uploads.reduce([]) { $0.union($1) } }

        /// Returns the code of the error that a pull must throw, or `nil` if it must succeed.
        func refusal(of device: String) -> StoreSyncError.Code? {
            guard !uploads.isEmpty else { return .applicationMissing }
            guard uploads.contains(allPushed) else { return .diverged }
            return local[device] == synchronized[device] ? nil : .localChanges
        }
    }

    private static func sequences(of steps: [Step], length: Int) -> [[Step]] {
        (0..<length).reduce([[]]) { sequences, _ in sequences.flatMap { sequence in steps.map { sequence + [$0] } } }
    }

    private static func run(_ sequences: [[Step]], skew: TimeInterval) async throws {
        let workers = 4
        try await withThrowingTaskGroup(of: Void.self) { group in
            for worker in 0..<workers {
                group.addTask {
                    for index in stride(from: worker, to: sequences.count, by: workers) {
                        try await run(sequences[index], skew: skew)
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    private static func run(_ steps: [Step], skew: TimeInterval) async throws {
        let fixture = try Fixture()
        let backend = InMemoryBackend()
        let (a, b) = (try fixture.device("a", backend: backend), try fixture.device("b", backend: backend))
        var model = Model()
        for (index, step) in steps.enumerated() {
            let device = step.isOfA ? a : b
            if step.edits {
                try device.write("note \(index)")
                model.local[device.name, default: []].insert("note \(index)")
            }
            if step.pushes {
                try await push(device, &model, steps)
                if skew != 0 { try await shiftDates(backend, fixture, by: step.isOfA ? skew : -skew) }
            } else if !step.edits {
                try await pull(device, &model, steps)
            }
            for device in [a, b] {
                guard let expected = model.local[device.name] else { continue }
                #expect(try device.notes() == expected, "\(steps)")
            }
        }
    }

    private static func push(_ device: Device, _ model: inout Model, _ steps: [Step]) async throws {
        let content = model.local[device.name, default: []]
        guard model.uploads.isEmpty || model.synchronized[device.name] != nil else {
            #expect(await code { try await device.push().value } == .unrelatedStore, "\(steps)")
            return
        }
        let upload = try await device.push().value
        model.synchronized[device.name] = content
        model.uploads.append(content)
        #expect(upload.divergedFrom.isEmpty == (content == model.allPushed), "\(steps)")
        #expect(!upload.isUnchanged, "\(steps)")
    }

    private static func pull(_ device: Device, _ model: inout Model, _ steps: [Step]) async throws {
        guard let refusal = model.refusal(of: device.name) else {
            let before = model.local[device.name, default: []]
            _ = try await device.pull().value
            let after = try device.notes()
            #expect(after.isSuperset(of: before), "a pull lost a note of its own device: \(steps)")
            #expect(after == model.allPushed, "a pull that succeeds brings every pushed note: \(steps)")
            model.local[device.name] = after
            model.synchronized[device.name] = after
            return
        }
        #expect(await code { try await device.pull().value } == refusal, "\(steps)")
    }

    /// Rewrites the date in the newest manifest as a device with a wrong clock would have written it.
    private static func shiftDates(
        _ backend: InMemoryBackend,
        _ fixture: Fixture,
        by shift: TimeInterval
    ) async throws {
        let hierarchy = fixture.hierarchy.document(fixture.document)
        let hooks = backend.wholeStoreDownloadHooks
        let published = try await PublishedStores.list(hooks, hierarchy).published
        let (manifests, unreadable) = try await UploadCatalog(
            hooks: hooks,
            hierarchy: hierarchy,
            seal: ApplicationSeal(application: fixture.application, key: nil),
            identity: DocumentIdentity(document: fixture.document, integrityKey: "")
        ).manifests(of: published)
        #expect(unreadable.isEmpty)
        for var manifest in manifests where abs(manifest.created.timeIntervalSinceNow) < 86_400 {
            manifest.created += shift
            try await backend.write(manifest.xml, to: hierarchy.manifest(manifest.name), when: .always)
        }
    }
}
