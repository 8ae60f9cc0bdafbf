import ContentDigests
import DatabaseSupport
import FileSupport
import Foundation
import GRDB
import Operations

/// Keeps copies of a store that is about to be overwritten.
struct AsideStore: Sendable {
    /// What a store held that was set aside or downloaded.
    struct Content: Sendable {
        let root: ContentRoot
        /// The status of a store with this content, if every later write shows in it.
        let status: StoreStatus?
    }

    /// A copy, or that none was needed.
    struct Copy: Sendable {
        let content: Content
        /// The copy's path; `nil` if the store is as it was last set aside or downloaded.
        let path: String?
    }

    /// How often a store is copied that an app writes to meanwhile.
    private static let maximumCopies = 3

    let url: URL
    let pages: PageHash
    let time: Date
    /// The content that was set aside or downloaded last: it isn't set aside again.
    let kept: Content?
    let steps: StepObserver

    /// Keeps a copy of the store that a connection in a transaction reads.
    func keep(_ db: Database) throws -> Copy {
        let store = try LocalStore(url, pages: pages)
        let copy = StoreReplacement.temporaryURL(for: store)
        defer { try? FileManager.default.removeItem(at: copy) }
        let root = try StoreSnapshot.copy(db, of: store, to: copy).contentRoot
        return try keep(copy, of: Content(root: root, status: nil))
    }

    /// Keeps a copy of the store as it is when no app writes to it.
    func keep() throws -> Copy {
        let store = try LocalStore(url, pages: pages)
        if let kept, let status = kept.status, store.isUnchanged(since: status) {
            return Copy(content: kept, path: nil)
        }
        let copy = StoreReplacement.temporaryURL(for: store)
        defer { try? FileManager.default.removeItem(at: copy) }
        for _ in 0..<Self.maximumCopies {
            let former = StoreStatus(ofStoreAt: store.url.path)
            let status = store.trustedStatus()
            let root = try StoreSnapshot.take(of: store, at: copy).contentRoot
            if store.isUnchanged(since: former) { return try keep(copy, of: Content(root: root, status: status)) }
            try FileManager.default.removeItem(at: copy)
        }
        throw StoreSyncError.storeInUse(url)
    }

    private func keep(_ copy: URL, of content: Content) throws -> Copy {
        let path = content.root == kept?.root ? nil : try finish(copy)
        try steps.reached("store set aside")
        return Copy(content: content, path: path)
    }

    /// Gives a copy its final name: what has it is complete, and on the disk before the store is overwritten.
    ///
    /// - Returns: The copy's path.
    private func finish(_ copy: URL) throws -> String {
        try LocalFile.synchronize(copy.path)
        let time = time.formatted(.iso8601.dateSeparator(.omitted).timeSeparator(.omitted))
        var (aside, number) = (LocalStore.url(besides: url, ".aside-\(time)"), 1)
        // Two may be set aside in one second.
        while try !LocalFile.renameExclusively(copy, to: aside) {
            number += 1
            aside = LocalStore.url(besides: url, ".aside-\(time)-\(number)")
        }
        try LocalFile.synchronize(aside.deletingLastPathComponent().path)
        return aside.path
    }
}

extension SynchronizationOperation {
    /// The store, which is about to be overwritten.
    var asideStore: AsideStore {
        let pages = document.application.seal.pageHash
        return AsideStore(url: request.url, pages: pages, time: state.now(), kept: kept, steps: state.steps)
    }

    /// Keeps a copy of a store that is about to be overwritten, unless it is as it was last kept or downloaded.
    ///
    /// - Returns: The digest of what is kept: if the store has another one when it's overwritten, an app has written to it.
    func setStoreAside(_ context: OperationContext) async throws -> ContentRoot {
        let copy = try await context.blocking { [asideStore] in try asideStore.keep() }
        note(copy)
        return copy.content.root
    }

    /// Notes what is kept, and warns of a new copy.
    func note(_ copy: AsideStore.Copy) {
        kept = copy.content
        if let path = copy.path {
            asideWarnings.append("What \(request.url.lastPathComponent) held is kept in \(path).")
        }
    }
}

extension StoreSyncError {
    /// The error of a store that an app writes to whenever it's about to be overwritten.
    static func storeInUse(_ url: URL) -> StoreSyncError {
        StoreSyncError(
            .busy,
            """
            An app writes to \(url.lastPathComponent) all the time, and what it writes now would be lost. Close the app, then \
            synchronize again.
            """
        )
    }
}
