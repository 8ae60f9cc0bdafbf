import Foundation
import Keychain
import SyncCryptography
import Testing

// The code between the marks is also in the documentation.

@Suite("The examples of the documentation", .timeLimit(.minutes(60)))
struct ExampleTests {
    @Test("The landing page's example stores a secret and finds it")
    func landingPage() async throws {
        let fixture = try KeychainFixture()
        let (bundle, directory, secrets, name) = (fixture.folder, fixture.folder, fixture.folder, "Jane Appleseed")
        let propertyList = """
            <plist version="1.0"><dict>
            <key>application-identifier</key><string>TEAM.org.example.notes</string>
            </dict></plist>
            """
        try Data(propertyList.utf8).write(to: bundle.appending(path: "Entitlements.plist"))
        // DOC: landing page
        let entitlements = try Entitlements(contentsOf: bundle.appending(path: "Entitlements.plist"))
        let keychain = try await FileKeychain(
            at: directory.appending(path: "keychain.sqlite"),
            entitlements: entitlements
        )
        try await keychain.unlock(with: .deviceSecret(in: secrets))

        let item = KeychainItem(service: "org.example.notes", account: "Full Name", isSynchronizable: true)
        try await keychain.add(SecretBytes(copying: name.utf8), as: item)
        let secret = try await keychain.secret(matching: KeychainQuery(item))
        // DOC: end
        #expect(secret == SecretBytes(copying: name.utf8))
    }
}
