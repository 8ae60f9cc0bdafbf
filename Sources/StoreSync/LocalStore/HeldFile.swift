import ContentDigests
import FileSupport
import Foundation
import ThreadSupport

/// A file that isn't a database, read in place.
///
/// Nothing keeps other programs from writing to it, so what was read counts only if the file, read once more, has the digest of what
/// was read: then it held that state in between. The same check protects a ``StoreSnapshot`` of a file; so reading in place
/// saves the copy, and nothing else. If the file is read several times, each reading must be digested.
final class HeldFile: HeldStore {
    private enum State {
        /// The file is read in place.
        case held
        /// Reads continue from a copy.
        case copied(StoreSnapshot)
        /// Nothing can be read any more.
        case ended(any Error)
    }

    let byteCount: Int64
    let store: LocalStore
    private let file: OpenFile
    private let destination: URL
    private let fingerprint: LocalStore.Fingerprint
    private let state = Locked(State.held)

    /// Reads a file in place; `nil` if it's a database or doesn't exist, or if files next to it are part of the store.
    ///
    /// A copy is created at `destination` if one is needed.
    init?(_ store: LocalStore, copyingTo destination: URL) {
        guard !store.isDatabase, store.sideFiles.isEmpty, let fingerprint = store.fingerprint,
            let byteCount = try? store.exists ? store.byteCount : nil,
            let file = try? OpenFile(path: store.url.path, O_RDONLY)
        else { return nil }
        (self.store, self.file, self.destination) = (store, file, destination)
        (self.fingerprint, self.byteCount) = (fingerprint, byteCount)
    }

    func read(at offset: Int64, upTo count: Int) throws -> [UInt8] {
        switch state.withLock({ $0 }) {
        case .held: return try readInPlace(at: offset, upTo: count)
        case .copied(let snapshot): return try snapshot.read(at: offset, upTo: count)
        case .ended(let error): throw error
        }
    }

    private func readInPlace(at offset: Int64, upTo count: Int) throws -> [UInt8] {
        let bytes = try StoreSnapshot.reading(store.url, or: .storeNotFound) { try file.read(at: offset, upTo: count) }
        // Not needed for what counts in the end, but it saves sending the rest of the file in vain.
        guard store.fingerprint == fingerprint else { throw StoreSnapshot.writtenWhileRead(store) }
        return bytes
    }

    func copy() throws {
        try state.withLock { state in
            guard case .held = state else { return }
            do {
                // Another state would be sent in vain.
                guard store.fingerprint == fingerprint else { throw StoreSnapshot.writtenWhileRead(store) }
                state = .copied(try StoreSnapshot.copyFile(store, to: destination))
            } catch let error as CancellationError {
                throw error
            } catch {
                state = .ended(error)
            }
        }
    }

    func check(_ root: ContentRoot, on executor: (any TaskExecutor)?) async throws {
        // It waits while the file is copied.
        let current = try await runBlocking(on: executor) { [state] in state.withLock { $0 } }
        let isUnchanged =
            switch current {
            case .held: try await isStill(root, on: executor)
            case .copied(let snapshot): snapshot.knownRoot == root
            case .ended(let error): throw error
            }
        guard isUnchanged else { throw StoreSnapshot.writtenWhileRead(store) }
    }

    /// Whether the file has a digest, and is the file that was read.
    private func isStill(_ root: ContentRoot, on executor: (any TaskExecutor)?) async throws -> Bool {
        try store.steps.reached("store read")
        guard store.fingerprint == fingerprint else { return false }
        let found = try await FileDigester(store.pages)
            .digests(ofBytes: byteCount, on: executor) { [self] in try readInPlace(at: $0, upTo: $1) }
        try StoreSnapshot.refuseSideFiles(of: store)
        return found.root == root && store.fingerprint == fingerprint
    }

    func release() {
        state.withLock { state in
            if case .copied(let snapshot) = state { try? FileManager.default.removeItem(at: snapshot.url) }
            state = .ended(StoreSnapshot.writtenWhileRead(store))
        }
    }
}
