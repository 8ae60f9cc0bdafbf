package import Foundation
package import Operations

/// A file that a ``Compression`` has written.
package struct Archive: Sendable {
    package let url: URL
    package let originalBytes: Int

    /// Returns the content of the file that an archive was made of.
    package static func text(in url: URL) throws -> String {
        let bytes = [UInt8](try Data(contentsOf: url))
        var content: [UInt8] = []
        for pair in stride(from: 0, to: bytes.count - 1, by: 2) {
            content += repeatElement(bytes[pair + 1], count: Int(bytes[pair]))
        }
        return String(decoding: content, as: UTF8.self)
    }
}

/// Compresses a file by run lengths: the count of each byte before the byte.
package actor Compression: Operation {
    private let file: URL
    private let archive: URL

    package init(of file: URL, to archive: URL) {
        self.file = file
        self.archive = archive
    }

    package func main(_ context: OperationContext) async throws -> Archive {
        let content = [UInt8](try Data(contentsOf: file))
        var compressed: [UInt8] = []
        for byte in content {
            if compressed.last == byte, compressed[compressed.count - 2] < .max {
                compressed[compressed.count - 2] += 1
            } else {
                compressed += [1, byte]
            }
        }
        try Data(compressed).write(to: archive, options: .atomic)
        return Archive(url: archive, originalBytes: content.count)
    }
}
