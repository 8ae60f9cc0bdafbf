import Foundation
import Operations
import RemoteStorage
import SyncCryptography
import Testing

@testable import StoreSync

@Suite("A directory or file at an application's path that isn't an application", .timeLimit(.minutes(60)))
struct ForeignDirectoryTests {
    /// What is in the place.
    enum Content: String, Sendable, CaseIterable {
        case nothing, otherFiles, directoriesOfSuchNames, file

        var names: [String] {
            switch self {
            case .nothing: []
            case .otherFiles: ["/2025/beach.jpg", "/index.txt"]
            case .directoriesOfSuchNames:
                ["/ClientDevices/laptop/manual.pdf", "/Documents/taxes/2025.pdf", "/ReadMe.txt"]
            case .file: [""]
            }
        }

        /// Directories named like those of an application may be an application that is still arriving.
        var code: StoreSyncError.Code { self == .directoriesOfSuchNames ? .applicationIncomplete : .applicationMissing }
    }

    @Test(
        "A foreign directory or file at an application's path is neither removed nor reported as an application",
        arguments: Content.allCases
    )
    func refused(_ content: Content) async throws {
        let fixture = try Fixture()
        let root = fixture.url(fixture.hierarchy.root)
        if content == .nothing {
            try FileManager.default.createDirectory(at: root, withIntermediateDirectories: false)
        }
        for name in content.names { try fixture.put(Data("mine".utf8), at: "\(fixture.application)\(name)") }
        let before = try fixture.files()
        let device = try fixture.device("device")
        let client = try RemoteIdentifier("laptop")
        #expect(await code { try await device.removeApplication().value } == content.code)
        #expect(await code { try await device.removeDocument().value } == content.code)
        #expect(await code { try await device.remove(client).value } == content.code)
        #expect(await code { try await device.listDocuments().value } == content.code)
        #expect(await code { try await device.listClients().value } == content.code)
        #expect(await code { try await device.status().value } == content.code)
        if content == .directoriesOfSuchNames {
            let report = try await device.verify(repairs: true).value
            #expect(report.problems.map(\.code) == ["\(content.code)"] && report.repaired.isEmpty, "\(report)")
        } else {
            #expect(await code { try await device.verify(repairs: true).value } == content.code)
        }
        let change = PasswordChangeOperation(
            to: try Password.cheap("new"),
            of: fixture.application,
            backend: device.backend,
            state: device.state
        )
        #expect(await code { try await device.supervisor.add(change).value } == content.code)
        #expect(try fixture.files() == before)
        #expect(FileManager.default.fileExists(atPath: root.path))
    }

    /// A storage whose directories of one name contain directories of that name.
    private actor LoopingBackend: ForwardingBackend {
        nonisolated let base: any RemoteBackend
        let count: Int

        init(_ base: any RemoteBackend, count: Int) { (self.base, self.count) = (base, count) }

        func list(_ directory: RemotePath) async throws -> [RemoteItem]? {
            guard directory.lastComponent?.hasPrefix("loop") == true else { return try await base.list(directory) }
            return (0..<count).map { RemoteItem(name: "loop\($0)", kind: .directory) }
        }
    }

    @Test("A verification ends although directories contain themselves, and says which one it hasn't checked")
    func loop() async throws {
        let fixture = try Fixture()
        _ = try await fixture.device("a").register().value
        try await fixture.remote.createDirectory(at: fixture.hierarchy.root.appending("loop"))
        let report = try await fixture.device("a", backend: LoopingBackend(fixture.remote, count: 1)).verify().value
        #expect(report.warnings.contains { $0.contains("loop0/loop0 isn't checked") }, "\(report)")
        let wide = try fixture.device("a", backend: LoopingBackend(fixture.remote, count: 100_000))
        #expect(await code { try await wide.verify().value } == .remoteUnavailable)
    }
}
