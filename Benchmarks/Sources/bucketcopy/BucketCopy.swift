import ArgumentParser
import CLibsodium
import Foundation
import RemoteStorage
import RemoteStorageS3

/// Sends one file to a bucket, or fetches it, with the backend alone and nothing else that `storesync` does.
@main
struct BucketCopy: AsyncParsableCommand {
    enum Work: String, ExpressibleByArgument { case up, twice, down, deciphered, digested }

    @Argument(
        help: """
            What to do: up sends the file, and twice also lets the server copy it. down fetches it; deciphered and digested \
            also let libsodium decipher or digest it, as a pull must.
            """
    )
    var work: Work

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
        switch work {
        case .up, .twice:
            let content = try await RemoteContent.file(at: URL(filePath: file))
            try await backend.resumeWrite(to: path, when: .ifAbsent, receipts: InMemoryReceipts()) { _ in
                RemoteContentRest(content, after: 0)
            }
            if work == .twice { try await backend.copy(path, to: RemotePath("copy"), when: .ifAbsent) }
        case .down, .deciphered, .digested:
            // Chooses the implementation for this processor.
            precondition(sodium_init() >= 0, "libsodium can't be used")
            guard let content = try await backend.read(path) else { throw RemoteError.notFound(path) }
            guard FileManager.default.createFile(atPath: file, contents: nil) else {
                throw ValidationError("“\(file)” can't be created.")
            }
            let handle = try FileHandle(forWritingTo: URL(filePath: file))
            let process: (@Sendable ([UInt8]) -> Void)? =
                switch work {
                case .deciphered: decipher
                case .digested: digest
                case .up, .twice, .down: nil
                }
            try await withThrowingTaskGroup(of: Void.self) { group in
                var freeCount = ProcessInfo.processInfo.activeProcessorCount * 2
                for try await chunk in content {
                    if let process {
                        if freeCount > 0 { freeCount -= 1 } else { try await group.next() }
                        group.addTask { process(chunk) }
                    }
                    try handle.write(contentsOf: chunk)
                }
            }
            try handle.close()
        }
    }
}

/// Takes the time of deciphering a chunk: libsodium's cipher needs the same time in both directions.
@Sendable private func decipher(_ chunk: [UInt8]) {
    let key = [UInt8](repeating: 1, count: Int(crypto_aead_xchacha20poly1305_ietf_KEYBYTES))
    let nonce = [UInt8](repeating: 2, count: Int(crypto_aead_xchacha20poly1305_ietf_NPUBBYTES))
    var output = [UInt8](repeating: 0, count: chunk.count + Int(crypto_aead_xchacha20poly1305_ietf_ABYTES))
    let count = UInt64(chunk.count)
    let status = crypto_aead_xchacha20poly1305_ietf_encrypt(&output, nil, chunk, count, nil, 0, nil, nonce, key)
    precondition(status == 0, "libsodium doesn't encipher")
}

/// Digests a chunk as the verification of an unsealed file does.
@Sendable private func digest(_ chunk: [UInt8]) {
    var digest = [UInt8](repeating: 0, count: 32)
    let status = crypto_generichash(&digest, digest.count, chunk, UInt64(chunk.count), nil, 0)
    precondition(status == 0, "libsodium doesn't digest")
}
