import Foundation
import GRDB
import SyncCryptography
import Testing

@testable import Keychain

@Suite("Secrets stay out of sight", .timeLimit(.minutes(60)))
struct SecrecyTests {
    private static let canary = "canary-7f3a"

    /// Returns all printable representations of a value.
    private static func texts(_ value: Any) -> String {
        var dumped = ""
        dump(value, to: &dumped)
        return
            "\(value) \(String(reflecting: value)) \(String(describing: Mirror(reflecting: value).children.map(\.value))) \(dumped)"
    }

    @Test("No description, debug description, mirror, dump or error shows a secret or a passphrase")
    func descriptions() async throws {
        let fixture = try KeychainFixture()
        let keychain = try await fixture.open()
        let secret = SecretBytes(Self.canary)
        let item = KeychainItem(service: "notes", account: "shared", isSynchronizable: true)
        let match = KeychainMatch(item: try await keychain.add(secret, as: item), secret: secret)
        let passphrase = KeychainLock.passphrase(try Password(Self.canary), parameters: .interactive)
        let file = try #require(try await keychain.merge([:], as: "a", registered: ["a"]))
        let replica = try await keychain.replica()
        let (wrapped, key) = try await WrappedKey.make(for: passphrase, executor: nil)
        var printed = [
            Self.texts(match), Self.texts(passphrase), Self.texts(file), Self.texts(replica), Self.texts(keychain),
            Self.texts(wrapped), Self.texts(key), Self.texts(fixture.deviceSecret), Self.texts([item: secret]),
        ]
        let attempts: [() async throws -> Void] = [
            { try await keychain.add(secret, as: item) },
            { try await keychain.update(KeychainQuery(service: "missing"), to: secret) },
            { try await keychain.add(secret, as: KeychainItem(service: "", account: "a")) },
            { try await keychain.add(secret, as: KeychainItem(service: "a", account: "a", accessGroup: "OTHER")) },
            { try await keychain.add(SecretBytes(String(repeating: Self.canary, count: 9_999)), as: item) },
            { try await keychain.unlock(with: passphrase) },
            {
                try await keychain.changeLock(
                    to: .passphrase(try Password(Self.canary), parameters: .init(passes: 0, memoryKibibytes: 0))
                )
            },
            { _ = try KeychainFile(file.content().bytes.dropLast()) },
            {
                try await DatabaseQueue(path: fixture.url().path).write {
                    try $0.execute(sql: "UPDATE item SET counter = 99")
                }
                _ = try await keychain.copyMatching(.everything)
            },
            {
                try await keychain.changeLock(to: passphrase)
                let other = try await FileKeychain(at: fixture.url(), entitlements: .notes)
                try await other.unlock(with: .passphrase(try Password(Self.canary + "!"), parameters: .interactive))
            },
        ]
        for attempt in attempts {
            do {
                try await attempt()
                Issue.record("an attempt that should fail didn't")
            } catch {
                printed += [Self.texts(error), error.localizedDescription]
            }
        }
        let bytes = Array(Self.canary.utf8).map(String.init).joined(separator: ", ")
        for text in printed { #expect(!text.contains(Self.canary) && !text.contains(bytes), "\(text)") }
        #expect(printed.count == 9 + 2 * attempts.count)
    }

    @Test("No secret is in the clear in any file of a keychain, or in a published file")
    func files() async throws {
        let fixture = try KeychainFixture()
        let keychain = try await fixture.open()
        for isSynchronizable in [false, true] {
            let item = KeychainItem(service: "notes", account: "a", isSynchronizable: isSynchronizable)
            try await keychain.add(SecretBytes(Self.canary), as: item)
            try await keychain.update(KeychainQuery(item), to: SecretBytes(Self.canary + "2"))
        }
        let file = try #require(try await keychain.merge([:], as: "a", registered: ["a"]))
        let key = EpochKey(master: MasterKey(), epoch: UUID())
        var contents = [Data(file.sealed(with: key, application: "notes", client: "a"))]
        for name in try FileManager.default.contentsOfDirectory(atPath: fixture.folder.path) {
            contents.append(try Data(contentsOf: fixture.url(name)))
        }
        #expect(contents.count >= 3)
        for content in contents { #expect(content.range(of: Data(Self.canary.utf8)) == nil) }
    }
}
