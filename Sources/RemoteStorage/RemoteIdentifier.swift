/// The name of an application, a document or a client: one path component that every storage accepts.
///
/// 1 to 128 of `A–Z a–z 0–9 . _ -`, with a letter or digit at both ends, and no name that Windows reserves for a device
/// (`CON`, `PRN`, `AUX`, `NUL`, `COM0`…, `LPT0`…, also in lower case and with an extension).
///
/// Some storages treat names that differ only in case as the same name (Dropbox, APFS, SMB). Before code creates a name,
/// it compares the name with the existing ones by ``differsOnlyInCase(from:)``, and refuses it if one differs only in case.
public struct RemoteIdentifier: Hashable, Comparable, Sendable, Codable, CustomStringConvertible {
    /// The identifier's string, unchanged.
    public let rawValue: String

    /// Creates an identifier.
    ///
    /// - Parameter string: The identifier.
    /// - Throws: ``RemoteError/Code/invalidIdentifier``, with a message that states the rules.
    public init(_ string: String) throws(RemoteError) {
        let bytes = string.utf8
        guard
            bytes.count <= 128,
            let first = bytes.first, isAlphanumeric(first),
            let last = bytes.last, isAlphanumeric(last),
            bytes.allSatisfy({ isAlphanumeric($0) || "._-".utf8.contains($0) })
        else {
            throw RemoteError(
                .invalidIdentifier,
                """
                “\(string.prefix(160))” can't be an identifier. Use 1 to 128 of the letters A–Z and a–z, digits, \
                “.”, “_” and “-”, with a letter or digit at both ends.
                """
            )
        }
        guard !isWindowsDevice(string) else {
            throw RemoteError(
                .invalidIdentifier,
                "“\(string)” can't be an identifier, because Windows reserves it for a device. Choose another name."
            )
        }
        rawValue = string
    }

    /// Creates an identifier from its encoded string, by the same rules.
    ///
    /// - Throws: A `DecodingError` if the value isn't a string, or breaks a rule.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        do {
            try self.init(container.decode(String.self))
        } catch let error as RemoteError {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: error.message)
        }
    }

    /// Encodes the identifier as a string.
    ///
    /// - Throws: What the encoder throws.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(rawValue)
    }

    /// Whether some storages treat the two as the same name although they aren't equal.
    public func differsOnlyInCase(from other: RemoteIdentifier) -> Bool {
        self != other && rawValue.lowercased() == other.rawValue.lowercased()
    }

    /// Orders identifiers by their characters.
    public static func < (left: RemoteIdentifier, right: RemoteIdentifier) -> Bool {
        left.rawValue < right.rawValue
    }

    /// The identifier.
    public var description: String { rawValue }
}

private func isAlphanumeric(_ byte: UInt8) -> Bool {
    let character = Character(Unicode.Scalar(byte))
    return character.isASCII && (character.isLetter || character.isNumber)
}

private func isWindowsDevice(_ string: String) -> Bool {
    let name = string.prefix { $0 != "." }.lowercased()
    switch name {
    case "con", "prn", "aux", "nul": return true
    default: return name.count == 4 && (name.hasPrefix("com") || name.hasPrefix("lpt")) && name.last?.isNumber == true
    }
}
