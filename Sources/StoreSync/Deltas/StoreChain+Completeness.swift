import RemoteStorage

/// What this device knows about uploads on the remote, beyond their manifests.
struct UploadTrust: Sendable {
    /// The uploads in which a verification found a missing or damaged file.
    var damaged: Set<UploadName> = []
    /// The tags of the files that this device has sent, by upload and file name.
    var tags: [UploadName: [String: RemoteTag]] = [:]
}

extension StoreChain {
    /// Whether all files that make up the store have arrived, as far as a listing shows.
    ///
    /// - Parameters:
    ///   - lists: The items in the folder of each upload.
    ///   - trust: What this device knows about the uploads.
    /// - Returns: Whether each file has the size that its manifest names and, if this device sent it, the tag that it
    ///   was sent with.
    func isComplete(_ lists: [UploadName: [RemoteItem]], _ trust: UploadTrust = UploadTrust()) -> Bool {
        broken(lists, trust).isEmpty
    }

    /// The uploads of the chain that can't be assembled: the first with a missing or damaged file, and all that build
    /// on it.
    func broken(_ lists: [UploadName: [RemoteItem]], _ trust: UploadTrust) -> Set<UploadName> {
        let rest = manifests.drop { manifest in
            let tags = trust.tags[manifest.name] ?? [:]
            return !trust.damaged.contains(manifest.name)
                && neededFiles(of: manifest, lists).allSatisfy { file, item in
                    guard let item, item.size == file.storedSize else { return false }
                    return tags[item.name] == nil || tags[item.name] == item.tag
                }
        }
        return Set(rest.map(\.name))
    }

    /// The path of a file that is larger than its manifest says; `nil` if there is none.
    ///
    /// Such a file isn't the uploaded one: a file that is still arriving is smaller.
    func oversizedFile(_ lists: [UploadName: [RemoteItem]], in hierarchy: DocumentHierarchy) -> RemotePath? {
        for manifest in manifests {
            for (file, item) in neededFiles(of: manifest, lists) where item.map({ $0.size > file.storedSize }) == true {
                return manifest.path(of: file.file, in: hierarchy)
            }
        }
        return nil
    }

    /// The files of an upload that the head needs, with what the listing shows of them: of the uploads below the head, only
    /// the store.
    private func neededFiles(
        of manifest: StoreManifest,
        _ lists: [UploadName: [RemoteItem]]
    ) -> [(file: StoreManifest.File, item: RemoteItem?)] {
        manifest.files.filter { manifest == head || $0.file == .store }.map { file in
            let name = manifest.remoteName(of: file.file)
            return (file, lists[manifest.name]?.first { $0.name == name })
        }
    }
}
