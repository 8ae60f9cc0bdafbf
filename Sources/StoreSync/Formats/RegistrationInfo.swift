import Foundation
import RemoteStorage
import SyncCryptography

/// `Information/registration.plist`: the properties of an application, decided once by the device that created it.
struct RegistrationInfo: Hashable, Sendable {
    /// Distinguishes this application from another one created later under the same name.
    ///
    /// A UUID.
    var epoch: String
    /// `none`, or the suite that seals its files.
    var encryption: String
    /// The application's identifier; `nil` in registrations of earlier versions.
    ///
    /// With it, an encrypted application can't be passed off as another one with the same password.
    var application: String?

    static let unencrypted = "none"
    static let sealed = KeyFile.suiteName

    var isEncrypted: Bool { encryption != Self.unencrypted }

    private static let formatVersion = 1
}

extension RegistrationInfo {
    static func make(of application: RemoteIdentifier, encrypted: Bool) -> RegistrationInfo {
        let encryption = encrypted ? sealed : unencrypted
        return RegistrationInfo(epoch: UUID().uuidString, encryption: encryption, application: application.rawValue)
    }

    /// Reads the file.
    ///
    /// A newer format is `unsupportedFormat`, anything else that can't be read `corrupt`.
    init(_ bytes: [UInt8], at path: RemotePath) throws(StoreSyncError) {
        let values = try PropertyListValue.dictionary(in: bytes, at: path)
        guard let version = values["formatVersion"]?.integer else { throw .corrupt(path, "it has no format version") }
        guard version == Self.formatVersion else { throw .newerFormat(path, version) }
        guard let epoch = values["epoch"]?.string, UUID(uuidString: epoch) != nil,
            let encryption = values["encryption"]?.string
        else { throw .corrupt(path, "epoch or encryption is missing") }
        guard encryption == Self.unencrypted || encryption == Self.sealed else {
            throw StoreSyncError(
                .unsupportedFormat,
                "\(path) on the remote names an encryption that this program doesn't know. Update the program."
            )
        }
        self.init(epoch: epoch, encryption: encryption, application: values["application"]?.string)
    }

    var xml: [UInt8] {
        var values: [String: PropertyListValue] = [
            "formatVersion": .integer(Self.formatVersion),
            "epoch": .string(epoch),
            "encryption": .string(encryption),
        ]
        values["application"] = application.map { .string($0) }
        return PropertyListValue.dictionary(values).xml
    }
}

extension PropertyListValue {
    /// Reads a file that must be a dictionary.
    static func dictionary(
        in bytes: [UInt8],
        at path: RemotePath
    ) throws(StoreSyncError) -> [String: PropertyListValue] {
        let value: PropertyListValue
        do {
            value = try PropertyListValue(xml: bytes)
        } catch {
            throw .corrupt(path, "\(error)")
        }
        guard let values = value.dictionary else { throw .corrupt(path, "it isn't a dictionary") }
        return values
    }
}

extension StoreSyncError {
    static func corrupt(_ path: RemotePath, _ reason: String) -> StoreSyncError {
        StoreSyncError(
            .corrupt,
            "\(path) on the remote can't be read: \(reason). Try again. If it stays so, restore it from a backup."
        )
    }

    static func newerFormat(_ path: RemotePath, _ version: Int) -> StoreSyncError {
        StoreSyncError(
            .unsupportedFormat,
            "\(path) on the remote has format version \(version), which this program doesn't know. Update the program."
        )
    }
}
