public import Foundation

extension Entitlements {
    /// The maximum size of an entitlements file, in bytes.
    public static let maximumBytes = 64 << 10
    /// The maximum number of tags in an entitlements file.
    private static let maximumTags = 1_000

    /// Reads an entitlements file.
    ///
    /// - Parameter url: The file.
    /// - Throws: ``KeychainError/Code/cannotRead``, and what ``init(propertyList:)`` throws.
    public init(contentsOf url: URL) throws(KeychainError) {
        let content: Data?
        do {
            let file = try FileHandle(forReadingFrom: url)
            defer { try? file.close() }
            // Bounded, since the path may name a file of any size.
            content = try file.read(upToCount: Self.maximumBytes + 1)
        } catch {
            throw KeychainError(
                .cannotRead,
                "The entitlements file \(url.path) can't be read. Check the path and its permissions.",
                cause: error
            )
        }
        try self.init(propertyList: Array(content ?? Data()))
    }

    /// Reads entitlements as in a provisioning profile: from an XML property list whose root is a dictionary.
    ///
    /// Unknown keys are ignored.
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
    /// - Parameter bytes: The file. It may be untrusted: neither its size nor its content can do harm.
    /// - Throws: ``KeychainError/Code/invalidEntitlements``, whose message names the fault.
    public init(propertyList bytes: [UInt8]) throws(KeychainError) {
        guard bytes.count <= Self.maximumBytes else {
            throw .entitlements("it has more than \(Self.maximumBytes >> 10) KiB. Make sure that it's the right file")
        }
        var start = PropertyListStart(bytes[...])
        try start.check()
        // The parser recurses, so the depth is limited before it runs.
        guard bytes.count(where: { $0 == UInt8(ascii: "<") }) <= Self.maximumTags else {
            throw .entitlements("it holds more than \(Self.maximumTags) tags. Make sure that it's the right file")
        }
        let file: File
        do {
            file = try PropertyListDecoder().decode(File.self, from: Data(bytes))
        } catch DecodingError.typeMismatch(_, let context) {
            let key = context.codingPath.first?.stringValue ?? "the whole file"
            throw .entitlements(
                "\(key) has the wrong type. Copy the profile's entitlements exactly as they are",
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

/// The part of an XML property list before its dictionary: the parser can't explain a common mistake in it.
private struct PropertyListStart {
    private var rest: ArraySlice<UInt8>

    init(_ bytes: ArraySlice<UInt8>) {
        rest = bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? bytes.dropFirst(3) : bytes
    }

    /// Refuses a file unless the dictionary comes right after the root element's tag.
    mutating func check() throws(KeychainError) {
        var tag = try nextTag()
        while tag.first == UInt8(ascii: "?") || tag.first == UInt8(ascii: "!") {
            guard !tag.contains(UInt8(ascii: "[")) else {
                throw .entitlements("it declares a document type of its own. Remove the declaration")
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

    /// The content of the next tag that isn't a comment, with nothing but white space before it.
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
