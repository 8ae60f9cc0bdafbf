import Foundation
import Operations
import OperationsTesting
import RemoteStorage
import TestSupport
import Testing
import ThreadSupport

@testable import StoreSync

/// A storage that changes some of its files when a certain request arrives.
private actor AttackingBackend: InterceptingBackend {
    /// The changes of files: a file's new content, or `nil` if it's removed.
    typealias Attack = [RemotePath: [UInt8]?]

    nonisolated let base: any RemoteBackend
    private let attack: Attack
    private var requestsLeft: Int
    private(set) var requests = 0

    init(_ base: any RemoteBackend, _ attack: Attack, atRequest number: Int) {
        (self.base, self.attack, requestsLeft) = (base, attack, number)
    }

    private func begin() async throws {
        requests += 1
        requestsLeft -= 1
        guard requestsLeft == -1 else { return }
        for (path, bytes) in attack {
            if let bytes { try await base.write(bytes, to: path, when: .always) } else { try await base.remove(path) }
        }
    }

    func status(of path: RemotePath) async throws -> RemoteItem? {
        try await begin()
        return try await base.status(of: path)
    }

    func list(_ directory: RemotePath) async throws -> [RemoteItem]? {
        try await begin()
        return try await base.list(directory)
    }

    func read(_ path: RemotePath, range: Range<Int64>?) async throws -> RemoteContent? {
        try await begin()
        return try await base.read(path, range: range)
    }
}

/// A storage that hides, puts back or plants files of a small sealed application, while commands run.
///
/// Deep tests try each file and each pair at each request. Otherwise a seed chooses a request, and some of the pairs.
@Suite("A storage that hides, puts back or plants files", .timeLimit(.minutes(600)))
struct HidingStorageTests {
    private enum Command: CaseIterable {
        case push, pull, verify, status
    }

    private enum Trick: CaseIterable {
        case hide, putBack, plant
    }

    /// The application, with the memories of two devices and the former content of its files.
    private final class Scene {
        let fixture: Fixture
        let template: InMemoryBackend
        let image: DeviceImage
        var files: [(path: RemotePath, former: [UInt8], planted: [UInt8])] = []
        let notes: Set<String> = ["one", "two", "three"]

        init() async throws {
            let place = InMemoryBackend()
            fixture = try Fixture(password: "correct horse battery staple", place: place)
            let (a, b) = (try fixture.device("a"), try fixture.device("b"))
            var former: [RemotePath: [UInt8]] = [:]
            for note in ["one", "two", "three"] {
                former = try await Self.files(in: place, .root)
                try await a.push(adding: note)
                _ = try await b.pull().value
            }
            template = await place.copy()
            let all = try await Self.files(in: place, .root)
            let gone = former.filter { all[$0.key] == nil && $0.key.lastComponent?.hasPrefix(".") == false }
            let planted = Array(all.values).sorted { $0.count < $1.count }
            for (path, bytes) in all.merging(gone, uniquingKeysWith: { first, _ in first })
                .sorted(by: { $0.key.description < $1.key.description })
            where path.lastComponent != "ReadMe.txt" {
                files.append((path, former[path] ?? bytes, planted[path.description.count % planted.count]))
            }
            image = try DeviceImage(of: ["a", "b"], in: fixture)
        }

        /// Returns every file below a path.
        static func files(in place: InMemoryBackend, _ path: RemotePath) async throws -> [RemotePath: [UInt8]] {
            var files: [RemotePath: [UInt8]] = [:]
            for item in try await place.list(path) ?? [] {
                let child = try path.appending(item.name)
                if item.kind == .directory {
                    files.merge(try await Self.files(in: place, child)) { $1 }
                } else {
                    files[child] = try await place.bytes(at: child)
                }
            }
            return files
        }

        /// Returns a device with the memory that it had before any attack.
        func device(_ name: String, _ backend: any RemoteBackend) throws -> Device {
            try image.restore(name)
            return try fixture.device(name, backend: backend)
        }

        /// Runs a command while the storage attacks, and returns the number of requests that it sent.
        func run(
            _ command: Command,
            _ attack: AttackingBackend.Attack,
            atRequest number: Int,
            _ comment: @autoclosure () -> String
        ) async throws -> Int {
            let place = await template.copy()
            let backend = AttackingBackend(place, attack, atRequest: number)
            let device = try device(command == .pull ? "b" : "a", backend)
            do {
                switch command {
                case .push:
                    try await device.push(adding: "four")
                case .pull:
                    _ = try await device.pull(overwrite: true).value
                case .verify: _ = try await device.verify(repairs: true).value
                case .status: _ = try await device.status().value
                }
            } catch is StoreSyncError {
                // Refused.
            }
            if command == .pull {
                #expect(try device.notes() == notes, "a silent rollback: \(comment())")
            }
            try await check(place, attack, comment())
            return await backend.requests
        }

        /// Checks that there is still one document, and that it has its former key.
        private func check(
            _ place: InMemoryBackend,
            _ attack: AttackingBackend.Attack,
            _ comment: @autoclosure () -> String
        ) async throws {
            let hierarchy = fixture.hierarchy
            let document = hierarchy.document(fixture.document)
            #expect(try await place.list(hierarchy.documents)?.count ?? 0 <= 1, "a second document: \(comment())")
            for path in [document.documentInfo, hierarchy.registration, hierarchy.passwordTest]
            where attack.keys.contains(path) == false {
                #expect(try await place.bytes(at: path) == template.bytes(at: path), "\(path) changed: \(comment())")
            }
            if case .some(nil) = attack[document.documentInfo] {
                let info = try await place.bytes(at: document.documentInfo)
                let former = try await template.bytes(at: document.documentInfo)
                #expect(info == nil || info == former, "a changed key: \(comment())")
            }
            let keys = try await place.list(document.integrityKeys)?.map(\.name) ?? []
            let known = try await template.list(document.integrityKeys)?.map(\.name) ?? []
            #expect(Set(keys).isSubset(of: known), "a new key: \(comment())")
        }
    }

    private func attack(_ file: (path: RemotePath, former: [UInt8], planted: [UInt8]), _ trick: Trick) -> [UInt8]? {
        switch trick {
        case .hide: nil
        case .putBack: file.former
        case .plant: file.planted
        }
    }

    @Test(
        "F1 F4: An attack on one file during push, pull, verify or status changes no key and rolls no store back",
        arguments: Command.allCases
    )
    private func singles(command: Command) async throws {
        let scene = try await Scene()
        #expect(scene.files.count >= 14)
        var generator = SplitMix64(seed: 1)
        for file in scene.files {
            for trick in Trick.allCases {
                var number = TestDepth.isDeep ? 0 : Int.random(in: 0..<12, using: &generator)
                while true {
                    let comment = "\(command), \(trick) \(file.path) at request \(number)"
                    let attack: AttackingBackend.Attack = [file.path: attack(file, trick)]
                    let sent = try await scene.run(command, attack, atRequest: number, comment)
                    number += 1
                    guard TestDepth.isDeep, number <= sent else { break }
                }
            }
        }
    }

    @Test(
        "F1 F4: An attack on two files during push, pull, verify or status changes no key and rolls no store back",
        arguments: Command.allCases
    )
    private func pairs(command: Command) async throws {
        let scene = try await Scene()
        var generator = SplitMix64(seed: 1)
        var runs = 0
        for (index, first) in scene.files.enumerated() {
            for second in scene.files.dropFirst(index + 1) {
                for (one, other) in Trick.allCases.flatMap({ one in Trick.allCases.map { (one, $0) } }) {
                    var number = TestDepth.isDeep ? 0 : Int.random(in: 0..<12, using: &generator)
                    guard TestDepth.isDeep || Int.random(in: 0..<128, using: &generator) == 0 else { continue }
                    while true {
                        let comment = "\(command), \(one) \(first.path), \(other) \(second.path) at request \(number)"
                        let attack: AttackingBackend.Attack = [
                            first.path: attack(first, one), second.path: attack(second, other),
                        ]
                        let sent = try await scene.run(command, attack, atRequest: number, comment)
                        runs += 1
                        number += 1
                        guard TestDepth.isDeep, number <= sent else { break }
                    }
                }
            }
        }
        print("\(command): \(runs) runs with a pair of files")
    }
}
