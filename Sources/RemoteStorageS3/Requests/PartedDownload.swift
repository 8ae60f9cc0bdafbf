import RemoteStorage

/// Reads a large file whose parts are fetched concurrently and returned in order.
final class PartedDownload {
    // Not Sendable: it belongs to the file's reader.

    /// The number of bytes of a part: small enough to transfer quickly, and to hold several in memory.
    static let partSize: Int64 = 2 << 20

    private var first: RemoteContent.AsyncIterator?
    /// The range of the first response that hasn't arrived.
    private var missing: Range<Int64>
    /// The range that hasn't been requested yet.
    private var rest: Range<Int64>
    private let partSize: Int64
    private let parallelParts: Int
    private let fetch: @Sendable (Range<Int64>) async throws -> [UInt8]
    /// The parts that are being fetched, or have arrived before their turn.
    private var parts: [Task<[UInt8], any Error>] = []
    /// The error of a failed part, which ends the download.
    private var failure: (any Error)?

    /// Creates a download whose first request has already been sent.
    ///
    /// - Parameters:
    ///   - first: The file's beginning, as the first request returns it.
    ///   - rest: The range of the file that the parts cover.
    ///   - partSize: The number of bytes of each part except the last one.
    ///   - parallelParts: The number of concurrent requests.
    ///   - fetch: Fetches one part.
    init(
        _ first: RemoteContent,
        rest: Range<Int64>,
        partSize: Int64 = PartedDownload.partSize,
        parallelParts: Int,
        _ fetch: @escaping @Sendable (Range<Int64>) async throws -> [UInt8]
    ) {
        self.first = first.makeAsyncIterator()
        missing = rest.lowerBound - (first.length ?? 0)..<rest.lowerBound
        self.rest = rest
        self.partSize = partSize
        self.parallelParts = max(1, parallelParts)
        self.fetch = fetch
    }

    deinit {
        for part in parts { part.cancel() }
    }

    /// The next bytes, or `nil` at the end.
    func next() async throws -> [UInt8]? {
        if let failure { throw failure }
        do {
            try Task.checkCancellation()
            return try await nextPart()
        } catch {
            for part in parts { part.cancel() }
            failure = error
            throw error
        }
    }

    private func nextPart() async throws -> [UInt8]? {
        if first != nil {
            fetchAhead(parallelParts - 1)
            do {
                if let chunk = try await first?.next() {
                    missing = missing.dropFirst(chunk.count)
                    return chunk
                }
            } catch let error as RemoteError where error.code == .unavailable && !missing.isEmpty {
                // The connection broke, perhaps because the reader paused for long. The rest is fetched like the parts.
            }
            first = nil
        }
        if !missing.isEmpty {
            let bytes = try await fetch(missing.prefix(partSize))
            missing = missing.dropFirst(bytes.count)
            return bytes
        }
        fetchAhead(parallelParts)
        guard !parts.isEmpty else { return nil }
        let part = parts.removeFirst()
        return try await withTaskCancellationHandler {
            try await part.value
        } onCancel: {
            part.cancel()
        }
    }

    private func fetchAhead(_ count: Int) {
        while parts.count < count, !rest.isEmpty {
            let part = rest.prefix(partSize)
            rest = rest.dropFirst(part.count)
            parts.append(Task { [fetch] in try await fetch(part) })
        }
    }
}

extension Range<Int64> {
    /// The first numbers of this range, at most `count`.
    fileprivate func prefix(_ count: Int64) -> Range {
        lowerBound..<lowerBound + Swift.min(count, upperBound - lowerBound)
    }

    /// This range without its first numbers.
    fileprivate func dropFirst(_ count: Int) -> Range { Swift.min(lowerBound + Int64(count), upperBound)..<upperBound }
}
