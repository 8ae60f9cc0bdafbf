import Foundation
import OperationsTesting
import TestSupport
import Testing

@testable import Keychain

@Suite("Entitlements")
struct EntitlementsTests {
    private static let dictionary = """
        <dict>
        <key>application-identifier</key>
        <string>F3FU372W5M.com.pixolity.ios.cookbook.SecurityApp</string>
        <key>com.apple.developer.default-data-protection</key>
        <string>NSFileProtectionComplete</string>
        <key>get-task-allow</key>
        <true/>
        <key>keychain-access-groups</key>
        <array>
        <string>F3FU372W5M.*</string>
        </array>
        </dict>
        """

    private static func file(_ content: String) -> [UInt8] {
        Array("<plist version=\"1.0\">\n\(content)\n</plist>".utf8)
    }

    private func expectInvalid(_ content: String, _ words: String, sourceLocation: SourceLocation = #_sourceLocation)
        async
    {
        await expect(.invalidEntitlements, words, sourceLocation: sourceLocation) {
            _ = try Entitlements(propertyList: Array(content.utf8))
        }
    }

    @Test("K1, K4: The entitlements of a provisioning profile are read exactly as copied")
    func profile() throws {
        let expected = try Entitlements(
            applicationIdentifier: AccessGroupPattern("F3FU372W5M.com.pixolity.ios.cookbook.SecurityApp"),
            keychainAccessGroups: [AccessGroupPattern("F3FU372W5M.*")],
            allowsDebugging: true,
            defaultDataProtection: "NSFileProtectionComplete"
        )
        #expect(try Entitlements(propertyList: Self.file(Self.dictionary)) == expected)
        let header = """
            <?xml version="1.0" encoding="UTF-8"?>
            <!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
            <!-- of the profile -->

            """
        let file = Array("\u{FEFF}\(header)".utf8) + Self.file("<!-- the team's --> " + Self.dictionary)
        #expect(try Entitlements(propertyList: file) == expected)
    }

    @Test("K2: A build setting with the source root and the target's name gives the file's location")
    func location() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "root-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        let target = folder.appending(path: "MyProject")
        try FileManager.default.createDirectory(at: target, withIntermediateDirectories: true)
        try Data(Self.file(Self.dictionary)).write(to: target.appending(path: "Entitlements.plist"))
        for setting in ["$(TARGET_NAME)/Entitlements.plist", "$(SRCROOT)/$(TARGET_NAME)/Entitlements.plist"] {
            let url = try Entitlements.location(setting: setting, sourceRoot: folder, targetName: "MyProject")
            #expect(url.path == target.appending(path: "Entitlements.plist").path)
            #expect(try Entitlements(contentsOf: url).allowsDebugging)
        }
        await expect(.invalidEntitlements, "$(CONFIGURATION)") {
            _ = try Entitlements.location(
                setting: "$(CONFIGURATION)/E.plist",
                sourceRoot: folder,
                targetName: "MyProject"
            )
        }
        await expect(.cannotRead) { _ = try Entitlements(contentsOf: target.appending(path: "nothing.plist")) }
        await expect(.cannotRead) { _ = try Entitlements(contentsOf: target) }
    }

    @Test("K3: A dangling root key isn't in the correct format, and the error says which line to remove")
    func danglingKey() async {
        for space in ["", "\n", "\n<!-- copied -->\n"] {
            await expectInvalid(
                "<plist version=\"1.0\">\(space)<key>Entitlements</key>\n\(Self.dictionary)</plist>",
                """
                isn't in the correct format: the key "Entitlements" dangles above the dictionary. Remove the line \
                <key>Entitlements</key>, so that <dict> comes right after <plist>.
                """
            )
        }
    }

    @Test("K3: The error names every other fault of the format")
    func malformed() async {
        await expectInvalid("", "isn't an XML property list")
        await expectInvalid("{}", "isn't an XML property list")
        await expectInvalid("bplist00", "isn't an XML property list")
        await expectInvalid("<html></html>", "isn't an XML property list")
        await expectInvalid("<plist><array/></plist>", "no <dict> right after <plist>")
        await expectInvalid("<plist><dict>", "isn't a whole property list")
        await expectInvalid("<plist><dict></dict><dict></dict></plist>", "isn't a whole property list")
        await expectInvalid("<!DOCTYPE plist [<!ENTITY a \"b\">]><plist><dict/></plist>", "document type of its own")
        await expectInvalid(String(repeating: " ", count: 1 << 17), "64 KiB")
        let wrong = "<plist><dict><key>keychain-access-groups</key><string>TEAM.*</string></dict></plist>"
        await expectInvalid(wrong, "keychain-access-groups has the wrong type")
        let deep = String(repeating: "<array>", count: 5_000) + String(repeating: "</array>", count: 5_000)
        await expectInvalid("<plist><dict><key>deep</key>\(deep.prefix(60_000))</dict></plist>", "tags")
    }

    @Test("K13: A pattern entitles to the groups of its team and to no other")
    func patterns() throws {
        let entitlements = Entitlements.notes
        for group in ["TEAM.org.example.notes", "TEAM.shared", "TEAM.*"] { #expect(entitlements.covers(group)) }
        for group in ["TEAM", "TEAM.", "TEAMX.shared", "team.shared", "OTHER.shared", "*", ""] {
            #expect(!entitlements.covers(group), "\(group)")
        }
        #expect(entitlements.defaultAccessGroup == "TEAM.org.example.notes")
        let exact = try AccessGroupPattern("TEAM.a")
        #expect(exact.covers("TEAM.a") && !exact.covers("TEAM.a.b"))
        #expect(try Entitlements(applicationIdentifier: AccessGroupPattern("TEAM.*")).defaultAccessGroup == nil)
        // Bytes are compared: a combining character changes no prefix.
        #expect(entitlements.covers("TEAM.\u{301}shared"))
    }

    @Test(
        "K13: A text that would cover other teams' groups isn't a valid pattern",
        arguments: ["*", ".*", "TEAM*", "TEAM.*.shared", "*.shared", "TEAM.**", "", "a\u{0}"]
    )
    func badPatterns(text: String) async {
        await expect(.invalidEntitlements, "isn't an access group") { _ = try AccessGroupPattern(text) }
    }

    @Test("Damaged files are read or refused with a typed error, without a crash")
    func mutations() {
        let whole = Self.file(Self.dictionary)
        var refused = 0
        let seeds = TestDepth.seeds(quick: 500, ci: 2_000, deep: 100_000)
        for seed in seeds {
            var generator = SplitMix64(seed: seed)
            var file = whole
            for _ in 0...Int.random(in: 0..<4, using: &generator) { file.mutate(using: &generator) }
            do {
                _ = try Entitlements(propertyList: file)
            } catch {
                #expect(error.code == .invalidEntitlements)
                refused += 1
            }
        }
        #expect(refused > seeds.count / 2)
    }
}

extension [UInt8] {
    /// Changes, removes, doubles or exchanges a few bytes.
    mutating func mutate(using generator: inout some RandomNumberGenerator) {
        guard count > 4 else { return append(UInt8.random(in: 0...255, using: &generator)) }
        let start = Int.random(in: 0..<count - 1, using: &generator)
        let end = Int.random(in: start + 1..<Swift.min(count, start + 40), using: &generator)
        switch Int.random(in: 0..<5, using: &generator) {
        case 0: self[start] = UInt8.random(in: 0...255, using: &generator)
        case 1: removeSubrange(start..<end)
        case 2: insert(contentsOf: self[start..<end], at: Int.random(in: 0..<count, using: &generator))
        case 3: self[start] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
        default: removeLast(Swift.min(count, end - start))
        }
    }
}
