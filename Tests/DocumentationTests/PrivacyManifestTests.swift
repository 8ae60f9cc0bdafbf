import Foundation
import Testing

@Suite("The privacy manifest")
struct PrivacyManifestTests {
    /// The declarations for which Apple requires a reason, by category.
    private static let declarations = [
        "FileTimestamp": #"\b[fl]?stat(at)?\(|[mM]odificationDate|creationDate|getattrlist"#,
        "DiskSpace": #"OfFileSystem|system(Free)?Size|\bf?statv?fs\(|volume(Available|Total)Capacity"#,
        "SystemBootTime": #"systemUptime|mach_absolute_time"#,
        "UserDefaults": #"UserDefaults"#,
        "ActiveKeyboards": #"activeInputModes"#,
    ]

    private struct Manifest: Decodable {
        struct Category: Decodable {
            let name: String
            let reasons: [String]

            enum CodingKeys: String, CodingKey {
                case name = "NSPrivacyAccessedAPIType"
                case reasons = "NSPrivacyAccessedAPITypeReasons"
            }
        }

        let categories: [Category]

        enum CodingKeys: String, CodingKey {
            case categories = "NSPrivacyAccessedAPITypes"
        }
    }

    @Test("The privacy manifest gives reasons for the categories of declarations that the sources use, and no others")
    func categories() throws {
        let tests = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        let sources = tests.deletingLastPathComponent().appending(path: "Sources")
        let names = try #require(FileManager.default.enumerator(atPath: sources.path)).compactMap { $0 as? String }
        let texts = try names.filter { $0.hasSuffix(".swift") }
            .map { try String(contentsOf: sources.appending(path: $0), encoding: .utf8) }
        let used = try Self.declarations.filter { _, pattern in
            let declaration = try Regex(pattern)
            return texts.contains { $0.contains(declaration) }
        }
        let manifest = try Data(contentsOf: sources.appending(path: "FileSupport/PrivacyInfo.xcprivacy"))
        let named = try PropertyListDecoder().decode(Manifest.self, from: manifest).categories
        #expect(Set(named.map(\.name)) == Set(used.keys.map { "NSPrivacyAccessedAPICategory\($0)" }))
        #expect(named.allSatisfy { !$0.reasons.isEmpty })
    }
}
