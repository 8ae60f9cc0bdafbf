import Foundation
import RemoteStorageHTTP

#if canImport(FoundationXML)
import FoundationXML
#endif

/// An XML element of an S3 response, with its content.
struct S3Element: Sendable {
    let name: String
    /// The text between its tags, unless it has child elements.
    fileprivate(set) var text = ""
    fileprivate(set) var children: [S3Element] = []

    /// Reads a document.
    ///
    /// - Parameters:
    ///   - bytes: An XML document of a page or two.
    ///   - name: The name of the outermost element; `nil` for any name.
    /// - Throws: ``CheckedXML/Malformed``.
    init(_ bytes: [UInt8], named name: String?) throws(CheckedXML.Malformed) {
        let reader = Reader()
        // A server may send spaces while it combines parts, to keep the connection open.
        let spaces = bytes.prefix { [0x20, 0x0A, 0x0D].contains($0) }.count
        try CheckedXML.parse(spaces == 0 ? bytes : Array(bytes.dropFirst(spaces)), telling: reader)
        guard let root = reader.root, name == nil || root.name == name else {
            throw CheckedXML.Malformed(description: "it isn't a \(name ?? "complete document")")
        }
        self = root
    }

    fileprivate init(name: String) { self.name = name }

    /// The text of the first child of that name.
    subscript(name: String) -> String? { children.first { $0.name == name }?.text }

    /// The children of that name.
    func all(_ name: String) -> [S3Element] { children.filter { $0.name == name } }

    private final class Reader: NSObject, XMLParserDelegate {
        /// The outermost element, once it has ended.
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
