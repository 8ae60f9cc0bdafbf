#if canImport(FoundationXML)
import Foundation
package import FoundationXML
#else
package import Foundation
#endif

/// Foundation's XML parser, made safe for documents from an untrusted server.
///
/// That parser crashes on text that isn't UTF-8, and accepts a truncated document as complete. This type checks the
/// former; the delegate must check the latter.
package enum CheckedXML {
    /// The error for a document that can't be read.
    package struct Malformed: Error, CustomStringConvertible {
        package var description: String

        package init(description: String) { self.description = description }
    }

    /// Parses a document.
    ///
    /// - Parameters:
    ///   - bytes: The document. A document type is refused, because its entities could expand without limit.
    ///   - delegate: The parser's delegate, which receives the elements.
    /// - Throws: ``Malformed``.
    package static func parse(_ bytes: [UInt8], telling delegate: any XMLParserDelegate) throws(Malformed) {
        guard !bytes.contains(0), String(validating: bytes, as: UTF8.self) != nil else {
            throw Malformed(description: "it isn't UTF-8")
        }
        let data = Data(bytes)
        guard data.range(of: Data("<!DOCTYPE".utf8)) == nil else {
            throw Malformed(description: "it has a document type")
        }
        guard !hasLongTag(bytes) else {
            throw Malformed(description: "a tag and the text after it are longer than 64 KiB, or name many namespaces")
        }
        // With another encoding, the parser would read other characters than the checked ones.
        if let encoding = declaredEncoding(data) {
            let isASCII = supersetsOfASCII.contains(encoding) && bytes.allSatisfy { $0 < 0x80 }
            guard isASCII || ["utf-8", "utf8"].contains(encoding) else {
                throw Malformed(description: "its encoding is \(encoding.prefix(40)), not UTF-8")
            }
        }
        let parser = XMLParser(data: data)
        parser.shouldProcessNamespaces = true
        parser.shouldResolveExternalEntities = false
        parser.delegate = delegate
        guard parser.parse() else {
            throw Malformed(description: parser.parserError.map { "\($0)" } ?? "it isn't XML")
        }
    }

    /// The maximum length of a document in bytes: libxml2 reads no longer one.
    package static let maximumByteCount = 10_000_000

    /// The maximum number of bytes of a tag and the text that follows it.
    ///
    /// The parser compares each attribute of a tag with all others: with thousands of them, a short document would take hours.
    private static let maximumTagLength = 1 << 16

    /// The maximum number of namespace prefixes that a tag declares.
    ///
    /// The parser compares the prefix of each name with all prefixes that the open elements declare.
    private static let maximumPrefixes = 32

    private static func hasLongTag(_ bytes: [UInt8]) -> Bool {
        let declaration = "xmlns:".utf8.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        var (length, prefixes, lastSixBytes) = (0, 0, UInt64(0))
        return bytes.contains { byte in
            lastSixBytes = lastSixBytes << 8 & 0xFFFF_FFFF_FFFF | UInt64(byte)
            if lastSixBytes == declaration { prefixes += 1 }
            length += 1
            // An attribute may contain the character that ends a tag, but not this one.
            if byte == UInt8(ascii: "<") { (length, prefixes) = (0, 0) }
            return length > maximumTagLength || prefixes > maximumPrefixes
        }
    }

    /// Encodings in which the bytes of ASCII mean the same.
    private static let supersetsOfASCII: Set = ["us-ascii", "iso-8859-1", "iso-8859-15", "windows-1252"]

    /// Returns the encoding that a document declares at its beginning, in lower case.
    private static func declaredEncoding(_ data: Data) -> String? {
        let start = data.prefix(1000)
        let end = start.range(of: Data("?>".utf8))?.lowerBound
        let declaration = String(decoding: start[..<(end ?? start.endIndex)], as: UTF8.self)
        guard declaration.prefixMatch(of: /\u{FEFF}?<\?xml\s/.matchingSemantics(.unicodeScalar)) != nil else {
            return nil
        }
        // An encoding may follow after the longest sensible declaration.
        guard end != nil else { return "unknown" }
        let encoding = /\sencoding\s*=\s*["']([^"']*)/.matchingSemantics(.unicodeScalar)
        return declaration.firstMatch(of: encoding).map { $0.1.lowercased() }
    }
}
