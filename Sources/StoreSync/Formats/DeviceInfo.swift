import RemoteStorage

/// `deviceInfo.plist`: what is known of a client, under TICoreDataSync's keys and an additional one.
struct DeviceInfo: Hashable, Sendable {
    var client: String
    var description: String
    var userInfo: [String: PropertyListValue]
    /// The epoch of the application that the client registered with; `nil` in a tree of TICoreDataSync.
    ///
    /// It says that the application has a registration, even if that hasn't arrived.
    var epoch: String?

    private enum Key {
        static let identifier = "kTICDSClientDeviceIdentifier"
        static let description = "kTICDSClientDeviceDescription"
        static let userInfo = "kTICDSClientDeviceUserInfo"
        static let epoch = "epoch"
    }
}

extension DeviceInfo {
    /// The info of a client of which only the identifier is known.
    init(nothingKnownOf client: RemoteIdentifier) {
        self.init(client: client.rawValue, description: "", userInfo: [:])
    }

    /// Reads the file.
    ///
    /// - Throws: ``StoreSyncError/Code/corrupt`` for anything but a plaintext property list with a client's identifier.
    init(_ bytes: [UInt8], at path: RemotePath) throws(StoreSyncError) {
        let values = try PropertyListValue.dictionary(in: bytes, at: path)
        guard let client = values[Key.identifier]?.string else { throw .corrupt(path, "\(Key.identifier) is missing") }
        self.init(
            client: client,
            description: values[Key.description]?.string ?? "",
            userInfo: values[Key.userInfo]?.dictionary ?? [:],
            epoch: values[Key.epoch]?.string
        )
    }

    var values: [String: PropertyListValue] {
        var values: [String: PropertyListValue] = [
            Key.identifier: .string(client), Key.description: .string(description),
        ]
        if !userInfo.isEmpty { values[Key.userInfo] = .dictionary(userInfo) }
        values[Key.epoch] = epoch.map { .string($0) }
        return values
    }

    var xml: [UInt8] { PropertyListValue.dictionary(values).xml }
}
