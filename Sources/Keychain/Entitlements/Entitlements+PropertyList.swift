public import Foundation

extension Entitlements {
    /// How many bytes an entitlements file may have.
    public static let mostBytes = 64 << 10
    /// How many tags may be in one.
    private static let mostTags = 1_000

    /// Reads an entitlements file.
    ///
    /// - Parameter url: The file.
    /// - Throws: ``KeychainError/Code/cannotRead``, and what ``init(propertyList:)`` throws.
    public init(contentsOf url: URL) throws(KeychainError) {
        let content: Data?
        do {
            let file = try FileHandle(forReadingFrom: url)
            defer { try? file.close() }
            // No more than that, whatever the file is.
            content = try file.read(upToCount: Self.mostBytes + 1)
        } catch {
            throw KeychainError(
                .cannotRead,
                "The entitlements file \(url.path) can't be read. Check the path and its permissions.",
                cause: error
            )
        }
        try self.init(propertyList: Array(content ?? Data()))
    }

    /// Reads entitlements as a provisioning profile has them: an XML property list that is a dictionary.
    ///
    /// Keys that aren't known are left aside.
    ///
    /// ```xml
    /// <plist version="1.0">
    /// <dict>
    /// <key>application-identifier</key>
    /// <string>TEAM.org.example.notes</string>
    /// <key>keychain-access-groups</key>
    /// <array>
    /// <string>TEAM.*</string>
    /// </array>
    /// </dict>
    /// </plist>
    /// ```
    ///
    /// - Parameter bytes: The file, from anybody: neither its size nor what it holds can do harm.
    /// - Throws: ``KeychainError/Code/invalidEntitlements``, saying what isn't in the correct format.
    public init(propertyList bytes: [UInt8]) throws(KeychainError) {
        guard bytes.count <= Self.mostBytes else {
            throw .entitlements("it has more than \(Self.mostBytes >> 10) KiB. Make sure that it's the right file")
        }
        var start = PropertyListStart(bytes[...])
        try start.check()
        // The parser recurses, so how deep it can go is bounded before it sees the file.
        guard bytes.count(where: { $0 == UInt8(ascii: "<") }) <= Self.mostTags else {
            throw .entitlements("it holds more than \(Self.mostTags) tags. Make sure that it's the right file")
        }
        let file: File
        do {
            file = try PropertyListDecoder().decode(File.self, from: Data(bytes))
        } catch DecodingError.typeMismatch(_, let context) {
            let key = context.codingPath.first?.stringValue ?? "the whole file"
            throw .entitlements(
                "\(key) is of another type. Copy the profile's entitlements exactly as they are",
                cause: context.underlyingError
            )
        } catch {
            throw .entitlements("it isn't a whole property list. Copy the profile's entitlements exactly as they are")
        }
        self.init(
            applicationIdentifier: try file.applicationIdentifier.map { text throws(KeychainError) in
                try AccessGroupPattern(text)
            },
            keychainAccessGroups: try (file.keychainAccessGroups ?? []).map { text throws(KeychainError) in
                try AccessGroupPattern(text)
            },
            allowsDebugging: file.allowsDebugging ?? false,
            defaultDataProtection: file.defaultDataProtection
        )
    }

    private struct File: Decodable {
        var applicationIdentifier: String?
        var keychainAccessGroups: [String]?
        var allowsDebugging: Bool?
        var defaultDataProtection: String?

        enum CodingKeys: String, CodingKey {
            case applicationIdentifier = "application-identifier"
            case keychainAccessGroups = "keychain-access-groups"
            case allowsDebugging = "get-task-allow"
            case defaultDataProtection = "com.apple.developer.default-data-protection"
        }
    }
}

/// What stands before the dictionary of an XML property list, where people make the mistake that the parser can't explain.
private struct PropertyListStart {
    private var rest: ArraySlice<UInt8>

    init(_ bytes: ArraySlice<UInt8>) {
        rest = bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? bytes.dropFirst(3) : bytes
    }

    /// Refuses everything but a dictionary right within the root element.
    mutating func check() throws(KeychainError) {
        var tag = try nextTag()
        while tag.first == UInt8(ascii: "?") || tag.first == UInt8(ascii: "!") {
            guard !tag.contains(UInt8(ascii: "[")) else {
                throw .entitlements("it declares a document type of its own. Take that out")
            }
            tag = try nextTag()
        }
        guard Self.name(tag) == "plist" else {
            throw .entitlements("it isn't an XML property list. Save it as one")
        }
        switch Self.name(try nextTag()) {
        case "dict": return
        case "key":
            let key = Self.text(rest.prefix { $0 != UInt8(ascii: "<") }.prefix(80))
            throw .entitlements(
                """
                the key \(key.debugDescription) dangles above the dictionary. Remove the line <key>\(key)</key>, so that \
                <dict> comes right after <plist>
                """
            )
        default:
            throw .entitlements("there is no <dict> right after <plist>. Copy the profile's entitlements as they are")
        }
    }

    /// What stands in the next pair of angle brackets that is no comment, with nothing but space before it.
    private mutating func nextTag() throws(KeychainError) -> ArraySlice<UInt8> {
        while true {
            rest = rest.drop { [0x20, 0x09, 0x0A, 0x0D].contains($0) }
            guard rest.first == UInt8(ascii: "<") else {
                throw .entitlements("it isn't an XML property list. Save it as one")
            }
            rest = rest.dropFirst()
            guard rest.starts(with: Array("!--".utf8)) else { break }
            while !rest.isEmpty, !rest.starts(with: Array("-->".utf8)) { rest = rest.dropFirst() }
            rest = rest.dropFirst(3)
        }
        let tag = rest.prefix { $0 != UInt8(ascii: ">") }
        rest = rest.dropFirst(tag.count + 1)
        return tag
    }

    private static func name(_ tag: ArraySlice<UInt8>) -> String {
        text(tag.prefix { ![0x20, 0x09, 0x0A, 0x0D, UInt8(ascii: "/")].contains($0) })
    }

    private static func text(_ bytes: ArraySlice<UInt8>) -> String {
        String(decoding: bytes, as: UTF8.self)
    }
}

extension KeychainError {
    fileprivate static func entitlements(_ reason: String, cause: (any Error)? = nil) -> KeychainError {
        KeychainError(
            .invalidEntitlements,
            "The entitlements file isn't in the correct format: \(reason).",
            cause: cause
        )
    }
}
