import RemoteStorage

/// The newest uploads of a document that this device has opened or published.
///
/// They show when the storage has removed an upload: as long as the storage is honest and up to date, each of them is
/// on the remote, or an upload there includes it.
struct RollbackMemory: Hashable, Sendable, Codable {
    /// The uploads that none of the others includes.
    private(set) var newest: Set<UploadName> = []

    /// The highest generation in it; 0 if nothing was opened.
    var highestGeneration: Int { newest.map(\.generation).max() ?? 0 }

    /// The clients whose uploads are in it.
    var clients: Set<RemoteIdentifier> { Set(newest.map(\.client)) }

    /// The remembered uploads that are neither among `names` nor included by one of `manifests`.
    ///
    /// - Parameters:
    ///   - names: The uploads that count as present.
    ///   - manifests: The manifests that could be read.
    /// - Returns: What is missing, the newest first.
    func missing(from names: Set<UploadName>, _ manifests: [StoreManifest]) -> [UploadName] {
        newest.subtracting(names).filter { name in !manifests.contains { $0.includes.contains(name) } }
            .sorted(by: >)
    }

    /// Notes that an upload was opened or published.
    ///
    /// - Parameters:
    ///   - upload: The upload.
    ///   - includes: The uploads that it includes.
    ///   - isIncluded: Whether one of the remembered uploads includes it.
    mutating func open(_ upload: UploadName, includes: Set<UploadName>, isIncluded: Bool = false) {
        newest.subtract(includes)
        if !isIncluded { newest.insert(upload) }
    }

    /// Forgets what isn't in a later memory.
    ///
    /// The user has given it up meanwhile, or this device has opened an upload that includes it.
    mutating func formIntersection(_ later: RollbackMemory) { newest.formIntersection(later.newest) }

    /// Notes that the user accepts an upload although remembered uploads are missing, and forgets the missing ones.
    mutating func accept(_ upload: UploadName, givingUp missing: [UploadName]) {
        newest.subtract(missing)
        newest.insert(upload)
    }
}
