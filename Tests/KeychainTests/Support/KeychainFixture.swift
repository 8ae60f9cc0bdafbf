import Foundation
import SyncCryptography
import Testing
import ThreadSupport

@testable import Keychain

/// A folder for the keychains of one test, removed with the fixture.
final class KeychainFixture: Sendable {
    let folder: URL

    init() throws {
        folder = FileManager.default.temporaryDirectory.appending(path: "keychain-\(UUID().uuidString)")
        try FileManager.default.createDirectory(
            at: folder,
            withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700]
        )
    }

    deinit {
        try? FileManager.default.removeItem(at: folder)
    }

    func url(_ name: String = "keychain.sqlite") -> URL { folder.appending(path: name) }

    var deviceSecret: KeychainLock { .deviceSecret(in: folder) }

    /// Opens and unlocks a keychain.
    func open(
        _ name: String = "keychain.sqlite",
        _ entitlements: Entitlements = .notes,
        options: FileKeychain.Options = FileKeychain.Options()
    ) async throws -> FileKeychain {
        let keychain = try await FileKeychain(
            at: url(name),
            entitlements: entitlements,
            options: options
        )
        try await keychain.unlock(with: deviceSecret)
        return keychain
    }
}

extension Entitlements {
    /// The entitlements of an application with its team's pattern.
    static let notes: Entitlements = {
        do {
            return try Entitlements(
                applicationIdentifier: AccessGroupPattern("TEAM.org.example.notes"),
                keychainAccessGroups: [AccessGroupPattern("TEAM.*")]
            )
        } catch {
            preconditionFailure("\(error)")
        }
    }()
}

extension FileKeychain {
    /// Returns the synchronizable items in the file.
    func replica() async throws -> KeychainReplica {
        try await runBlocking { [database] in try database.read { try $0.replica() } }
    }
}

extension SecretBytes {
    convenience init(_ text: String) {
        self.init(copying: Array(text.utf8))
    }

    var text: String { withBytes { String(decoding: $0, as: UTF8.self) } }
}

/// Expects an error of a keychain, with words in its message.
func expect(
    _ code: KeychainError.Code,
    _ words: String = "",
    sourceLocation: SourceLocation = #_sourceLocation,
    _ body: () async throws -> Void
) async {
    do {
        try await body()
        Issue.record("nothing was thrown, not even \(code)", sourceLocation: sourceLocation)
    } catch let error as KeychainError {
        #expect(error.code == code, "\(error)", sourceLocation: sourceLocation)
        if !words.isEmpty {
            #expect(error.message.contains(words), "\(error)", sourceLocation: sourceLocation)
        }
    } catch {
        Issue.record("\(error)", sourceLocation: sourceLocation)
    }
}

extension UUID {
    /// Returns an identifier that depends only on the generator's seed.
    static func random(using generator: inout some RandomNumberGenerator) -> UUID {
        let bytes = (0..<16).map { _ in UInt8.random(in: 0...255, using: &generator) }
        return UUID(
            uuid: (
                bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7], bytes[8], bytes[9],
                bytes[10], bytes[11], bytes[12], bytes[13], bytes[14], bytes[15]
            )
        )
    }
}
