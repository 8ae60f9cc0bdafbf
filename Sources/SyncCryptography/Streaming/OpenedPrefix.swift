package import ContentDigests

/// The beginning of a sealed file that was opened before, after which a pass resumes.
package struct OpenedPrefix: Sendable {
    /// The sealed file's bytes before the first chunk.
    let start: [UInt8]
    /// The number of chunks, at least 1.
    let count: Int
    /// The tally of the chunks and the bytes before the first chunk.
    let tally: ContentTally

    /// The number of the file's bytes in the chunks.
    package var plainBytes: Int64 { tally.plainBytes }
    /// The size of the chunks in the sealed file, including the bytes before the first chunk.
    package var sealedBytes: Int64 { tally.sealedBytes }

    /// Creates the prefix that consists of noted chunks; `nil` if there are none.
    package init?(_ noted: some Collection<NotedChunk>, start: [UInt8]) {
        guard !noted.isEmpty else { return nil }
        self.start = start
        count = noted.count
        tally = ContentTally(of: noted)
    }
}
