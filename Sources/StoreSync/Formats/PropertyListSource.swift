/// The bytes of an XML property list, checked before Foundation's parser reads them.
///
/// The parser recurses with every element and trusts the encoding that a file declares. It skips comments and
/// instructions, which can hide anything, and tries other syntaxes if a file isn't XML. So only the parts of a property
/// list pass this check: elements, one document type, UTF-8.
struct PropertyListSource {
    /// The input of the parser: everything after the XML declaration.
    let document: ArraySlice<UInt8>

    private static let maximumBytes = 4 << 20
    /// The maximum depth of nested elements: a property list, its values, and the text in the innermost.
    private static let deepest = 34
    /// The maximum number of tags: a manifest that names a thousand clients has fewer.
    private static let maximumTags = 200_000
    /// The maximum number of keys in a dictionary.
    ///
    /// Foundation's hash of strings is known, so an attacker can choose keys that all collide.
    private static let maximumKeys = 2_048

    /// Checks a file in one pass.
    ///
    /// - Throws: ``PropertyListValue/Malformed``.
    init(_ bytes: [UInt8]) throws(PropertyListValue.Malformed) {
        guard bytes.count <= Self.maximumBytes else { throw .init(description: "it is too large") }
        if bytes.starts(with: "<?xml".utf8) {
            document = try Self.checkDeclaration(bytes)
        } else {
            document = bytes[...]
        }
        guard document.starts(with: "<plist".utf8) || document.starts(with: "<!DOCTYPE plist".utf8) else {
            throw .init(description: "it isn't an XML property list")
        }
        guard String(validating: document, as: UTF8.self) != nil else { throw .init(description: "it isn't UTF-8") }
        try checkTags()
    }

    /// Checks and removes the XML declaration, which could name an encoding in which tags look different.
    private static func checkDeclaration(
        _ bytes: [UInt8]
    ) throws(PropertyListValue.Malformed) -> ArraySlice<UInt8> {
        guard let end = bytes.firstIndex(of: UInt8(ascii: ">")), bytes[end - 1] == UInt8(ascii: "?") else {
            throw .init(description: "its XML declaration doesn't end")
        }
        let declaration = String(decoding: bytes[..<end], as: UTF8.self).lowercased()
        guard !declaration.contains("encoding") || declaration.contains("utf-8") else {
            throw .init(description: "it isn't UTF-8")
        }
        let rest = bytes[(end + 1)...]
        return rest.drop { $0 != UInt8(ascii: "<") }
    }

    private func checkTags() throws(PropertyListValue.Malformed) {
        var (depth, tags) = (0, 0)
        // The number of keys directly inside each open element.
        var keys = [Int](repeating: 0, count: Self.deepest + 2)
        var rest = document
        while let start = rest.firstIndex(of: UInt8(ascii: "<")) {
            rest = rest[(start + 1)...]
            guard let end = rest.firstIndex(where: { $0 == UInt8(ascii: "<") || $0 == UInt8(ascii: ">") }),
                rest[end] == UInt8(ascii: ">"), let first = rest.first
            else { throw .init(description: "a tag in it doesn't end") }
            let tag = rest[..<end]
            rest = rest[(end + 1)...]
            tags += 1
            guard tags <= Self.maximumTags else { throw .init(description: "it holds too many elements") }
            switch first {
            case UInt8(ascii: "/"): depth -= 1
            case UInt8(ascii: "!"):
                guard tags == 1, tag.starts(with: "!DOCTYPE plist".utf8), !tag.contains(UInt8(ascii: "[")) else {
                    throw .init(description: "it holds a comment or a declaration")
                }
            case UInt8(ascii: "?"): throw .init(description: "it holds a processing instruction")
            default:
                if tag.starts(with: "key".utf8) { keys[depth] += 1 }
                guard keys[depth] <= Self.maximumKeys else { throw .init(description: "it holds too many keys") }
                guard !Self.isEmpty(tag) else { break }
                depth += 1
                keys[depth] = 0
            }
            guard (0...Self.deepest).contains(depth) else {
                throw .init(description: "it is nested more than \(Self.deepest) levels deep, or incorrectly")
            }
        }
    }

    /// Whether a tag is an element without content: a name, white space, and a slash.
    private static func isEmpty(_ tag: ArraySlice<UInt8>) -> Bool {
        let name = tag.prefix { UInt8(ascii: "a")...UInt8(ascii: "z") ~= $0 }
        return tag[name.endIndex...].drop { $0 == UInt8(ascii: " ") }.elementsEqual("/".utf8)
    }
}
