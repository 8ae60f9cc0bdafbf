#if canImport(FoundationXML)
import Foundation
package import FoundationXML
#else
package import Foundation
#endif

/// Foundation's XML parser, for what a stranger sent.
///
/// That parser crashes on what isn't UTF-8, and takes a document that broke off for a whole one: the former is looked for
/// here, the latter is for the delegate to notice.
package enum CheckedXML {
    /// A document that can't be read.
    package struct Malformed: Error, CustomStringConvertible {
        package var description: String

        package init(description: String) { self.description = description }
    }

    /// Reads a document.
    ///
    /// - Parameters:
    ///   - bytes: The document. One with a document type is refused: entities could grow without end.
    ///   - delegate: What is told of it.
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
            throw Malformed(description: parser.parserError.map { "\($0)" } ?? "it is no XML")
        }
    }
}
