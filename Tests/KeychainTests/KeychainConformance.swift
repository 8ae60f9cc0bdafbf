import SyncCryptography
import Testing

@testable import Keychain

/// The conformance suite for every keychain.
///
/// The keychain must be unlocked, have no items of this service, and entitle to `group` and `otherGroup`.
struct KeychainConformance {
    let keychain: any KeychainServices
    let group: String
    let otherGroup: String
    /// A group that the caller isn't entitled to.
    let foreignGroup: String
    let service = "org.example.conformance"

    func check() async throws {
        try await addFindUpdateDelete()
        try await groups()
        try await synchronizable()
        try await severalAtOnce()
        try await removeOnThisDevice()
    }

    private func item(_ account: String, _ group: String? = nil, isSynchronizable: Bool = false) -> KeychainItem {
        KeychainItem(
            service: service,
            account: account,
            accessGroup: group ?? self.group,
            isSynchronizable: isSynchronizable
        )
    }

    private func addFindUpdateDelete() async throws {
        let item = item("Full Name")
        let query = KeychainQuery(item)
        await expect(.itemNotFound) { _ = try await keychain.copyMatching(query) }
        await expect(.itemNotFound) { try await keychain.update(query, to: SecretBytes("missing")) }
        await expect(.itemNotFound) { try await keychain.delete(query) }
        #expect(try await keychain.add(SecretBytes("Steve Jobs"), as: item) == item)
        #expect(try await keychain.secret(matching: query).text == "Steve Jobs")
        await expect(.duplicateItem) { try await keychain.add(SecretBytes("Steve Wozniak"), as: item) }
        #expect(try await keychain.secret(matching: query).text == "Steve Jobs")
        try await keychain.update(query, to: SecretBytes(""))
        #expect(try await keychain.secret(matching: query).count == 0)
        let bytes = SecretBytes(copying: (0...255).map { UInt8($0) })
        try await keychain.update(query, to: bytes)
        #expect(try await keychain.copyMatching(query) == [KeychainMatch(item: item, secret: bytes)])
        try await keychain.delete(query)
        await expect(.itemNotFound) { _ = try await keychain.copyMatching(query) }
    }

    private func groups() async throws {
        let mine = try await keychain.add(SecretBytes("mine"), as: item("shared"))
        let ours = try await keychain.add(SecretBytes("ours"), as: item("shared", otherGroup))
        let both = try await keychain.copyMatching(KeychainQuery(service: service, account: "shared"))
        #expect(Set(both.map(\.item)) == [mine, ours])
        #expect(try await keychain.secret(matching: KeychainQuery(ours)).text == "ours")
        await expect(.notEntitled) { try await keychain.add(SecretBytes("theirs"), as: item("shared", foreignGroup)) }
        await expect(.notEntitled) { _ = try await keychain.copyMatching(KeychainQuery(item("shared", foreignGroup))) }
        try await keychain.delete(KeychainQuery(mine))
        #expect(try await keychain.secret(matching: KeychainQuery(service: service, account: "shared")).text == "ours")
        try await keychain.delete(KeychainQuery(ours))
    }

    private func synchronizable() async throws {
        let local = try await keychain.add(SecretBytes("here"), as: item("twin"))
        let shared = try await keychain.add(SecretBytes("everywhere"), as: item("twin", isSynchronizable: true))
        var query = KeychainQuery(service: service, account: "twin")
        #expect(try await keychain.copyMatching(query).map(\.item) == [local])
        query.synchronizable = .yes
        #expect(try await keychain.copyMatching(query).map(\.item) == [shared])
        query.synchronizable = .any
        #expect(try await keychain.copyMatching(query).map(\.item) == [local, shared])
        try await keychain.delete(KeychainQuery(local))
        await expect(.itemNotFound) { try await keychain.delete(KeychainQuery(local)) }
        #expect(try await keychain.copyMatching(query).map(\.secret.text) == ["everywhere"])
        try await keychain.delete(query)
    }

    private func severalAtOnce() async throws {
        for account in ["c", "a", "b"] { try await keychain.add(SecretBytes(account), as: item(account)) }
        let query = KeychainQuery(service: service)
        #expect(try await keychain.copyMatching(query).map(\.item.account) == ["a", "b", "c"])
        try await keychain.update(query, to: SecretBytes("same"))
        #expect(try await keychain.copyMatching(query).map(\.secret.text) == ["same", "same", "same"])
        try await keychain.delete(query)
        await expect(.itemNotFound) { _ = try await keychain.copyMatching(query) }
    }

    private func removeOnThisDevice() async throws {
        let query = KeychainQuery(service: service, synchronizable: .absent)
        try await keychain.blitz(query)
        try await keychain.add(SecretBytes("1"), as: item("one"))
        try await keychain.add(SecretBytes("2"), as: item("two"))
        try await keychain.blitz(query)
        await expect(.itemNotFound) { _ = try await keychain.copyMatching(query) }
    }
}

@Suite("Keychain services", .timeLimit(.minutes(60)))
struct KeychainConformanceTests {
    @Test("D20: A file keychain passes the conformance suite")
    func file() async throws {
        let fixture = try KeychainFixture()
        let keychain = try await fixture.open()
        try await KeychainConformance(
            keychain: keychain,
            group: "TEAM.org.example.notes",
            otherGroup: "TEAM.shared",
            foreignGroup: "OTHER.shared"
        ).check()
        // The suite leaves no items behind.
        await expect(.itemNotFound) { _ = try await keychain.copyMatching(.everything) }
    }

    #if canImport(Security)
    @Test("D20: The system's keychain passes the conformance suite, if the tests are signed for it")
    func system() async throws {
        let keychain = SecurityKeychain()
        let probe = KeychainItem(service: "org.example.conformance", account: "probe")
        let group: String
        do {
            group = try await keychain.add(SecretBytes("probe"), as: probe).accessGroup ?? ""
        } catch let error as KeychainError where error.code == .notEntitled {
            return
        }
        try await keychain.blitz(KeychainQuery(service: probe.service))
        try await KeychainConformance(
            keychain: keychain,
            group: group,
            otherGroup: group + ".other",
            foreignGroup: "ANOTHER.group"
        ).check()
    }
    #endif
}
