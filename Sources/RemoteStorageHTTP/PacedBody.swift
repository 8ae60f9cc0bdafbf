import AsyncHTTPClient
import NIOCore
import ThreadSupport

/// The body of an answer, which must not arrive so slowly that it could take forever.
///
/// A server that sends a byte now and then keeps AsyncHTTPClient's limit for reading from ending the request.
struct PacedBody: AsyncSequence, Sendable {
    let body: HTTPClientResponse.Body
    let pace: MinimumPace
    let clock: any Clock<Duration>

    struct AsyncIterator: AsyncIteratorProtocol {
        var body: HTTPClientResponse.Body.AsyncIterator
        var pace: MinimumPace
        let clock: any Clock<Duration>

        mutating func next() async throws -> ByteBuffer? {
            // Only the time in this call counts: the reader may pause between two calls.
            let stopwatch = clock.stopwatch()
            guard let chunk = try await body.next(isolation: #isolation) else { return nil }
            guard pace.isKept(by: chunk.readableBytes, after: stopwatch()) else { throw HTTPClientError.readTimeout }
            return chunk
        }
    }

    func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(body: body.makeAsyncIterator(), pace: pace, clock: clock)
    }
}

/// The minimum number of bytes that must arrive in each period.
struct MinimumPace: Sendable {
    /// Slower than any connection that people use for files.
    private static let bytesPerSecond = 100.0

    private let period: Duration
    private var elapsed = Duration.zero
    private var byteCount = 0

    /// Creates a pace.
    ///
    /// - Parameter readTimeout: The limit for waiting for a byte. A period is five times as long, so that short stalls and the
    ///   spaces that S3 servers send while they combine parts don't count.
    init(readTimeout: Duration) { period = readTimeout * 5 }

    /// Notes bytes that arrived after a wait, and returns whether enough have arrived in the period that ends with them.
    mutating func isKept(by count: Int, after wait: Duration) -> Bool {
        elapsed += wait
        byteCount += count
        guard elapsed >= period else { return true }
        defer { (elapsed, byteCount) = (.zero, 0) }
        return Double(byteCount) >= elapsed / .seconds(1) * Self.bytesPerSecond
    }
}
