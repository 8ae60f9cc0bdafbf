import Foundation
import SyncCryptography

@testable import Keychain

/// The parsers of the keychain that are fuzzed, by `Tests/Fuzz`, which has this file too.
///
/// What is found is kept in `Resources/Corpus`, and parsed again by the tests.
enum FuzzedKeychainParser: String, CaseIterable, Sendable {
    case entitlements, keychainClock, keychainFile

    /// Parses `bytes`, as whatever they are.
    ///
    /// It may fail in words, and must neither crash nor give what isn't as the format says.
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

    /// As another client's file; what comes of it has to be one that can be read, and merging again changes nothing.
    private static func merge(_ file: KeychainFile) throws {
        let identifier = UUID(uuid: (9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9))
        var replica = KeychainReplica(clock: ReplicaClock(replica: identifier))
        let next = try replica.merge(["a": file], as: "b", registered: ["a", "b"]) { identifier }
        guard let next else { preconditionFailure("nothing to publish, though nothing was published") }
        let written = try KeychainFile(next.content().bytes)
        precondition(written == next)
        let again = try replica.merge(["a": file, "b": next], as: "b", registered: ["a", "b", "c"]) { identifier }
        precondition(again == nil)
    }
}
