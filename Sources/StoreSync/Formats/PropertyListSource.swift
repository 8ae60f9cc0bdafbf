/// The bytes of an XML property list, looked through before Foundation's parser sees them.
///
/// That parser recurses with every element, takes a file's word for its encoding, skips comments and instructions, in
/// which anything can hide, and tries another syntax on what isn't XML. So only what property lists are made of passes:
/// elements, one document type, UTF-8.
struct PropertyListSource {
    /// What the parser is given: everything after the XML declaration.
    let document: ArraySlice<UInt8>

    private static let mostBytes = 4 << 20
    /// How many elements may be inside of each other: a property list, its values, and the text in the innermost.
    private static let deepest = 34
    /// A manifest that names a thousand clients has fewer.
    private static let mostTags = 200_000
    /// How many keys a dictionary may have: Foundation's hash of strings is known, so keys can be chosen that all collide.
    private static let mostKeys = 2_048

    /// Looks through a file, once from its beginning to its end.
    ///
    /// - Throws: ``PropertyListValue/Malformed``.
    init(_ bytes: [UInt8]) throws(PropertyListValue.Malformed) {
        guard bytes.count <= Self.mostBytes else { throw .init(description: "it is too large") }
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

    /// Takes the declaration off, which could name an encoding in which tags look otherwise.
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
        // Of every element that is open, how many keys are right inside of it.
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
            guard tags <= Self.mostTags else { throw .init(description: "it holds too many elements") }
            switch first {
            case UInt8(ascii: "/"): depth -= 1
            case UInt8(ascii: "!"):
                guard tags == 1, tag.starts(with: "!DOCTYPE plist".utf8), !tag.contains(UInt8(ascii: "[")) else {
                    throw .init(description: "it holds a comment or a declaration")
                }
            case UInt8(ascii: "?"): throw .init(description: "it holds an instruction")
            default:
                if tag.starts(with: "key".utf8) { keys[depth] += 1 }
                guard keys[depth] <= Self.mostKeys else { throw .init(description: "it holds too many keys") }
                guard !Self.isEmpty(tag) else { break }
                depth += 1
                keys[depth] = 0
            }
            guard (0...Self.deepest).contains(depth) else {
                throw .init(description: "it is nested more than \(Self.deepest) levels deep, or wrongly")
            }
        }
    }

    /// Whether a tag is an element without content: a name, white space, and a slash.
    private static func isEmpty(_ tag: ArraySlice<UInt8>) -> Bool {
        let name = tag.prefix { UInt8(ascii: "a")...UInt8(ascii: "z") ~= $0 }
        return tag[name.endIndex...].drop { $0 == UInt8(ascii: " ") }.elementsEqual("/".utf8)
    }
}
