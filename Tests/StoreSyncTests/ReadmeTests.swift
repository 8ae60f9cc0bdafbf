import Foundation
import GRDB
import Operations
import RemoteStorage
import SyncCryptography
import Testing

@testable import StoreSync

// The README's examples, between the marks, exactly as in the README.

// README: Asker
@MainActor final class Asker: ApplicationSyncDelegate {
    func decideEncryption(
        _ question: EncryptionQuestion,
        of application: RemoteIdentifier
    ) async throws -> EncryptionDecision {
        // An app shows a password field here.
        guard question != .joiningEncrypted(passwordWasWrong: true) else {
            throw StoreSyncError(.wrongPassword, "This isn't the password of \(application). Enter it again.")
        }
        return .encrypted(try Password("correct horse battery staple"))
    }
}
// README: end

// README: WordCount
actor WordCount: Operation {
    let text: String
    init(_ text: String) { self.text = text }

    func main(_ context: OperationContext) async throws -> Int {
        context.reportProgress(0.5)
        return text.split(separator: " ").count
    }
}
// README: end

@Suite("The README", .timeLimit(.minutes(60)))
struct ReadmeTests {
    @Test("The README's library example compiles and does what it says")
    func libraryExample() async throws {
        let fixture = try Fixture()
        let (share, memory) = (fixture.share, fixture.folder.appending(path: "memory"))
        let database = fixture.folder.appending(path: "notes.sqlite")
        let app = try DatabaseQueue(path: database.path)
        try await app.write { try $0.execute(sql: "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT)") }
        try app.close()
        let delegate = Asker()
        // README: library
        let manager = ApplicationSyncManager(
            application: try RemoteIdentifier("org.example.notes"),
            clientDescription: "my laptop",
            backend: LocalFolderBackend(root: share),
            state: try await .open(at: memory),
            delegate: delegate
        )
        let notes = manager.document(try RemoteIdentifier("notes"))
        let result = try await notes.synchronize(SynchronizationRequest(url: database)).value
        print("tables that changed: \(result.applied.count), conflicts: \(result.conflicts)")
        // README: end
        #expect(result.transfer == .uploaded && result.conflicts == 0)
        withExtendedLifetime(delegate) {}
    }

    @Test("The README's delegate ends an operation whose password is wrong")
    func wrongPassword() async throws {
        let fixture = try Fixture(password: "another password")
        _ = try await fixture.device("a").register().value
        let device = try fixture.device("b")
        let delegate = Asker()
        let manager = device.manager(delegate)
        #expect(await code { try await manager.register().value } == .wrongPassword)
        withExtendedLifetime(delegate) {}
    }

    @Test("The README's operation example compiles and does what it says")
    func operationExample() async throws {
        // README: supervisor
        let supervisor = OperationSupervisor(width: 2)
        let count = supervisor.add(WordCount("one two three"))
        let twice = count.then { WordCount(String(repeating: "word ", count: 2 * $0)) }
        print(try await twice.value)
        // README: end
        #expect(try await twice.value == 6)
    }

    @Test("The README's examples are identical to the compiled examples of this file")
    func examplesAreTheSame() throws {
        let here = URL(filePath: #filePath)
        let root = here.deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        let readme = try String(contentsOf: root.appending(path: "README.md"), encoding: .utf8)
        let blocks = readme.components(separatedBy: "```swift\n").dropFirst()
            .map { $0.components(separatedBy: "```")[0] }
        let source = try String(contentsOf: here, encoding: .utf8)
        let compiled = source.components(separatedBy: "// README: ").dropFirst()
            .filter { !$0.hasPrefix("end") }.map {
                unindented(Array($0.split(separator: "\n", omittingEmptySubsequences: false)))
            }
        #expect(blocks.count == 4)
        for block in blocks { #expect(compiled.contains(block), "\(block)") }
    }

    /// The lines between two marks without the indentation that they have here.
    private func unindented(_ lines: [Substring]) -> String {
        let body = lines.dropFirst().dropLast()
        let margin = body.filter { !$0.isEmpty }.map { $0.prefix { $0 == " " }.count }.min() ?? 0
        return body.map { String($0.dropFirst(margin)) }.joined(separator: "\n") + "\n"
    }
}
