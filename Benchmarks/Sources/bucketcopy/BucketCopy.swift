import ArgumentParser
import Foundation
import RemoteStorage
import RemoteStorageS3

/// Sends one file to a bucket, or fetches it, with the backend alone and nothing else that `storesync` does.
@main
struct BucketCopy: AsyncParsableCommand {
    enum Direction: String, ExpressibleByArgument { case up, down, twice }

    @Argument(help: "The direction: up, down, or twice, which sends the file and lets the server copy it.")
    var direction: Direction

    @Argument(help: "The file on this device.")
    var file: String

    @Argument(help: "The remote location, as s3://bucket/prefix. The file's name there is “file”.")
    var place: String

    @Option(help: "The server's URL.")
    var endpoint: String

    @Option(help: "The number of bytes of a part.")
    var partSize: Int?

    @Option(help: "The number of parts that are sent concurrently.")
    var parallelParts: Int?

    func run() async throws {
        guard let url = URL(string: place) else { throw ValidationError("“\(place)” isn't a URL.") }
        var configuration = try S3Configuration(url: url, endpoint: endpoint)
        if let partSize { configuration.partSize = partSize }
        if let parallelParts { configuration.parallelParts = parallelParts }
        let backend = S3Backend(configuration)
        let path = try RemotePath("file")
        switch direction {
        case .up, .twice:
            let content = try await RemoteContent.file(at: URL(filePath: file))
            try await backend.resumeWrite(to: path, when: .ifAbsent, receipts: InMemoryReceipts()) { _ in
                RemoteContentRest(content, after: 0)
            }
            if direction == .twice { try await backend.copy(path, to: RemotePath("copy"), when: .ifAbsent) }
        case .down:
            guard let content = try await backend.read(path) else { throw RemoteError.notFound(path) }
            guard FileManager.default.createFile(atPath: file, contents: nil) else {
                throw ValidationError("“\(file)” can't be created.")
            }
            let handle = try FileHandle(forWritingTo: URL(filePath: file))
            for try await chunk in content { try handle.write(contentsOf: chunk) }
            try handle.close()
        }
    }
}
