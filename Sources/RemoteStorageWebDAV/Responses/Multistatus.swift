import Foundation
import RemoteStorageHTTP

#if canImport(FoundationXML)
import FoundationXML
#endif

/// A server's answer about several resources (RFC 4918, 14.16).
///
/// Read by Foundation's own streaming parser: XMLCoder uses the same parser, and would build a tree of thousands of
/// elements in between.
struct Multistatus: Sendable {
    /// The properties of one resource.
    struct Resource: Equatable, Sendable {
        var reference = ""
        var isCollection = false
        var contentLength: Int64?
        var modified: Date?
        var entityTag: String?
        var state = State.failed(status: nil)
    }

    /// Whether an answer has a resource's properties.
    enum State: Equatable, Sendable {
        /// At least one property is known.
        case known
        /// The resource doesn't exist; a server may have removed it while it made a list.
        case missing
        /// The server can't say, for the reason that this status gives.
        case failed(status: Int?)
    }

    var resources: [Resource]

    /// Parses an answer.
    ///
    /// - Parameter bytes: An XML document. A document type is refused, because its entities could expand without limit.
    /// - Throws: ``CheckedXML/Malformed``.
    init(_ bytes: [UInt8]) throws(CheckedXML.Malformed) {
        let reader = Reader()
        try CheckedXML.parse(bytes, telling: reader)
        guard reader.isComplete else { throw CheckedXML.Malformed(description: "it isn't a multistatus") }
        resources = reader.resources
    }

    private final class Reader: NSObject, XMLParserDelegate {
        var resources: [Resource] = []
        /// Whether the outermost element, a multistatus, has ended.
        var isComplete = false
        /// The maximum number of open elements, and of bytes in a name: with long paths, a short answer would take minutes.
        private static let (maximumDepth, maximumNameLength) = (16, 255)
        /// The names of the open elements, separated by slashes.
        private var path = ""
        private var depth = 0
        private var text = ""
        private var resource = Resource()
        /// The references of a response, which has several only if it has a status instead of properties.
        private var references: [String] = []
        /// The properties of a `propstat`, until its status is known.
        private var found = Resource()

        func parser(
            _ parser: XMLParser,
            didStartElement name: String,
            namespaceURI: String?,
            qualifiedName: String?,
            attributes: [String: String]
        ) {
            guard depth < Self.maximumDepth, name.utf8.count <= Self.maximumNameLength else {
                return parser.abortParsing()
            }
            let name = namespaceURI == "DAV:" ? name : "other:\(name)"
            depth += 1
            path += path.isEmpty ? name : "/" + name
            text = ""
            switch path {
            case "multistatus/response": (resource, references) = (Resource(), [])
            case "multistatus/response/propstat": found = Resource()
            case "multistatus/response/propstat/prop/resourcetype/collection": found.isCollection = true
            default: break
            }
        }

        func parser(_ parser: XMLParser, foundCharacters string: String) { text += string }

        func parser(_ parser: XMLParser, foundCDATA block: Data) { text += String(decoding: block, as: UTF8.self) }

        func parser(_ parser: XMLParser, didEndElement: String, namespaceURI: String?, qualifiedName: String?) {
            let value = text.trimmingCharacters(in: .whitespacesAndNewlines)
            switch path {
            case "multistatus/response/href": references.append(value)
            case "multistatus/response/status": note(Self.status(value), isOfResource: true)
            case "multistatus/response/propstat/prop/getcontentlength": found.contentLength = Int64(value)
            case "multistatus/response/propstat/prop/getlastmodified": found.modified = Date(http: value)
            case "multistatus/response/propstat/prop/getetag": found.entityTag = value.isEmpty ? nil : value
            case "multistatus/response/propstat/status":
                // Properties that the server lacks are in a separate propstat, with another status.
                let status = Self.status(value)
                guard status == 200 else {
                    note(status, isOfResource: false)
                    break
                }
                resource.state = .known
                resource.isCollection = resource.isCollection || found.isCollection
                resource.contentLength = found.contentLength ?? resource.contentLength
                resource.modified = found.modified ?? resource.modified
                resource.entityTag = found.entityTag ?? resource.entityTag
            case "multistatus/response":
                for reference in references {
                    resource.reference = reference
                    resources.append(resource)
                }
            case "multistatus": isComplete = true
            default: break
            }
            depth -= 1
            path.removeSubrange((path.utf8.lastIndex(of: UInt8(ascii: "/")) ?? path.startIndex)...)
            text = ""
        }

        /// Notes a status other than success, of the resource itself or only of some properties.
        private func note(_ status: Int?, isOfResource: Bool) {
            guard resource.state != .known, resource.state != .missing else { return }
            let isMissing = isOfResource && (status == 404 || status == 410)
            resource.state = isMissing ? .missing : .failed(status: status)
        }

        /// The number in a status line, such as `HTTP/1.1 200 OK`.
        private static func status(_ line: String) -> Int? {
            line.split(separator: " ").dropFirst().first.flatMap { Int($0) }
        }
    }
}
