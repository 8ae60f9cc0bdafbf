import AsyncHTTPClient
import NIOCore
import NIOHTTP1
package import RemoteStorage

extension RemoteContent {
    /// Creates a content that streams the bytes of an answer.
    ///
    /// - Parameters:
    ///   - response: An answer with the status 200 or 206.
    ///   - path: The requested path.
    ///   - range: The requested range; a server may ignore it and send the whole file.
    ///   - size: The file's size, for answers that don't announce it; `nil` if it isn't known.
    ///   - mayBeShort: Whether the caller requests the rest if the server sends less than it could.
    ///   - place: The server's name, for errors.
    /// - Throws: ``RemoteError/Code/unavailable`` for an answer to another request.
    package init(
        _ response: HTTPResponse,
        of path: RemotePath,
        range: Range<Int64>?,
        size: Int64? = nil,
        mayBeShort: Bool = false,
        _ place: String
    ) throws {
        let announced = response.headers.contentLength
        var slice = Slice(length: announced ?? size)
        // Without an announced length, the file may also be longer than it was.
        slice.isExact = announced == nil && size != nil
        if response.status == 206 {
            guard let sent = ContentRange(response), sent.answers(range, size: size, mayBeShort: mayBeShort) else {
                throw RemoteError.anotherPart(of: path, from: place)
            }
            slice = Slice(length: sent.range.upperBound - sent.range.lowerBound)
        } else if let range {
            slice.skipped = range.lowerBound
            slice.isExact = slice.isExact && range.upperBound >= size ?? .max
            slice.length = slice.length.map { Int64(range.clamped(to: 0..<$0).count) }
            slice.limit = slice.length ?? range.upperBound - range.lowerBound
        }
        self.init(response.body, from: response.transport, slice, path, place)
    }

    /// The bytes of a body that belong to a content.
    private struct Slice {
        /// The number of bytes; `nil` if it isn't known.
        var length: Int64?
        /// The maximum number of bytes; `nil` for no limit.
        var limit: Int64?
        /// The number of bytes before the content.
        var skipped: Int64 = 0
        /// Whether the body must end with the content.
        var isExact = false

        init(length: Int64?) { (self.length, limit) = (length, length) }
    }

    private init(
        _ body: HTTPClientResponse.Body,
        from transport: (any HTTPSending)?,
        _ slice: Slice,
        _ path: RemotePath,
        _ place: String
    ) {
        self.init(onceFrom: path, length: slice.length) {
            var source = body.makeAsyncIterator()
            var toSkip = slice.skipped
            var left = slice.limit
            return {
                defer { extendLifetime(transport) }
                while left != 0 || slice.isExact {
                    try Task.checkCancellation()
                    let buffer: ByteBuffer?
                    do {
                        buffer = try await source.next(isolation: #isolation)
                    } catch {
                        try Task.checkCancellation()
                        throw Self.brokenOff(path, place, cause: error)
                    }
                    guard var buffer else {
                        guard slice.length == nil || left == 0 else { throw Self.brokenOff(path, place, cause: nil) }
                        return nil
                    }
                    let skips = Int(Swift.min(toSkip, Int64(buffer.readableBytes)))
                    buffer.moveReaderIndex(forwardBy: skips)
                    toSkip -= Int64(skips)
                    let count = Int(Swift.min(left ?? .max, Int64(buffer.readableBytes)))
                    guard !slice.isExact || count == buffer.readableBytes else { throw Self.tooLong(path, place) }
                    left = left.map { $0 - Int64(count) }
                    guard count > 0 else { continue }
                    return Array(buffer.readableBytesView.prefix(count))
                }
                return nil
            }
        }
    }

    private static func tooLong(_ path: RemotePath, _ place: String) -> RemoteError {
        RemoteError(
            .unavailable,
            "\(place) sent more bytes of “\(path)” than the file had. Another device may have replaced it. Try again.",
            path: path
        )
    }

    private static func brokenOff(_ path: RemotePath, _ place: String, cause: (any Error)?) -> RemoteError {
        RemoteError(
            .unavailable,
            "The connection to \(place) broke off while “\(path)” was read. Try again.",
            path: path,
            cause: cause
        )
    }
}

extension RemoteError {
    /// The error for an answer with another part of a file than the requested one.
    package static func anotherPart(of path: RemotePath, from place: String) -> RemoteError {
        RemoteError(
            .unavailable,
            "\(place) sent another part of “\(path)” than the requested one. Try again later.",
            path: path
        )
    }
}

/// The header that names the part of a file in an answer: `bytes 0-499/1234`.
package struct ContentRange {
    package var range: Range<Int64>
    /// The number of bytes in the whole file; `nil` if the server doesn't report it.
    package var total: Int64?

    /// Reads the header of an answer.
    package init?(_ response: HTTPResponse) {
        guard let header = response.headers.first(name: "Content-Range") else { return nil }
        self.init(header)
    }

    package init?(_ header: String) {
        let words = header.split { $0 == " " || $0 == "-" || $0 == "/" }
        guard words.count == 4, words[0].lowercased() == "bytes", let first = Int64(words[1]),
            let last = Int64(words[2]),
            first >= 0, first <= last, last < .max
        else { return nil }
        let total = Int64(words[3])
        guard total.map({ last < $0 }) ?? true else { return nil }
        range = first..<last + 1
        self.total = total
    }

    /// Whether this part is the answer to a request for a range, or for the whole file.
    ///
    /// A server may send less than the range. Only the file's size tells that from the file's end.
    fileprivate func answers(_ requested: Range<Int64>?, size: Int64?, mayBeShort: Bool) -> Bool {
        let total = total ?? size
        guard let requested else { return range.lowerBound == 0 && range.upperBound == total }
        guard range.lowerBound == requested.lowerBound, range.upperBound <= requested.upperBound else { return false }
        return mayBeShort || total.map { range.upperBound >= min(requested.upperBound, $0) } ?? true
    }
}
