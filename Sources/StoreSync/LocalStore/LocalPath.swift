/// A path on this device, as this device remembers it.
///
/// Paths are compared by their bytes. Two forms of one text (“é” as one character or as two) are equal as Swift strings,
/// but on Linux they name two files. Where they name one, `asKey` has given the path one form.
struct LocalPath: Hashable, Sendable {
    private let bytes: [UInt8]

    /// Creates the path that a text names.
    init(_ text: String) { bytes = Array(text.utf8) }

    /// The path as text, for the file system.
    var text: String { String(decoding: bytes, as: UTF8.self) }

    /// The path if a directory above it was moved; `nil` if this path isn't below the directory.
    func moved(from former: LocalPath, to path: LocalPath) -> LocalPath? {
        guard bytes.starts(with: former.bytes + "/".utf8) else { return nil }
        return LocalPath(path.text + String(decoding: bytes[former.bytes.count...], as: UTF8.self))
    }
}

extension LocalPath: CustomStringConvertible {
    var description: String { text }
}

/// It's coded as its text.
extension LocalPath: Codable {
    init(from decoder: any Decoder) throws {
        self.init(try decoder.singleValueContainer().decode(String.self))
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(text)
    }
}
