import Foundation

/// A password as it was given: UTF-8, normalized, not empty.
struct Password: CustomStringConvertible {
    private static let mostBytes = 1 << 16

    /// In Normalization Form C, without the line end that editors put there.
    let text: String

    /// Says nothing of it.
    var description: String { "a password" }

    /// Reads a file, which may be a pipe.
    init(file path: String) throws {
        let data: Data
        do {
            let handle = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
            defer { try? handle.close() }
            data = try handle.read(upToCount: Self.mostBytes + 1) ?? Data()
        } catch {
            throw UsageError("The password file \(path) can't be read. Check the path and its permissions.")
        }
        try self.init(data, from: "The password file \(path)")
    }

    /// Takes a password that comes from `source`, as people are told.
    init(_ data: Data, from source: String) throws {
        guard data.count <= Self.mostBytes else {
            throw UsageError("\(source) is longer than \(Self.mostBytes) bytes, so it isn't taken for a password.")
        }
        guard let given = String(data: data, encoding: .utf8) else {
            throw UsageError("\(source) isn't UTF-8. Save the password as UTF-8.")
        }
        // A line end of two characters is one `Character`.
        let line = given.last == "\n" || given.last == "\r\n" ? String(given.dropLast()) : given
        text = line.precomposedStringWithCanonicalMapping
        guard !text.isEmpty else {
            throw UsageError("\(source) holds no password. Write one into it, or give none.")
        }
    }
}
