import RemoteStorage

/// Compares the files that arrived with what was sent.
extension WholeStoreUploadOperation {
    /// Checks that the upload's files have arrived, each with the length that was sent.
    ///
    /// Uploads of small files aren't checked: each file is one request, and the check would cost another round trip.
    ///
    /// - Parameter manifest: The manifest to be published.
    /// - Throws: ``StoreSyncError/Code/corrupt`` if a file is missing or has another length.
    func checkArrival(of manifest: StoreManifest) async throws {
        guard manifest.files.contains(where: { $0.storedSize > RemoteContent.chunkSize }) else { return }
        let listed = try await hooks.listFiles(in: hierarchy.upload(manifest.name)) ?? []
        let sizes = Dictionary(listed.map { ($0.name, $0.size) }) { $1 }
        for file in manifest.files {
            let path = manifest.path(of: file.file, in: hierarchy)
            let size = path.lastComponent.flatMap { sizes[$0] }
            guard size != file.storedSize else { continue }
            throw StoreSyncError(
                .corrupt,
                """
                \(path) on the remote has \(size.map { "\($0)" } ?? "no") bytes, and \(file.storedSize) were sent. \
                Nothing was published. Push again.
                """
            )
        }
    }
}
