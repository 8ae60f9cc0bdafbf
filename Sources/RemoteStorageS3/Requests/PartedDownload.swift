import RemoteStorage

/// Reads a large file whose parts are fetched side by side and given out in order.
final class PartedDownload {
    // Not Sendable: it belongs to whoever reads the file.

    /// How many bytes a part has: a connection carries it in a moment, and few of them take no memory to speak of.
    static let partSize: Int64 = 2 << 20

    private var first: RemoteContent.AsyncIterator?
    /// What hasn't been asked for yet.
    private var rest: Range<Int64>
    private let partSize: Int64
    private let parallelParts: Int
    private let fetch: @Sendable (Range<Int64>) async throws -> [UInt8]
    /// What is on its way, or here before its turn.
    private var parts: [Task<[UInt8], any Error>] = []
    /// What a part failed with: there is nothing after it.
    private var failure: (any Error)?

    /// Begins with what is on its way.
    ///
    /// - Parameters:
    ///   - first: The file's beginning.
    ///   - rest: Where the parts are in the file.
    ///   - partSize: How many bytes each has but the last.
    ///   - parallelParts: How many are fetched at once.
    ///   - fetch: Fetches one.
    init(
        _ first: RemoteContent,
        rest: Range<Int64>,
        partSize: Int64 = PartedDownload.partSize,
        parallelParts: Int,
        _ fetch: @escaping @Sendable (Range<Int64>) async throws -> [UInt8]
    ) {
        self.first = first.makeAsyncIterator()
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
            if let chunk = try await first?.next() { return chunk }
            first = nil
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
            let end = rest.lowerBound + min(partSize, rest.upperBound - rest.lowerBound)
            let part = rest.lowerBound..<end
            rest = end..<rest.upperBound
            parts.append(Task { [fetch] in try await fetch(part) })
        }
    }
}
