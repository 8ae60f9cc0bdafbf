import ByteCoding
import Crypto
package import RemoteStorage

extension TemporaryName {
    /// Returns the path of the claim on a file: the client that creates the claim may create the file.
    package static func claim(on path: RemotePath) throws -> RemotePath {
        guard let parent = path.parent, let name = path.lastComponent else { throw RemoteError.rootIsFixed() }
        // A digest, because the file's name may already have the maximum length.
        let digest = SHA256.hash(data: Array(name.utf8)).prefix(16).hexadecimal
        return try parent.appending(with("claim-\(digest)"))
    }
}

/// Runs `probe` with the path of a temporary directory, which is removed afterwards in any case.
package func withProbeDirectory<Result>(
    _ probe: (RemotePath) async throws -> Result,
    remove: (RemotePath) async -> Void
) async throws -> Result {
    let place = try RemotePath(TemporaryName.with("probe-\(UInt64.random(in: .min ... .max))"))
    return try await withCleanup {
        try await probe(place)
    } cleanUp: {
        await remove(place)
    }
}
