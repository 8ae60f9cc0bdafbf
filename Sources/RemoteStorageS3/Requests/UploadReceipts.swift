import RemoteStorage

/// This device's record of a multipart upload: its identifier, and the parts that the server has acknowledged.
///
/// Stored as lines of text: the identifier, then for each part its number, its size and its tag. An incomplete last line
/// doesn't count. A part that another attempt sent, or that was sent again since, has no receipt.
struct UploadReceipts: Sendable {
    let identifier: String
    private(set) var parts: [Int: PartedUpload.Part] = [:]

    /// Reads stored receipts; `nil` if they name no upload.
    init?(_ bytes: [UInt8]) {
        guard let end = bytes.lastIndex(of: UInt8(ascii: "\n")) else { return nil }
        let lines = bytes[..<end].split(separator: UInt8(ascii: "\n")).map { String(decoding: $0, as: UTF8.self) }
        guard let identifier = lines.first else { return nil }
        self.identifier = identifier
        for line in lines.dropFirst() {
            let fields = line.split(separator: " ", maxSplits: 2)
            guard fields.count == 3, let number = Int(fields[0]), let byteCount = Int64(fields[1]) else { return }
            parts[number] = PartedUpload.Part(tag: String(fields[2]), byteCount: byteCount)
        }
    }

    /// Returns the parts that the server lists as it acknowledged them, from the first one up to a gap.
    ///
    /// - Parameters:
    ///   - listed: The parts that the server lists.
    ///   - minimumSize: The minimum number of bytes of a part that another one follows.
    /// - Returns: The parts by number.
    func keptParts(
        _ listed: [S3Element],
        minimumSize: Int = S3Configuration.smallestPartSize
    ) -> [Int: PartedUpload.Part] {
        let sizes = Int64(minimumSize)...PartedUpload.maximumPartSize
        // SeaweedFS lists a part twice if it was sent twice.
        let kept = Set(listed.compactMap { number(ofAcknowledged: $0, sizes) })
        // The limit leaves a number for another part that follows.
        let count = (1..<PartedUpload.maximumParts).prefix { kept.contains($0) }.count
        return parts.filter { (1..<count + 1).contains($0.key) }
    }

    /// The number of a listed part; `nil` if it differs from the acknowledged one.
    private func number(ofAcknowledged listed: S3Element, _ sizes: ClosedRange<Int64>) -> Int? {
        guard let number = listed["PartNumber"].flatMap({ Int($0) }), let tag = listed["ETag"],
            let part = parts[number], listed["Size"].flatMap({ Int64($0) }) == part.byteCount,
            RemoteTag(entityTag: tag) == RemoteTag(entityTag: part.tag),
            sizes.contains(part.byteCount)
        else { return nil }
        return number
    }
}

extension PartedUpload {
    /// The receipts of the upload's present state.
    var notedReceipts: [UInt8] {
        parts.sorted { $0.key < $1.key }.reduce(into: Array("\(identifier)\n".utf8)) {
            $0 += Self.receipt(of: $1.value, $1.key)
        }
    }

    /// The receipt of an acknowledged part.
    static func receipt(of part: Part, _ number: Int) -> [UInt8] {
        Array("\(number) \(part.byteCount) \(part.tag)\n".utf8)
    }
}
