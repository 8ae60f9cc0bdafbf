import Foundation
import Keychain
import SystemPackage

/// Creating the directory of the state.
extension StateDirectory {
    /// Creates the directory, unless it exists with nothing but the files of a state directory.
    ///
    /// It may have lost the database: the keychains open nevertheless.
    static func makeDirectory(at url: URL) throws {
        let present = (try? FileManager.default.contentsOfDirectory(atPath: url.path)) ?? []
        guard present.contains("state.sqlite") || present.contains("locks") || present.allSatisfy(isOurs) else {
            throw StoreSyncError(
                .cannotWrite,
                "\(url.path) holds other files, so it isn't used as a state directory. Name a folder for the state alone."
            )
        }
        do {
            let locks = url.appending(path: "locks", directoryHint: .isDirectory)
            try FileManager.default.createDirectory(
                at: locks,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
            try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: url.path)
            #if canImport(Darwin)
            var url = url
            var values = URLResourceValues()
            values.isExcludedFromBackup = true
            try url.setResourceValues(values)
            #endif
        } catch {
            throw StoreSyncError(
                .cannotWrite,
                """
                The state directory \(url.path) \(obstacle(at: url)) on this device. Choose another with --state, or check its \
                permissions.
                """,
                cause: error
            )
        }
    }

    /// Whether a file of this name may be kept of a state directory.
    private static func isOurs(_ name: String) -> Bool {
        let names = [DeviceSecret.name, keychainsName, "replicas", "applied", "transfers", "pushed"]
        let prefixes = [keychainName, keychainsAsideName, "state.sqlite"]
        return names.contains(name) || prefixes.contains { name.hasPrefix($0) }
    }

    /// Why a path can't be made a state directory.
    private static func obstacle(at url: URL) -> String {
        guard let status = try? Stat(url.path) else { return "can't be created" }
        guard status.type == .directory else { return "isn't a directory" }
        return status.userID.rawValue == geteuid() ? "can't be written" : "belongs to another user"
    }
}
