import ContentDigests
import Foundation
import RemoteStorage
import SyncCryptography

/// The manifest that publishes an upload: its files, and the other uploads that it includes.
struct StoreManifest: Hashable, Sendable {
    /// One file of the upload.
    struct File: Hashable, Sendable {
        var file: WholeStoreFile
        /// The size of the app's file, in bytes.
        var size: Int64
        /// The file's size on the remote, in bytes.
        var storedSize: Int64
        /// The digest of the app's file.
        var contentRoot: ContentRoot
        /// The seal of the file on the remote; `nil` if it isn't sealed.
        var seal: Seal?
    }

    /// What distinguishes a sealed file from every other file that was sealed for its path.
    struct Seal: Hashable, Sendable {
        /// The salt in its header, 32 bytes.
        var salt: [UInt8]
        /// The digest of the seals of its chunks, 32 bytes.
        var seals: [UInt8]
    }

    var name: UploadName
    /// When the upload was created, by the device's clock: for people, never compared.
    var created: Date
    var files: [File]
    /// The uploads of this client that the delta builds on, the whole copy first; empty for a whole copy.
    var bases: [UploadReference] = []
    /// The uploads that this one includes: its parents, and what those name.
    ///
    /// Nothing else is included.
    var includes: Set<UploadName>
    /// The other heads that the writer saw: witnesses against a storage that hides one of them.
    var otherHeads: Set<UploadName> = []
    /// What a baseline of a document contains whose devices merge records; `nil` for any other upload.
    var synchronized: SynchronizedContent?

    /// The format's version: programs that know only version 1 support only whole copies, and say that they're too old.
    private var formatVersion: Int { isDelta ? 2 : 1 }
    private static let formatVersions = 1...2
    /// The range of valid file sizes: the sum of several files doesn't overflow.
    fileprivate static let sizes = 0...(1 << 53)
    /// The maximum number of uploads of each kind that a manifest names.
    static let maximumNames = 4_096
}

extension StoreManifest {
    subscript(file: WholeStoreFile) -> File? { files.first { $0.file == file } }

    /// The store, which every manifest names that was read or is complete.
    var store: File {
        guard let store = self[.store] else { preconditionFailure("a manifest names its store") }
        return store
    }

    /// Reads a manifest.
    ///
    /// Its client, generation and upload must equal the values in its name.
    init(_ bytes: [UInt8], named name: UploadName, at path: RemotePath) throws(StoreSyncError) {
        let values = try PropertyListValue.dictionary(in: bytes, at: path)
        guard let version = values["formatVersion"]?.integer else { throw .corrupt(path, "it has no format version") }
        guard Self.formatVersions.contains(version) else { throw .newerFormat(path, version) }
        guard values["client"]?.string == name.client.rawValue, values["generation"]?.integer == name.generation,
            values["upload"]?.string == name.upload
        else { throw .corrupt(path, "it belongs to another upload") }
        let files = (values["files"]?.array ?? []).compactMap(File.init)
        guard Set(files.map(\.file)) == Set(WholeStoreFile.allCases), files.count == WholeStoreFile.allCases.count
        else {
            throw .corrupt(path, "its list of files isn't complete")
        }
        guard let includes = Self.names(values["includes"]), let otherHeads = Self.names(values["otherHeads"]),
            let created = values["created"]?.date
        else { throw .corrupt(path, "its date, or its list of the uploads that it includes, can't be read") }
        // An upload has a higher generation than every upload that it names, so no two can include each other.
        guard includes.union(otherHeads).allSatisfy({ $0.generation < name.generation }) else {
            throw .corrupt(path, "it names an upload that isn't older than itself")
        }
        self.init(name: name, created: created, files: files, includes: includes)
        self.otherHeads = otherHeads
        bases = try Self.bases(values["bases"], of: self, at: path)
        synchronized = values["synchronized"].flatMap { SynchronizedContent($0) }
        guard (synchronized == nil) == (values["synchronized"] == nil) else {
            throw .corrupt(path, "what its store contains can't be read")
        }
        guard formatVersion == version else { throw .corrupt(path, "its content doesn't match its format version") }
    }

    private static func names(_ value: PropertyListValue?) -> Set<UploadName>? {
        guard let list = value?.array, list.count <= maximumNames else { return nil }
        let names = list.compactMap { $0.string.flatMap(UploadName.init(identifier:)) }
        return names.count == list.count ? Set(names) : nil
    }

    private static func list(_ names: Set<UploadName>) -> PropertyListValue {
        .array(names.sorted(by: >).map { .string($0.identifier) })
    }

    /// The uploads that an upload builds on: older ones of the same client, each named once, up to a limit.
    private static func bases(
        _ value: PropertyListValue?,
        of manifest: StoreManifest,
        at path: RemotePath
    ) throws(StoreSyncError) -> [UploadReference] {
        guard let value else { return [] }
        let bases = (value.array ?? []).compactMap(UploadReference.init)
        let generations = bases.map(\.generation) + [manifest.name.generation]
        guard let list = value.array, bases.count == list.count, (1...DeltaPolicy.maximumDeltas).contains(bases.count),
            zip(generations, generations.dropFirst()).allSatisfy(<),
            bases.allSatisfy({ UUID(uuidString: $0.upload)?.uuidString == $0.upload })
        else { throw .corrupt(path, "the uploads that it builds on aren't a chain of older generations") }
        guard manifest.store.seal != nil else { throw .corrupt(path, "it builds on other uploads but isn't sealed") }
        return bases
    }

    var xml: [UInt8] {
        var values: [String: PropertyListValue] = [
            "formatVersion": .integer(formatVersion),
            "client": .string(name.client.rawValue),
            "generation": .integer(name.generation),
            "upload": .string(name.upload),
            "created": .date(created),
            "files": .array(files.map(\.propertyList)),
            "includes": Self.list(includes),
            "otherHeads": Self.list(otherHeads),
        ]
        if !bases.isEmpty { values["bases"] = .array(bases.map(\.propertyList)) }
        if let synchronized { values["synchronized"] = synchronized.propertyList }
        return PropertyListValue.dictionary(values).xml
    }
}

extension StoreManifest.File {
    fileprivate init?(_ value: PropertyListValue) {
        guard let values = value.dictionary, let file = values["name"]?.string.flatMap(WholeStoreFile.init),
            let size = values["size"]?.integer, let storedSize = values["storedSize"]?.integer,
            let root = values["contentRoot"]?.string.flatMap(ContentRoot.init(hex:)),
            StoreManifest.sizes.contains(size), StoreManifest.sizes.contains(storedSize)
        else { return nil }
        self.init(file: file, size: Int64(size), storedSize: Int64(storedSize), contentRoot: root)
        guard values["salt"] != nil || values["seals"] != nil else { return }
        guard let salt = Self.bytes(values["salt"]), let seals = Self.bytes(values["seals"]) else { return nil }
        seal = StoreManifest.Seal(salt: salt, seals: seals)
    }

    /// Returns a salt or a digest.
    private static func bytes(_ value: PropertyListValue?) -> [UInt8]? {
        guard case .data(let data) = value, data.count == 32 else { return nil }
        return Array(data)
    }

    fileprivate var propertyList: PropertyListValue {
        var values: [String: PropertyListValue] = [
            "name": .string(file.rawValue),
            "size": .integer(Int(size)),
            "storedSize": .integer(Int(storedSize)),
            "contentRoot": .string(contentRoot.description),
        ]
        if let seal {
            values["salt"] = .data(Data(seal.salt))
            values["seals"] = .data(Data(seal.seals))
        }
        return .dictionary(values)
    }
}

extension StoreManifest.File {
    /// Whether a pass over the whole sealed file proves that its content is the app's file.
    ///
    /// No pass over a delta does: its content isn't the app's file.
    func isProven(by pass: ContentSummary) -> Bool { seal?.seals == pass.seals && size == pass.plainBytes }
}

extension StoreManifest {
    /// Whether the manifest publishes the content that this device recorded for the upload.
    func hasContent(of upload: UploadRecord) -> Bool {
        upload.contentRoot == store.contentRoot.description
    }
}

// MARK: - Paths of its files

extension StoreManifest {
    /// Whether the store was uploaded as a delta, not as a whole copy.
    var isDelta: Bool { !bases.isEmpty }

    /// The name that a file has in the upload's folder.
    func remoteName(of file: WholeStoreFile) -> String {
        file == .store && isDelta ? DocumentHierarchy.deltaName : file.rawValue
    }

    /// The path of a file on the remote.
    func path(of file: WholeStoreFile, in hierarchy: DocumentHierarchy) -> RemotePath {
        file == .store && isDelta ? hierarchy.delta(name) : file.path(in: hierarchy.upload(name))
    }

    /// The role of a file, to which its seal is bound.
    func role(of file: WholeStoreFile, in document: DocumentIdentity) -> ApplicationSeal.Role {
        file == .store && isDelta ? .delta(name, to: bases, of: document) : .file(file, name, of: document)
    }
}

extension StoreSyncError {
    /// The error for a file of an upload that is larger than its manifest says.
    static func oversized(_ path: RemotePath) -> StoreSyncError {
        StoreSyncError(
            .tampered,
            """
            \(path) on the remote is larger than what was uploaded: it was changed, exchanged or damaged. Try again. If it stays \
            so, push the store with --whole from a device that has it, or pull another client's with --from. \
            \(ifTheDocumentSynchronizes)
            """
        )
    }

    /// The error for a file that isn't there yet.
    static func notArrived(_ path: RemotePath) -> StoreSyncError {
        StoreSyncError(.noUploadedStore, "\(path) has not arrived on the remote. Try again later.")
    }

    /// The error for a file that doesn't match its manifest.
    static func notAsUploaded(_ path: RemotePath) -> StoreSyncError {
        StoreSyncError(
            .corrupt,
            """
            \(path) on the remote isn't what was uploaded: it is still arriving, or was changed, exchanged or damaged. Try \
            again. If it stays so, push the store with --whole from a device that has it, or pull another client's with \
            --from. \(ifTheDocumentSynchronizes)
            """
        )
    }

    /// How a damaged upload is replaced if the document's devices merge records, so that none of them pushes a store.
    static let ifTheDocumentSynchronizes = """
        If the document synchronizes, run storesync verify and then storesync vacuum instead, on a device that has the \
        document. On the device that uploaded the file, this also removes it.
        """
}
