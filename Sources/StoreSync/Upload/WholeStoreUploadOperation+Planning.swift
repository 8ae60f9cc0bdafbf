import ContentDigests
import Foundation
import Operations
import RemoteStorage
import SyncCryptography

/// Decides what a push sends: nothing, a delta, or a whole copy; and what its manifest says.
extension WholeStoreUploadOperation {
    /// Decides what to do with one state of the store.
    func decide(
        on content: UploadContent,
        to target: UploadTarget,
        _ context: OperationContext
    ) async throws -> UploadDecision {
        var content = content
        var record: StoreRecord
        (record, content.digests) = try await self.record(of: content, target, context)
        if var equal = try await equalUpload(to: record, having: content.contentRoot, target.published, context) {
            equal.blocks = content.digests?.blocks
            return .nothing(equal, record)
        }
        content.appliedSets = try await appliedSets(for: content, context)
        let delta = target.delta(to: content)
        content.delta = try await delta.mapAsync { [content] in try await $0.write(from: content, context) }
        let isResumable =
            capabilities.contains(.resumableWrite) && content.sent.byteCount > RemoteContent.chunkSize
        let interrupted = isResumable ? try await interruptedTransfer(of: content, to: target, context) : nil
        let name =
            if let interrupted {
                UploadName(client: target.client, interrupted.subject.upload)
            } else {
                try await newName(after: record, target, context)
            }
        var manifest = try await manifest(name, record, target.published, context)
        manifest.bases = content.delta?.bases ?? []
        let contained = record.contained
        record.contentRoot = content.contentRoot?.description
        record.contained = manifest.includes.union([name])
        record.base = name
        return .send(
            UploadPlan(
                content: content,
                manifest: manifest,
                contained: contained,
                record: record,
                isResumable: isResumable,
                interrupted: interrupted
            )
        )
    }

    // MARK: The store

    /// Returns this device's record of the store, and the store's digests if there is anything to compare them with.
    ///
    /// - Throws: ``StoreSyncError/Code/unrelatedStore`` if the store descends from no upload of a document that has some.
    private func record(
        of content: UploadContent,
        _ target: UploadTarget,
        _ context: OperationContext
    ) async throws -> (StoreRecord, FileDigests?) {
        let (store, published) = (content.store, target.published)
        let (records, isOther) = try await context.blocking { [state, key] in
            (try state.stores(of: key), try state.isFile(store, ofOtherDocumentThan: key))
        }
        // Another document's store that was moved to this path doesn't build on the uploads of the store that was here.
        let own = records.first { $0.path == store.path && (store.file.map($0.isStore) == true || !isOther) }
        let integrityKey = document.integrityKey
        var new = StoreRecord(path: store.path, file: store.file, document: key, integrityKey: integrityKey)
        guard own != nil || !records.isEmpty || !published.manifests.isEmpty else { return (new, nil) }
        let digests = try await content.taken.digests(withBlocks: seal.isEncrypted, on: context.blockingExecutor)
        let root = digests.root
        let settled = try await settled(own, among: records, content, root, context)
        let record = try recordOfThisDocument(settled, of: store, published)
        // Its content may be on the remote although this device doesn't remember it. A changed store that equals an upload
        // which it contains was edited back to it.
        let equal = published.manifests.filter { manifest in
            manifest.store.contentRoot == root && record?.contained.contains(manifest.name) != true
        }
        if let record, record.base != nil || published.manifests.isEmpty {
            // A baseline is made for the upload, so its content doesn't say where the store comes from.
            let isOwn = equal.isEmpty || record.contentRoot == root.description || request.baseline != nil
            if isOwn { return (record, digests) }
        }
        if let manifest = Lineage.heads(of: equal).last {
            new.contentRoot = root.description
            new.base = manifest.name
            new.contained = Lineage.contained(in: [manifest.name], published.manifests)
        } else if !published.manifests.isEmpty, !request.resolvesDivergence {
            throw unrelated(store, published)
        }
        return (new, digests)
    }

    /// Returns the record if it's of this document; `nil` if it's of a deleted document, and this client recreated it.
    ///
    /// - Throws: ``StoreSyncError/Code/documentReplaced`` if the store has to be replaced by a pull first.
    private func recordOfThisDocument(
        _ record: StoreRecord?,
        of store: LocalStore,
        _ published: PublishedStores
    ) throws -> StoreRecord? {
        guard let record, record.mustReplace || record.integrityKey != document.integrityKey else { return record }
        // A user who creates a deleted document again does so with this store, which becomes the new document's.
        let begins = document.isOwn && !record.mustReplace && record.pending == nil && published.names.isEmpty
        guard begins else { throw replaced(store, published) }
        return nil
    }

    /// Returns what this device remembers of the store, or of a store of which it's a copy, for the store as it is now.
    ///
    /// - Parameters:
    ///   - own: The record of the store, if there is one.
    ///   - records: The records of the document's stores.
    ///   - content: The store's content.
    ///   - root: The content's digest.
    ///   - context: The operation's context.
    /// - Returns: The record; `nil` if this device remembers neither.
    /// - Throws: ``StoreSyncError``.
    private func settled(
        _ own: StoreRecord?,
        among records: [StoreRecord],
        _ content: UploadContent,
        _ root: ContentRoot,
        _ context: OperationContext
    ) async throws -> StoreRecord? {
        let store = content.store
        let copied = records.first { record in
            // A copy of a store that has to be replaced is a new store.
            record.contentRoot == root.description && !record.mustReplace
                && record.integrityKey == document.integrityKey
        }
        // What this device remembers is settled by what the store is, not by a mixture of two states.
        if own?.pending != nil { try await content.taken.check(root, on: context.blockingExecutor) }
        let settled = try await context.blocking { [state] in
            try own.map { try state.settlePull(of: $0, contentRoot: root, file: store.file) }
        }
        var record = settled ?? copied?.settled(for: root.description)
        record?.path = store.path
        record?.file = store.file
        return record
    }

    private func replaced(_ store: LocalStore, _ published: PublishedStores) -> StoreSyncError {
        let remedy =
            request.baseline != nil
            ? "Synchronize again: that merges the store with what the document has."
            : published.published.isEmpty
                ? """
                No device has pushed a store since: if this one is still wanted, copy it to another place, and push or \
                synchronize the copy.
                """
                : """
                If it may hold edits that you need, copy it to another place. Then pull with --overwrite before you push or \
                synchronize.
                """
        return StoreSyncError(
            .documentReplaced,
            """
            \(document.document) was deleted and created again, or this client was removed from it, since \(store.path) \
            was last synchronized. \(remedy)
            """
        )
    }

    private func unrelated(_ store: LocalStore, _ published: PublishedStores) -> StoreSyncError {
        let heads = Lineage.heads(of: published.manifests).map { "\($0.name)" }.joined(separator: " and ")
        return StoreSyncError(
            .unrelatedStore,
            """
            \(store.path) descends from no upload of \(document.document) that this device knows. The newest is \
            \(heads). Nothing was published. Pull to another path to compare. Push with --resolves if this store is to \
            replace the stores on the remote.
            """
        )
    }

    /// Returns the upload that equals the store, if the status of a database's files shows that it's as this device recorded it.
    func equalUpload(
        byStatusOf store: LocalStore,
        _ target: UploadTarget,
        _ context: OperationContext
    ) async throws -> EqualUpload? {
        let own = try await context.blocking { [state, key] in try state.store(at: store.path, document: key) }
        guard let own, let status = own.status, own.pending == nil, !own.mustReplace,
            own.integrityKey == document.integrityKey,
            // To complete an interrupted push, the store is read.
            target.incomplete == nil || target.incomplete != own.base,
            try await context.blocking({ store.isUnchanged(since: status) })
        else { return nil }
        let root = own.contentRoot.flatMap(ContentRoot.init(hex:))
        return try await equalUpload(to: own, having: root, target.published, context)
    }

    /// Returns the upload that equals the store, if an upload on the remote holds it, so that nothing must be published.
    private func equalUpload(
        to record: StoreRecord,
        having root: ContentRoot?,
        _ published: PublishedStores,
        _ context: OperationContext
    ) async throws -> EqualUpload? {
        // A baseline says more than its store.
        guard request.baseline == nil, !request.isWhole, let base = record.base, let root,
            record.contentRoot == root.description
        else { return nil }
        let heads = Lineage.heads(of: published.manifests)
        if request.resolvesDivergence, heads.contains(where: { $0.name != base }) { return nil }
        let equal = published.manifests.filter { $0.name == base }
        for manifest in equal + heads.reversed().filter({ $0.includes.contains(base) }) {
            guard let chain = try? StoreChain(manifest, among: published.manifests) else { continue }
            let broken = try await broken(in: [chain], context)
            if broken.isEmpty { return EqualUpload(name: base, holder: manifest) }
            self.broken.formUnion(broken)
        }
        return nil
    }

    /// Returns the interrupted transfer of this content that no device has seen; `nil` if there is none to resume.
    private func interruptedTransfer(
        of content: UploadContent,
        to target: UploadTarget,
        _ context: OperationContext
    ) async throws -> TransferJournal.Contents? {
        let noted = try await context.blocking { [state, key] in state.pushJournal(of: key).read() }
        guard let noted else { return nil }
        let name = UploadName(client: target.client, noted.subject.upload)
        let (newest, memory) = try await context.blocking { [state, key, document] in
            (
                try state.uploads(for: key, .since(generation: name.generation)),
                try state.rollbackMemory(for: key, document.integrityKey).highestGeneration
            )
        }
        var expected = content.transferSubject(of: name, key, in: document, salt: noted.subject.salt)
        expected.attempt = noted.subject.attempt
        guard noted.subject == expected, noted.subject.salt.count == (seal.isEncrypted ? EpochKey.saltBytes : 0),
            !target.published.names.contains(name),
            // It must be as new as a push that begins now.
            newest.map(\.name) == [name], newest.allSatisfy({ !$0.isPublished }),
            (target.published.manifests.map(\.name.generation) + [memory]).allSatisfy({ $0 < name.generation })
        else { return nil }
        // If the store's file is complete, the interruption came later, and the file may be another device's by now.
        let files = try await hooks.listFiles(in: hierarchy.upload(name)) ?? []
        let names = [WholeStoreFile.store.rawValue, DocumentHierarchy.deltaName]
        return files.contains { names.contains($0.name) } ? nil : noted
    }

    // MARK: The manifest

    /// Returns the name of a new upload: of a higher generation than all that this device knows.
    private func newName(
        after record: StoreRecord,
        _ target: UploadTarget,
        _ context: OperationContext
    ) async throws -> UploadName {
        let remembered = try await context.blocking { [state, key, document] in
            try state.uploads(for: key, .newest).map(\.name.generation)
                + [state.rollbackMemory(for: key, document.integrityKey).highestGeneration]
        }
        // A name alone doesn't raise the generation, since an attacker may write any name into the storage.
        let known = target.published.manifests.map(\.name.generation) + record.contained.map(\.generation) + remembered
        let highest = known.max() ?? 0
        guard highest < UploadReference.generations.upperBound else {
            throw StoreSyncError(
                .corrupt,
                """
                Generation \(highest) of \(document.document) is the highest possible one, so it was forged or damaged \
                on the remote. Push the store as another document.
                """
            )
        }
        return UploadName(client: target.client, generation: highest + 1, upload: UUID().uuidString)
    }

    /// Returns the upload's manifest, without the entries of its files.
    private func manifest(
        _ name: UploadName,
        _ record: StoreRecord,
        _ published: PublishedStores,
        _ context: OperationContext
    ) async throws -> StoreManifest {
        var parents = record.contained
        parents.formUnion(try await context.blocking { [state] in try state.openUploads(of: record) })
        if request.resolvesDivergence {
            parents.formUnion(try await headsToReplace(besides: record.contained, published, context))
        }
        let contained = Lineage.contained(in: parents, published.manifests)
        let includes = Lineage.named(of: contained, onRemote: published.names)
        var manifest = StoreManifest(
            name: name,
            created: state.now(),
            files: [],
            includes: includes.subtracting([name])
        )
        let others = Lineage.heads(of: published.manifests).map(\.name).filter { !includes.contains($0) }
        manifest.otherHeads = Set(others.suffix(StoreManifest.maximumNames))
        manifest.synchronized = request.baseline?.synchronized
        guard includes.count <= StoreManifest.maximumNames else { throw tooManyUploads(includes.count) }
        return manifest
    }

    /// Returns the heads that the user, or a baseline, replaces with the store.
    ///
    /// - Parameters:
    ///   - contained: The uploads that the store contains.
    ///   - published: The uploads on the remote.
    ///   - context: The operation.
    /// - Returns: Their names.
    /// - Throws: ``StoreSyncError/Code/noUploadedStore`` if a head is incomplete: the user can't have inspected it.
    private func headsToReplace(
        besides contained: Set<UploadName>,
        _ published: PublishedStores,
        _ context: OperationContext
    ) async throws -> Set<UploadName> {
        let heads = Lineage.heads(of: published.manifests).filter { !contained.contains($0.name) }
        let names = Set(heads.map(\.name))
        // Of a document that merges records, the log says which edits a baseline contains.
        if request.isWhole || request.baseline != nil { return names }
        let incomplete = names.subtracting(try await completeUploads(among: heads, published, context).map(\.name))
        if let head = incomplete.max() {
            throw StoreSyncError(
                .noUploadedStore,
                """
                The files of \(head) haven't all arrived, so you can't have seen which edits it holds. Nothing was \
                published. Try again when they have; if they are lost, push with --resolves --whole.
                """
            )
        }
        return names
    }

    /// Returns warnings that name what the user gives up by an upload: edits that this device has never had, and uploads
    /// that the remote has lost.
    func givenUp(_ plan: UploadPlan, _ target: UploadTarget) -> [String] {
        guard request.baseline == nil else { return [] }
        let heads = Set(Lineage.heads(of: target.published.manifests).map(\.name))
        // The store contains some of them, or an earlier upload has replaced them: they are heads again if the remote has lost a
        // later upload. This device needn't have pulled its own uploads, either.
        let unseen = heads.intersection(plan.manifest.includes).subtracting(target.opened)
            .subtracting(plan.contained).filter { $0.client != target.client }
        return unseen.sorted().map {
            """
            This replaces \($0), which this device has never pulled: other devices that have it lose its edits by their \
            next pull. If you didn't mean that, pull it to another path with --from \($0.client) --generation \
            \($0.generation), and push it as another document.
            """
        }
            + target.missing.sorted().map { "\($0.atStart) is missing on the remote, and this device has given it up." }
            + undone(plan, target.published.manifests)
    }

    /// Returns a warning if the store is a former upload again: an edit may have undone others, or an old copy was put back.
    private func undone(_ plan: UploadPlan, _ manifests: [StoreManifest]) -> [String] {
        // With --resolves the user wants that.
        guard !request.resolvesDivergence else { return [] }
        let equal = manifests.filter { $0.store.contentRoot == plan.content.contentRoot }
        guard let former = Lineage.heads(of: equal).last?.name else { return [] }
        let later = manifests.filter { $0.includes.contains(former) && plan.manifest.includes.contains($0.name) }
        guard let newest = Lineage.heads(of: later).last?.name else { return [] }
        return [
            """
            The store equals \(former) again: other devices lose the later edits, as of \(newest), by their next pull. If an \
            old copy was put back by mistake, pull with --from \(newest.client) --generation \(newest.generation), and push \
            that with --resolves.
            """
        ]
    }

    private func tooManyUploads(_ count: Int) -> StoreSyncError {
        StoreSyncError(
            .cannotWrite,
            """
            \(document.document) has uploads of too many clients: a manifest names \(StoreManifest.maximumNames) uploads, \
            and this one would name \(count). Nothing was published. Remove unused clients (storesync remove client \
            ID), then push again.
            """
        )
    }
}
