import OperationsTesting
import TestSupport

@testable import SyncCryptography

/// Returns bytes from hexadecimal digits.
func bytes(hex: String) -> [UInt8] {
    let digits = Array(hex.utf8)
    return stride(from: 0, to: digits.count, by: 2).compactMap {
        UInt8(String(decoding: digits[$0..<$0 + 2], as: UTF8.self), radix: 16)
    }
}

/// Returns the hexadecimal digits of bytes.
func hex(_ bytes: some Sequence<UInt8>) -> String {
    bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
}

extension [UInt8] {
    /// Returns bytes that can't be compressed, the same for the same seed.
    static func noise(_ count: Int, seed: UInt64 = 1) -> [UInt8] {
        var generator = SplitMix64(seed: seed)
        return .noise(count, using: &generator)
    }

    /// Returns bytes that compress well, and differ in every kibibyte.
    static func text(_ count: Int) -> [UInt8] {
        (0..<count).map { UInt8(truncatingIfNeeded: $0 / 64 &+ $0 % 3) }
    }
}

/// An asynchronous sequence of bytes, in pieces of given sizes, over and over.
struct Pieces: AsyncSequence, Sendable {
    var bytes: [UInt8]
    var sizes: [Int]
    /// Called before each piece.
    var before: @Sendable (_ piece: Int) async throws -> Void = { _ in }

    func makeAsyncIterator() -> Iterator { Iterator(pieces: self, rest: bytes[...]) }

    struct Iterator: AsyncIteratorProtocol {
        let pieces: Pieces
        var rest: ArraySlice<UInt8>
        var index = 0

        mutating func next() async throws -> [UInt8]? {
            guard !rest.isEmpty else { return nil }
            try await pieces.before(index)
            let piece = rest.prefix(pieces.sizes[index % pieces.sizes.count])
            rest = rest.dropFirst(piece.count)
            index += 1
            return Array(piece)
        }
    }
}

/// Concatenates all pieces.
func collect<Source: AsyncSequence>(_ source: Source) async throws -> [UInt8] where Source.Element == [UInt8] {
    var bytes: [UInt8] = []
    for try await piece in source { bytes += piece }
    return bytes
}
