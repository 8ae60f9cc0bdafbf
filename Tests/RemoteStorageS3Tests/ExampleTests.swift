import RemoteStorage
import RemoteStorageS3

// The documentation's example: only compiled, since tests don't ask this machine's environment who they are.
func documentationExample() async throws {
    // DOC: bucket
    let configuration = try S3Configuration(
        bucket: "notes",
        prefix: "ann",
        region: "eu-central-1",
        credentials: S3Environment.process.credentials()
    )
    let backend = S3Backend(configuration)
    for item in try await backend.list(.root) ?? [] { print(item.name, item.size) }
    // DOC: end
}
