import RemoteStorage

/// `documentInfo.plist`: what is known of a document, under TICoreDataSync's keys and three of ours.
struct DocumentInfo: Hashable, Sendable {
    var document: String
    var description: String
    var userInfo: [String: PropertyListValue]
    var originalDevice: String
    var originalDeviceDescription: String
    /// The key that tells this document from one that is made anew under the same name.
    ///
    /// TICoreDataSync keeps it in a file only.
    var integrityKey: String?
    /// Whether a document of this name was deleted before.
    var isRecreated: Bool

    private enum Key {
        static let identifier = "kTICDSDocumentIdentifier"
        static let description = "kTICDSDocumentDescription"
        static let userInfo = "kTICDSDocumentUserInfo"
        static let originalDevice = "kTICDSOriginalDeviceIdentifier"
        static let originalDeviceDescription = "kTICDSOriginalDeviceDescription"
        static let integrityKey = "integrityKey"
        static let isRecreated = "recreated"
    }

    /// The key's name inside the integrity key's own file, which TICoreDataSync shares with this one.
    static func integrityKeyFile(originalDevice: String) -> [UInt8] {
        PropertyListValue.dictionary([Key.originalDevice: .string(originalDevice)]).xml
    }

    init(
        document: String,
        description: String,
        userInfo: [String: PropertyListValue],
        originalDevice: String,
        originalDeviceDescription: String,
        integrityKey: String?,
        isRecreated: Bool
    ) {
        self.document = document
        self.description = description
        self.userInfo = userInfo
        self.originalDevice = originalDevice
        self.originalDeviceDescription = originalDeviceDescription
        self.integrityKey = integrityKey
        self.isRecreated = isRecreated
    }

    /// Reads the file.
    init(_ bytes: [UInt8], at path: RemotePath) throws(StoreSyncError) {
        let values = try PropertyListValue.dictionary(in: bytes, at: path)
        guard let document = values[Key.identifier]?.string else {
            throw .corrupt(path, "\(Key.identifier) is missing")
        }
        self.init(
            document: document,
            description: values[Key.description]?.string ?? "",
            userInfo: values[Key.userInfo]?.dictionary ?? [:],
            originalDevice: values[Key.originalDevice]?.string ?? "",
            originalDeviceDescription: values[Key.originalDeviceDescription]?.string ?? "",
            integrityKey: values[Key.integrityKey]?.string,
            isRecreated: values[Key.isRecreated]?.boolean ?? false
        )
    }

    var xml: [UInt8] {
        var values: [String: PropertyListValue] = [
            Key.identifier: .string(document), Key.description: .string(description),
            Key.originalDevice: .string(originalDevice),
            Key.originalDeviceDescription: .string(originalDeviceDescription),
            Key.isRecreated: .boolean(isRecreated),
        ]
        if let integrityKey { values[Key.integrityKey] = .string(integrityKey) }
        if !userInfo.isEmpty { values[Key.userInfo] = .dictionary(userInfo) }
        return PropertyListValue.dictionary(values).xml
    }
}
