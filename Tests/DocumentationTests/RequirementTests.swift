import Foundation
import Testing

@Suite("The requirements of Tests/Requirements.md")
struct RequirementTests {
    private let tests = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()

    private func requirements() throws -> [String] {
        let text = try String(contentsOf: tests.appending(path: "Requirements.md"), encoding: .utf8)
        return text.matches(of: #/(?m)^\| ([A-Z]\d+) \| \S/#).map { String($0.1) }
    }

    /// The titles of all tests and suites.
    private func titles() throws -> [String] {
        let names = try #require(FileManager.default.enumerator(atPath: tests.path)).compactMap { $0 as? String }
        return try names.filter { $0.hasSuffix(".swift") && !$0.contains("/.build") }.flatMap { name in
            let source = try String(contentsOf: tests.appending(path: name), encoding: .utf8)
            return source.matches(of: #/@(?:Test|Suite)\(\s*"((?:[^"\\]|\\.)*)"/#).map { String($0.1) }
        }
    }

    /// The requirements that a title names: `R16, R27: …`, `D10 D13: …`, and ranges such as `H21–H23: …`.
    static func requirements(in title: String) -> [String] {
        guard let names = title.prefixMatch(of: #/((?:[A-Z]\d+(?:–[A-Z]\d+)?(?:, | )?)+):/#)?.1 else { return [] }
        return names.split { $0 == "," || $0 == " " }.flatMap { name in
            let ends = name.split(separator: "–").compactMap { Int($0.dropFirst()) }
            guard let first = ends.first, let last = ends.last, let letter = name.first, first <= last else {
                return [String(name)]
            }
            return (first...last).map { "\(letter)\($0)" }
        }
    }

    @Test("Every requirement is named by a test, and every requirement that a test names is listed once")
    func bothDirections() throws {
        let (requirements, titles) = (try requirements(), try titles())
        let named = Set(titles.flatMap { Self.requirements(in: $0) })
        #expect(titles.count > 1000 && requirements.count > 140)
        #expect(Set(requirements).count == requirements.count)
        #expect(Set(requirements).subtracting(named) == [], "no test names these requirements")
        #expect(named.subtracting(requirements) == [], "tests name these requirements, which don't exist")
    }

    @Test("The requirements that a title names are read, ranges included, and other titles name none")
    func parsing() {
        #expect(Self.requirements(in: "R1, R3–R5, H10: a title: with a colon") == ["R1", "R3", "R4", "R5", "H10"])
        #expect(Self.requirements(in: "D10 D13: a title") == ["D10", "D13"])
        for title in ["a title", "S3 is a server", "UTF8: a title", "On S3: a title"] {
            #expect(Self.requirements(in: title) == [], "\(title)")
        }
    }
}
