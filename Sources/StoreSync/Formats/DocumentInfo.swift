import RemoteStorage

/// `documentInfo.plist`: what is known of a document, under TICoreDataSync's keys and additional ones.
struct DocumentInfo: Hashable, Sendable {
    var document: String
    var description: String
    var userInfo: [String: PropertyListValue]
    var originalDevice: String
    var originalDeviceDescription: String
    /// The key that distinguishes this document from its successor under the same name.
    ///
    /// TICoreDataSync keeps it only in a file of its own.
    var integrityKey: String?
    /// Whether a document of this name was deleted before.
    var isRecreated: Bool
    /// The integrity keys of the documents of this name that were deleted before, the most recent one last.
    var predecessors: [String] = []

    private static let maximumPredecessors = 64

    private enum Key {
        static let identifier = "kTICDSDocumentIdentifier"
        static let description = "kTICDSDocumentDescription"
        static let userInfo = "kTICDSDocumentUserInfo"
        static let originalDevice = "kTICDSOriginalDeviceIdentifier"
        static let originalDeviceDescription = "kTICDSOriginalDeviceDescription"
        static let integrityKey = "integrityKey"
        static let isRecreated = "recreated"
        static let predecessors = "predecessors"
    }
}

extension DocumentInfo {
    /// The content of the integrity key's own file.
    ///
    /// TICoreDataSync uses the same property-list key in that file and in this one.
    static func integrityKeyFile(originalDevice: String) -> [UInt8] {
        PropertyListValue.dictionary([Key.originalDevice: .string(originalDevice)]).xml
    }

    /// Creates the info of a deleted document of which only the name is known.
    init(deleted document: RemoteIdentifier) {
        self.init(
            document: document.rawValue,
            description: "",
            userInfo: [:],
            originalDevice: "",
            originalDeviceDescription: "",
            integrityKey: nil,
            isRecreated: false
        )
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
            isRecreated: values[Key.isRecreated]?.boolean ?? false,
            predecessors: (values[Key.predecessors]?.array ?? []).compactMap(\.string)
        )
    }

    /// The integrity keys that the successor of this document has to name.
    var successorsPredecessors: [String] {
        Array((predecessors + [integrityKey].compactMap(\.self)).suffix(Self.maximumPredecessors))
    }

    var xml: [UInt8] {
        var values: [String: PropertyListValue] = [
            Key.identifier: .string(document), Key.description: .string(description),
            Key.originalDevice: .string(originalDevice),
            Key.originalDeviceDescription: .string(originalDeviceDescription),
            Key.isRecreated: .boolean(isRecreated),
        ]
        if let integrityKey { values[Key.integrityKey] = .string(integrityKey) }
        if !predecessors.isEmpty { values[Key.predecessors] = .array(predecessors.map { .string($0) }) }
        if !userInfo.isEmpty { values[Key.userInfo] = .dictionary(userInfo) }
        return PropertyListValue.dictionary(values).xml
    }
}
