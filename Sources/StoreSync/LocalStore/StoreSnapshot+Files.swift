import ContentDigests
import FileSupport
import Foundation
import SystemPackage

extension StoreSnapshot {
    /// Throws if a file next to the store shows that the store is an unreadable database in use.
    static func refuseSideFiles(of store: LocalStore) throws {
        guard let file = store.sideFiles.first else { return }
        throw StoreSyncError(
            .unsupportedFormat,
            """
            \(file) exists, but \(store.path) isn't an SQLite database that can be read. Nothing was changed: \
            part of the store may be in that file. Close the store in the program that uses it. If that file isn't the store's, move it away.
            """
        )
    }

    /// Copies a store as a file, and throws if it was written to meanwhile.
    static func copyFile(_ store: LocalStore, to destination: URL) throws -> StoreSnapshot {
        let path = destination.path
        let isCloned = OpenFile.clone(store.url.path, creating: path)
        let target = try LocalFile.writing(path) { () throws(Errno) in isCloned ? nil : try OpenFile(creating: path) }
        do {
            let (byteCount, root) = try atRest(store) {
                guard let target else { return try digest(store, from: destination) }
                return try digest(store, from: store.url) { block in
                    try LocalFile.writing(path) { () throws(Errno) in try target.write(block) }
                }
            }
            return StoreSnapshot(url: destination, byteCount: byteCount, store.pages, knownRoot: root)
        } catch {
            try? FileManager.default.removeItem(at: destination)
            throw error
        }
    }

    /// Digests a store as a file, and throws if it was written to meanwhile.
    static func digest(_ store: LocalStore) throws -> (byteCount: Int64, root: ContentRoot) {
        try atRest(store) { try digest(store, from: store.url) }
    }

    /// Reads a store as a file, and digests it again afterwards: equal digests show that the result is what the file
    /// held in between.
    ///
    /// A file that was replaced meanwhile has another fingerprint. The times in it aren't enough: a program that maps the
    /// file into memory (LMDB, Realm) changes it while its times stay the same, on some file systems always, on others for
    /// seconds. A clone of the file is compared too: it's one moment for the file system, but the program may have been in
    /// the middle of a change.
    private static func atRest(
        _ store: LocalStore,
        _ read: () throws -> (byteCount: Int64, root: ContentRoot)
    ) throws -> (byteCount: Int64, root: ContentRoot) {
        try refuseSideFiles(of: store)
        let before = store.fingerprint
        let content = try read()
        try store.steps.reached("store read")
        guard let before, before == store.fingerprint, try digest(store, from: store.url) == content,
            before == store.fingerprint
        else {
            throw writtenWhileRead(store)
        }
        try refuseSideFiles(of: store)
        return content
    }

    static func writtenWhileRead(_ store: LocalStore) -> StoreSyncError {
        StoreSyncError(
            .storeChanged,
            "\(store.path) was written to while it was read. Close it in the program that writes to it, or try again."
        )
    }

    private static func digest(
        _ store: LocalStore,
        from url: URL,
        _ body: ([UInt8]) throws -> Void = { _ in }
    ) throws -> (byteCount: Int64, root: ContentRoot) {
        try reading(url, or: .storeNotFound) { try ContentRoot.ofFile(at: url, store.pages, body) }
    }

    /// Runs a body that reads a file, and translates the errors of the file system into one with this code.
    static func reading<Result>(_ url: URL, or code: StoreSyncError.Code, _ body: () throws -> Result) throws -> Result
    {
        do {
            return try body()
        } catch let error as StoreSyncError {
            throw error
        } catch let error as CancellationError {
            throw error
        } catch {
            throw StoreSyncError(
                code,
                "\(url.path) can't be read on this device. Check its permissions and the disk.",
                cause: error
            )
        }
    }
}
