import Foundation
import Testing

@Suite("The documentation")
struct DocumentationTests {
    /// A module with articles, and the test targets that compile their examples between `// DOC: name` and `// DOC: end`.
    struct Module: Sendable, CustomTestStringConvertible {
        let name: String
        let tests: [String]

        init(_ name: String, _ tests: String...) {
            self.name = name
            self.tests = tests
        }

        var testDescription: String { name }
    }

    private static let modules = [
        Module("Keychain", "KeychainTests"),
        Module("Operations", "OperationsTests", "OperationsMainActorTests"),
        Module("OperationsTesting", "OperationsTestingTests"),
        Module("RemoteStorage", "RemoteStorageTests"),
        Module("RemoteStorageS3", "RemoteStorageS3Tests"),
        Module("RemoteStorageTesting", "RemoteStorageTestingTests"),
        Module("RemoteStorageWebDAV", "RemoteStorageWebDAVTests"),
        Module("StoreChanges", "StoreChangesTests"),
        Module("StoreSync", "StoreSyncTests"),
        Module("StoreSyncGRDB", "StoreSyncGRDBTests"),
        Module("SyncCryptography", "SyncCryptographyTests"),
    ]

    private let root = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    private func texts(in folder: String, _ suffix: String) throws -> [String] {
        let folder = root.appending(path: folder)
        let names = try #require(FileManager.default.enumerator(atPath: folder.path)).compactMap { $0 as? String }
        return try names.filter { $0.hasSuffix(suffix) }.sorted()
            .map { try String(contentsOf: folder.appending(path: $0), encoding: .utf8) }
    }

    @Test("Every example of the articles is compiled in a test", arguments: modules)
    func examples(module: Module) throws {
        let blocks = try texts(in: "Sources/\(module.name)", ".md").flatMap { text in
            text.components(separatedBy: "```swift\n").dropFirst().map { $0.components(separatedBy: "```")[0] }
        }
        let compiled = try module.tests.flatMap { try texts(in: "Tests/\($0)", ".swift") }.flatMap { source in
            source.components(separatedBy: "// DOC: ").dropFirst().filter { !$0.hasPrefix("end") }.map {
                unindented(Array($0.split(separator: "\n", omittingEmptySubsequences: false)))
            }
        }
        #expect(!blocks.isEmpty)
        for block in blocks { #expect(compiled.contains(block), "\(block)") }
        for example in compiled { #expect(blocks.contains(example), "no article contains it:\n\(example)") }
    }

    @Test(
        "A module's landing page names every public type, or what the module adds to another module's types",
        arguments: modules
    )
    func everythingIsNamed(module: Module) throws {
        let declaration = try Regex("(?m)^public (?:actor|class|enum|protocol|struct|typealias) ([A-Za-z0-9]+)")
        // A type that exists on Apple's systems only can't be linked in the documentation that is built on Linux.
        let names = try texts(in: "Sources/\(module.name)", ".swift")
            .filter { !$0.hasPrefix("#if canImport(Security)") }
            .flatMap { text in text.matches(of: declaration).compactMap { $0[1].substring.map(String.init) } }
        let page = try texts(in: "Sources/\(module.name)/\(module.name).docc", "\(module.name).md").joined()
        for name in names { #expect(page.contains("- ``\(name)``\n"), "\(name)") }
        guard names.isEmpty else { return }
        // A module without types extends those of another module.
        let member = try Regex("(?m)^    public (?:func )?([A-Za-z]+)\\(")
        let members = try texts(in: "Sources/\(module.name)", ".swift")
            .flatMap { text in text.matches(of: member).compactMap { $0[1].substring.map(String.init) } }
        #expect(!members.isEmpty)
        for name in members { #expect(page.contains("/\(name)("), "\(name)") }
    }

    /// The lines between two marks, without their common indentation.
    private func unindented(_ lines: [Substring]) -> String {
        let body = lines.dropFirst().dropLast()
        let margin = body.filter { !$0.isEmpty }.map { $0.prefix { $0 == " " }.count }.min() ?? 0
        return body.map { String($0.dropFirst(margin)) }.joined(separator: "\n") + "\n"
    }
}
