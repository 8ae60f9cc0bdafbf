import Foundation
import RemoteStorageHTTP

#if canImport(FoundationXML)
import FoundationXML
#endif

/// An element of an answer of S3, with what is in it.
struct S3Element: Equatable, Sendable {
    let name: String
    /// The text between its tags, unless there are elements.
    fileprivate(set) var text = ""
    fileprivate(set) var children: [S3Element] = []

    /// Reads a document.
    ///
    /// - Parameters:
    ///   - bytes: An XML document of a page or two.
    ///   - name: What its outermost element is called; `nil` for any name.
    /// - Throws: ``CheckedXML/Malformed``.
    init(_ bytes: [UInt8], named name: String?) throws(CheckedXML.Malformed) {
        let reader = Reader()
        try CheckedXML.parse(bytes, telling: reader)
        guard let root = reader.root, name == nil || root.name == name else {
            throw CheckedXML.Malformed(description: "it is no \(name ?? "whole document")")
        }
        self = root
    }

    fileprivate init(name: String) { self.name = name }

    /// The text of the first element of that name.
    subscript(name: String) -> String? { children.first { $0.name == name }?.text }

    /// The elements of that name.
    func all(_ name: String) -> [S3Element] { children.filter { $0.name == name } }

    private final class Reader: NSObject, XMLParserDelegate {
        /// The outermost element, when it has ended.
        var root: S3Element?
        private var open: [S3Element] = []

        func parser(
            _ parser: XMLParser,
            didStartElement name: String,
            namespaceURI: String?,
            qualifiedName: String?,
            attributes: [String: String]
        ) {
            guard open.count < 16 else { return parser.abortParsing() }
            open.append(S3Element(name: name))
        }

        func parser(_ parser: XMLParser, foundCharacters string: String) {
            guard !open.isEmpty else { return }
            open[open.count - 1].text += string
        }

        func parser(_ parser: XMLParser, foundCDATA block: Data) {
            self.parser(parser, foundCharacters: String(decoding: block, as: UTF8.self))
        }

        func parser(_ parser: XMLParser, didEndElement: String, namespaceURI: String?, qualifiedName: String?) {
            guard let element = open.popLast() else { return }
            guard !open.isEmpty else { return root = element }
            open[open.count - 1].children.append(element)
        }
    }
}
