import Foundation
import Testing

@Suite("The documentation")
struct DocumentationTests {
    private let root = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    private func texts(in folder: String, _ suffix: String) throws -> [String] {
        let folder = root.appending(path: folder)
        let names = try #require(FileManager.default.enumerator(atPath: folder.path)).compactMap { $0 as? String }
        return try names.filter { $0.hasSuffix(suffix) }.sorted()
            .map { try String(contentsOf: folder.appending(path: $0), encoding: .utf8) }
    }

    @Test("its examples are ones that are compiled")
    func examples() throws {
        let blocks = try texts(in: "Sources/Operations/Operations.docc", ".md").flatMap { text in
            text.components(separatedBy: "```swift\n").dropFirst().map { $0.components(separatedBy: "```")[0] }
        }
        let sources = try ["OperationsTests", "OperationsMainActorTests"].flatMap { target in
            try texts(in: "Tests/\(target)", ".swift")
        }
        // In two parts, or it would stand here.
        let mark = "// " + "DOC: "
        let compiled = sources.flatMap { source in
            source.components(separatedBy: mark).dropFirst().filter { !$0.hasPrefix("end") }.map {
                unindented(Array($0.split(separator: "\n", omittingEmptySubsequences: false)))
            }
        }
        #expect(blocks.count > 15)
        for block in blocks { #expect(compiled.contains(block), "\(block)") }
        for example in compiled { #expect(blocks.contains(example), "it stands nowhere:\n\(example)") }
    }

    @Test("its first page names everything that is public")
    func everythingIsNamed() throws {
        let declaration = try Regex("(?m)^public (?:actor|class|enum|protocol|struct|typealias) ([A-Za-z]+)")
        let names = try texts(in: "Sources/Operations", ".swift")
            .flatMap { text in text.matches(of: declaration).compactMap { $0[1].substring.map(String.init) } }
        let page = try texts(in: "Sources/Operations/Operations.docc", "Operations.md").joined()
        #expect(names.count > 15)
        for name in names { #expect(page.contains("- ``\(name)``\n"), "\(name)") }
    }

    /// The lines between two marks without the indentation that they have here.
    private func unindented(_ lines: [Substring]) -> String {
        let body = lines.dropFirst().dropLast()
        let margin = body.filter { !$0.isEmpty }.map { $0.prefix { $0 == " " }.count }.min() ?? 0
        return body.map { String($0.dropFirst(margin)) }.joined(separator: "\n") + "\n"
    }
}
