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
    ///   - place: The server's name, for errors.
    /// - Throws: ``RemoteError/Code/unavailable`` for an answer to another request.
    package init(_ response: HTTPResponse, of path: RemotePath, range: Range<Int64>?, _ place: String) throws {
        let announced = response.headers.first(name: "Content-Length").flatMap { Int64($0) }
        var skipped: Int64 = 0
        var length = announced
        if let range {
            if response.status == 206 {
                let sent = ContentRange(response)
                guard let sent, sent.range.lowerBound == range.lowerBound, sent.range.upperBound <= range.upperBound
                else {
                    throw RemoteError.anotherPart(of: path, from: place)
                }
                length = sent.range.upperBound - sent.range.lowerBound
            } else {
                skipped = range.lowerBound
                length = announced.map { Int64(range.clamped(to: 0..<$0).count) }
            }
        }
        self.init(
            response.body,
            from: response.transport,
            skipping: skipped,
            length: length,
            limit: range?.upperBound,
            path,
            place
        )
    }

    private init(
        _ body: HTTPClientResponse.Body,
        from transport: (any HTTPSending)?,
        skipping skipped: Int64,
        length: Int64?,
        limit: Int64?,
        _ path: RemotePath,
        _ place: String
    ) {
        self.init(onceFrom: path, length: length) {
            var source = body.makeAsyncIterator()
            var toSkip = skipped
            var left = length ?? limit.map { $0 - skipped }
            return {
                defer { extendLifetime(transport) }
                while left != 0 {
                    try Task.checkCancellation()
                    let buffer: ByteBuffer?
                    do {
                        buffer = try await source.next(isolation: #isolation)
                    } catch {
                        try Task.checkCancellation()
                        throw Self.brokenOff(path, place, cause: error)
                    }
                    guard var buffer else {
                        guard length == nil else { throw Self.brokenOff(path, place, cause: nil) }
                        return nil
                    }
                    let skips = Int(Swift.min(toSkip, Int64(buffer.readableBytes)))
                    buffer.moveReaderIndex(forwardBy: skips)
                    toSkip -= Int64(skips)
                    let count = Int(Swift.min(left ?? .max, Int64(buffer.readableBytes)))
                    left = left.map { $0 - Int64(count) }
                    guard count > 0 else { continue }
                    return Array(buffer.readableBytesView.prefix(count))
                }
                return nil
            }
        }
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
package struct ContentRange: Equatable {
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
        range = first..<last + 1
        total = Int64(words[3])
    }
}
