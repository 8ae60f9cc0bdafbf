import Foundation
import SyncCryptography
import Testing

@testable import Keychain

@Suite("The keychain as the seed describes it", .timeLimit(.minutes(60)))
struct SeedTests {
    private let fixture: KeychainFixture
    /// Two applications of a team, which share the team's groups and are signed for their own identifiers.
    private let writer: FileKeychain
    private let reader: FileKeychain

    private static let service = "com.pixolity.ios.cookbook.SecurityApp"
    private static let group = "F3FU372W5M.*"

    init() async throws {
        fixture = try KeychainFixture()
        writer = try await fixture.open("shared.sqlite", Self.entitlements(Self.service))
        reader = try await fixture.open(
            "shared.sqlite",
            Self.entitlements("com.pixolity.ios.cookbook.SecondSecurityApp")
        )
    }

    private static func entitlements(_ bundle: String) throws -> Entitlements {
        try Entitlements(
            applicationIdentifier: AccessGroupPattern("F3FU372W5M.\(bundle)"),
            keychainAccessGroups: [AccessGroupPattern(group)]
        )
    }

    private static func item(isSynchronizable: Bool = false) -> KeychainItem {
        KeychainItem(service: service, account: "Full Name", accessGroup: group, isSynchronizable: isSynchronizable)
    }

    @Test("K5, K6: Another application of the team reads by the writer's service, the account and the group, in UTF-8")
    func sharing() async throws {
        try await writer.add(SecretBytes("Стив Джобс"), as: Self.item())
        let query = KeychainQuery(service: Self.service, account: "Full Name", accessGroup: Self.group)
        #expect(try await reader.secret(matching: query).text == "Стив Джобс")
        // Without a group, the query searches every group that the application is entitled to.
        #expect(try await reader.secret(matching: KeychainQuery(service: Self.service)).text == "Стив Джобс")
    }

    @Test("K5, K13: An application of another team finds nothing, and isn't entitled to query the group")
    func otherTeam() async throws {
        try await writer.add(SecretBytes("Steve"), as: Self.item())
        let entitlements = try Entitlements(applicationIdentifier: AccessGroupPattern("OTHERTEAM.app"))
        let stranger = try await fixture.open("shared.sqlite", entitlements)
        await expect(.itemNotFound) { _ = try await stranger.copyMatching(.everything) }
        await expect(.itemNotFound) { try await stranger.delete(.everything) }
        await expect(.notEntitled, "F3FU372W5M.*") { _ = try await stranger.copyMatching(KeychainQuery(Self.item())) }
        try await stranger.blitz(.everything)
        #expect(try await reader.copyMatching(.everything).count == 1)
    }

    @Test("K7, K12: Locked, missing, not entitled and duplicate are four errors, each with its code")
    func codes() async throws {
        let query = KeychainQuery(Self.item())
        await expect(.itemNotFound, "No item matches") { _ = try await reader.copyMatching(query) }
        try await writer.add(SecretBytes("Steve"), as: Self.item())
        await expect(.duplicateItem, "already exists") { try await writer.add(SecretBytes("Steve"), as: Self.item()) }
        var foreign = Self.item()
        foreign.accessGroup = "OTHER.group"
        await expect(.notEntitled, "keychain-access-groups") { try await writer.add(SecretBytes("Steve"), as: foreign) }
        await reader.lock()
        #expect(await reader.isLocked)
        await expect(.locked, "Unlock it") { _ = try await reader.copyMatching(query) }
        await expect(.locked) { try await reader.add(SecretBytes("Steve"), as: Self.item()) }
        await expect(.locked) { try await reader.blitz(.everything) }
        let names = [KeychainError.Code.locked, .itemNotFound, .notEntitled, .duplicateItem].map(\.description)
        #expect(names == ["locked", "itemNotFound", "notEntitled", "duplicateItem"])
    }

    @Test("K9, K11: A synchronizable item is read and deleted only by a query that asks for it")
    func synchronizable() async throws {
        let item = try await writer.add(SecretBytes("Steve"), as: Self.item(isSynchronizable: true))
        await expect(.itemNotFound) { _ = try await reader.copyMatching(KeychainQuery(Self.item())) }
        #expect(try await reader.secret(matching: KeychainQuery(item)).text == "Steve")
        await expect(.itemNotFound) { try await writer.delete(KeychainQuery(Self.item())) }
        try await writer.delete(KeychainQuery(item))
        await expect(.itemNotFound) { _ = try await reader.copyMatching(KeychainQuery(item)) }
    }

    @Test("K10: Deleting before adding is possible but optional, and adding an item that exists fails")
    func deleteBeforeAdd() async throws {
        let item = Self.item(isSynchronizable: true)
        for value in ["first", "second"] {
            try? await writer.delete(KeychainQuery(item))
            try await writer.add(SecretBytes(value), as: item)
        }
        await expect(.duplicateItem) { try await writer.add(SecretBytes("third"), as: item) }
        #expect(try await reader.secret(matching: KeychainQuery(item)).text == "second")
    }

    @Test("K14: An item goes into the application's own group if it names none; service, account and secret are kept")
    func add() async throws {
        let item = KeychainItem(service: Self.service, account: "Full Name", isSynchronizable: true)
        let added = try await writer.add(SecretBytes("Steve"), as: item)
        #expect(added.accessGroup == "F3FU372W5M.\(Self.service)")
        #expect(
            try await writer.copyMatching(.everything) == [KeychainMatch(item: added, secret: SecretBytes("Steve"))]
        )
        let wild = try await fixture.open(
            "wild.sqlite",
            Entitlements(applicationIdentifier: AccessGroupPattern("TEAM.*"))
        )
        await expect(.notEntitled, "has to name its own") { try await wild.add(SecretBytes("Steve"), as: item) }
    }

    @Test("Attributes and secrets have limits, and attributes are compared byte by byte")
    func limits() async throws {
        let long = String(repeating: "x", count: KeychainLimits.attributeBytes)
        let group = "F3FU372W5M.shared"
        for (service, account) in [("", "a"), ("a\u{0}", "a"), ("a", "\u{0}"), (long + "x", "a"), ("a", long + "x")] {
            await expect(.invalidItem) {
                let item = KeychainItem(service: service, account: account, accessGroup: group)
                try await writer.add(SecretBytes("s"), as: item)
            }
        }
        let item = KeychainItem(service: long, account: "", accessGroup: group)
        let longest = SecretBytes(randomCount: KeychainLimits.secretBytes)
        try await writer.add(longest, as: item)
        #expect(try await reader.secret(matching: KeychainQuery(item)) == longest)
        let tooLong = SecretBytes(randomCount: KeychainLimits.secretBytes + 1)
        await expect(.invalidItem, "16385 bytes") { try await writer.update(KeychainQuery(item), to: tooLong) }
        for account in ["\u{E9}", "e\u{301}"] {
            try await writer.add(
                SecretBytes(account),
                as: KeychainItem(service: "accents", account: account, isSynchronizable: true)
            )
        }
        let query = KeychainQuery(service: "accents", account: "e\u{301}", synchronizable: .yes)
        let matches = try await reader.copyMatching(query)
        #expect(matches.count == 1 && Array(matches[0].secret.text.utf8) == Array("e\u{301}".utf8))
        #expect(try await writer.merge([:], as: "a", registered: ["a"])?.entries.count == 2)
    }
}
