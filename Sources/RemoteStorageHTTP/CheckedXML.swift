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
        let parser = XMLParser(data: data)
        parser.shouldProcessNamespaces = true
        parser.shouldResolveExternalEntities = false
        parser.delegate = delegate
        guard parser.parse() else {
            throw Malformed(description: parser.parserError.map { "\($0)" } ?? "it isn't XML")
        }
    }
}
