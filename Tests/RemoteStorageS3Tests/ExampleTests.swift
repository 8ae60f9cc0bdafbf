import RemoteStorage
import RemoteStorageS3

// The documentation's example. It is only compiled: tests don't read credentials from this machine's environment.
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
