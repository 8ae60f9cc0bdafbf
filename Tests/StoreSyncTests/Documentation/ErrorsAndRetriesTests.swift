import Foundation
import Operations
import RemoteStorage
import Testing

@testable import StoreSync

@Suite("Errors and retries", .timeLimit(.minutes(60)))
struct ErrorsAndRetriesTests {
    private static let sources = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().appending(path: "Sources")

    private static func text(_ path: String) throws -> String {
        try String(contentsOf: sources.appending(path: "StoreSync/\(path)"), encoding: .utf8)
    }

    @Test("The article's table has every error code, in order, and says which are retried")
    func table() throws {
        let codes = try Self.text("StoreSyncError.swift").matches(
            of: #/static let ([a-zA-Z]+) = Code\("([a-zA-Z]+)"\)/#
        )
        #expect(codes.count > 30)
        for code in codes { #expect(code.1 == code.2) }
        let names = codes.map { String($0.1) }.sorted()
        let rows = try Self.text("StoreSync.docc/ErrorsAndRetries.md").matches(of: #/\| `([a-zA-Z]+)` \| (yes|no) \|/#)
        #expect(rows.map { String($0.1) } == names)
        for row in rows {
            let code = StoreSyncError.Code(String(row.1))
            #expect(code.isTemporary == (row.2 == "yes"), "\(code)")
            #expect(RetryPolicy.whileTemporary.shouldRetry(StoreSyncError(code, "")) == code.isTemporary, "\(code)")
        }
        #expect(rows.count { $0.2 == "yes" } == 4)
    }

    @Test("The article says what an app has in place of each option of the command that a message names")
    func options() throws {
        let article = try Self.text("StoreSync.docc/ErrorsAndRetries.md")
        let rows = article.matches(of: #/(?m)^\| (`(?:--|storesync ).*?) \|/#)
        let listed = rows.flatMap { Self.options(in: $0.1) }
        var named: Set<String> = []
        let paths = try #require(FileManager.default.enumerator(atPath: Self.sources.path)).compactMap { $0 as? String }
        for path in paths
        where path.hasSuffix(".swift") && path.firstMatch(of: #/^(StoreSyncCommand|OperationsTesting)\//#) == nil {
            let text = try String(contentsOf: Self.sources.appending(path: path), encoding: .utf8)
            for line in text.split(separator: "\n") where line.firstMatch(of: #/^ *\/\//#) == nil {
                named.formUnion(Self.options(in: line))
            }
        }
        #expect(listed.sorted() == named.sorted())
    }

    private static func options(in text: Substring) -> [String] {
        text.matches(of: #/(?:^|[^a-z-])(--[a-z][a-z-]+)/#).map { String($0.1) }
    }

    @Test("The default policy retries an app's own operation while the storage can't be reached, and nothing unknown")
    func policy() {
        let policy = RetryPolicy.whileTemporary
        #expect(policy.shouldRetry(RemoteError(.unavailable, "")))
        #expect(!policy.shouldRetry(RemoteError(.unauthorized, "")))
        #expect(!policy.shouldRetry(CancellationError()))
        #expect(policy.maximumAttempts == 3 && policy.initialDelay == .seconds(1) && policy.multiplier == 2)
    }

    @Test("The example of a retry policy works")
    func example() async throws {
        let fixture = try Fixture()
        let device = try fixture.device("device")
        try device.write("one")
        let (store, delegate) = (device.store, await AppDelegate())
        var manager = device.manager(delegate)
        let document = manager.document(fixture.document)
        // DOC: retry
        var patient = RetryPolicy.whileTemporary
        patient.maximumAttempts = 10
        let nightly = document.upload(storeAt: store, options: OperationOptions(retry: patient))
        manager.retry = RetryPolicy(maximumAttempts: 1)
        // DOC: end
        #expect(try await nightly.value.generation == 1)
        #expect(try await manager.document(fixture.document).upload(storeAt: store).value.isUnchanged)
    }
}
