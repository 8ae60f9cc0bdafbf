import ContentDigests
import DatabaseSupport
import FileSupport
import Foundation
import Operations

extension SynchronizationOperation {
    /// The content of the store that was set aside or downloaded last.
    struct KeptContent: Sendable {
        let root: ContentRoot
        /// The status of a store with this content, if every later write shows in it.
        let status: StoreStatus?
    }

    /// How often a store is copied that an app writes to meanwhile.
    private static let maximumCopies = 3

    /// Keeps a copy of a store that is about to be overwritten, unless it is as it was last kept or downloaded.
    ///
    /// - Returns: The digest of what is kept: if the store has another one when it's overwritten, an app has written to it.
    @discardableResult
    func setStoreAside(_ context: OperationContext) async throws -> ContentRoot {
        let time = state.now().formatted(.iso8601.dateSeparator(.omitted).timeSeparator(.omitted))
        let pages = document.application.seal.pageHash
        let tooBusy = storeInUse
        let (content, aside) = try await context.blocking { [request, kept] () -> (KeptContent, String?) in
            let store = try LocalStore(request.url, pages: pages)
            if let kept, let status = kept.status, store.isUnchanged(since: status) { return (kept, nil) }
            // What has the final name is complete, and on the disk before the store is replaced.
            let copy = StoreReplacement.temporaryURL(for: store)
            defer { try? FileManager.default.removeItem(at: copy) }
            for _ in 0..<Self.maximumCopies {
                let former = StoreStatus(ofStoreAt: store.url.path)
                let status = store.trustedStatus()
                let root = try StoreSnapshot.take(of: store, at: copy).contentRoot
                let isSteady = store.isUnchanged(since: former)
                let content = KeptContent(root: root, status: status)
                if isSteady, root != kept?.root { return (content, try Self.keep(copy, of: request.url, at: time)) }
                try FileManager.default.removeItem(at: copy)
                if isSteady { return (content, nil) }
            }
            throw tooBusy
        }
        kept = content
        if let aside { asideWarnings.append("What \(request.url.lastPathComponent) held is kept in \(aside).") }
        try state.steps.reached("store set aside")
        return content.root
    }

    /// Gives a copy of a store its final name, which survives a power failure.
    ///
    /// - Returns: The copy's path.
    private static func keep(_ copy: URL, of store: URL, at time: String) throws -> String {
        try LocalFile.synchronize(copy.path)
        var (url, number) = (LocalStore.url(besides: store, ".aside-\(time)"), 1)
        // Two may be set aside in one second.
        while try !LocalFile.renameExclusively(copy, to: url) {
            number += 1
            url = LocalStore.url(besides: store, ".aside-\(time)-\(number)")
        }
        try LocalFile.synchronize(url.deletingLastPathComponent().path)
        return url.path
    }

    /// The error of a store that an app writes to whenever it's about to be overwritten.
    var storeInUse: StoreSyncError {
        StoreSyncError(
            .busy,
            """
            An app writes to \(request.url.lastPathComponent) all the time, and what it writes now would be lost. Close \
            the app, then synchronize again.
            """
        )
    }
}
