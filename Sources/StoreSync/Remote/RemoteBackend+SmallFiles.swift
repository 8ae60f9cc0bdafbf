import RemoteStorage

/// Small files and listings, as default hooks read and write them.
extension RemoteBackend {
    /// The paths of the items in a directory; `nil` if it doesn't exist.
    func paths(in directory: RemotePath) async throws -> [RemotePath]? {
        try await list(directory)?.compactMap { try? directory.appending($0.name) }
    }

    /// Writes a file unless it exists.
    ///
    /// Returns whether it was written.
    func writeIfAbsent(_ bytes: [UInt8], to path: RemotePath) async throws -> Bool {
        do {
            // No other client writes to a staging directory, so the check isn't needed there.
            try await write(bytes, to: path, when: ApplicationHierarchy.isStaged(path) ? .always : .ifAbsent)
            return true
        } catch let error as RemoteError where error.code == .alreadyExists {
            return false
        }
    }

    /// Reads a small file, and refuses a file of more than `limit` bytes, which this package never writes here, before it fills
    /// the memory.
    ///
    /// `isReplaced` says that a file of another length may replace this one meanwhile: a server might then return a mix
    /// of both. The length of key files never changes. Registrations are replaced only where directories can't be
    /// moved, and there the backends of this package read consistently.
    func smallFile(
        at path: RemotePath,
        isReplaced: Bool = false,
        upTo limit: Int = 4 << 20
    ) async throws -> [UInt8]? {
        do {
            return isReplaced ? try await bytes(at: path, upTo: limit) : try await read(path)?.bytes(upTo: limit)
        } catch let error as RemoteError where error.code == .wrongLength {
            throw StoreSyncError.corrupt(path, "it is far too large")
        }
    }

    /// Reads a note on something that was removed.
    ///
    /// A directory, or a file that is far too large, reads as an empty note: no seal opens an empty note, so it isn't
    /// authentic.
    func note(at path: RemotePath) async throws -> [UInt8]? {
        do {
            return try await smallFile(at: path)
        } catch let error as StoreSyncError where error.code == .corrupt {
            return []
        } catch let error as RemoteError where error.code == .wrongKind {
            return []
        }
    }
}

extension [RemotePath] {
    /// The paths that contain none of the others: creating them creates all.
    var innermost: [RemotePath] {
        filter { path in !contains { $0 != path && $0.isEqualToOrInside(path) } }
    }
}

extension [RemoteItem]? {
    /// The identifiers among the names of directories.
    ///
    /// Files that synced folders leave there are ignored.
    var directoryIdentifiers: [RemoteIdentifier] {
        (self ?? []).filter { $0.kind == .directory }.compactMap { try? RemoteIdentifier($0.name) }
    }

    /// The names of notes.
    var noteNames: [String] {
        (self ?? []).filter { $0.kind == .file && $0.name.hasSuffix(".plist") }.map(\.name)
    }

    /// The identifiers in the names of notes on documents.
    var noteIdentifiers: [RemoteIdentifier] {
        noteNames.compactMap { RemoteIdentifier(ofFileNamed: $0, extension: "plist") }
    }
}
