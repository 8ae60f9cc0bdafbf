import RemoteStorage

/// What this device knows of an upload in parts: its identifier, and the parts that the server has acknowledged.
///
/// Noted as lines of text: the identifier, then for each part its number, its size and its tag. An incomplete last line
/// doesn't count. A part of an upload that another attempt sent, or that was sent again since, has no receipt.
struct UploadReceipts: Sendable {
    let identifier: String
    private(set) var parts: [Int: PartedUpload.Part] = [:]

    /// Reads what was noted; `nil` if that names no upload.
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

    /// The parts from the first one on that the server lists as they were acknowledged, without a gap.
    ///
    /// - Parameters:
    ///   - listed: What the server lists.
    ///   - minimumSize: How many bytes a part must have that another one follows.
    /// - Returns: The parts by their numbers.
    func keptParts(
        _ listed: [S3Element],
        minimumSize: Int = S3Configuration.smallestPartSize
    ) -> [Int: PartedUpload.Part] {
        let sizes = Int64(minimumSize)...PartedUpload.maximumPartSize
        // SeaweedFS lists a part twice that was sent twice.
        let kept = Set(listed.compactMap { number(ofAcknowledged: $0, sizes) })
        // Another part must be able to follow each of them.
        let count = (1..<PartedUpload.mostParts).prefix { kept.contains($0) }.count
        return parts.filter { (1..<count + 1).contains($0.key) }
    }

    /// The number of a part that the server has as it acknowledged it.
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
    /// What is noted of the upload as it is now.
    var notedReceipts: [UInt8] {
        parts.sorted { $0.key < $1.key }.reduce(into: Array("\(identifier)\n".utf8)) {
            $0 += Self.receipt(of: $1.value, $1.key)
        }
    }

    /// What is noted of a part that was acknowledged.
    static func receipt(of part: Part, _ number: Int) -> [UInt8] {
        Array("\(number) \(part.byteCount) \(part.tag)\n".utf8)
    }
}
