import Foundation
import SyncCryptography

@testable import Keychain

/// The parsers of the keychain that `Tests/Fuzz` fuzzes, which shares this file.
///
/// The inputs that fuzzing finds are kept in `Resources/Corpus`, and the tests parse them again.
enum FuzzedKeychainParser: String, CaseIterable, Sendable {
    case entitlements, keychainClock, keychainFile

    /// Parses `bytes`, which may be anything.
    ///
    /// It may throw a typed error, but must neither crash nor return a value that violates the format.
    func parse(_ bytes: [UInt8]) {
        do {
            switch self {
            case .entitlements:
                let entitlements = try Entitlements(propertyList: bytes)
                precondition(entitlements.defaultAccessGroup.map(entitlements.covers) ?? true)
                precondition(!entitlements.covers("") && !entitlements.covers("*"))
            case .keychainClock:
                let clock = try ReplicaClock(bytes)
                precondition(clock.content == bytes)
            case .keychainFile:
                let file = try KeychainFile(bytes)
                precondition(file.content().bytes == bytes)
                try Self.merge(file)
            }
        } catch {
            precondition(error is KeychainError || error is ByteReader.Malformed, "\(error)")
        }
    }

    /// Merges the file as another client's: the resulting file has to be readable, and merging again changes nothing.
    private static func merge(_ file: KeychainFile) throws {
        let identifier = UUID(uuid: (9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9))
        var replica = KeychainReplica(clock: ReplicaClock(replica: identifier))
        let next = try replica.merge(["a": file], as: "b", registered: ["a", "b"]) { identifier }
        guard let next else { preconditionFailure("nothing to publish, although nothing was published before") }
        let written = try KeychainFile(next.content().bytes)
        precondition(written == next)
        let again = try replica.merge(["a": file, "b": next], as: "b", registered: ["a", "b", "c"]) { identifier }
        precondition(again == nil)
    }
}
