public import RemoteStorage

/// The remote steps that deal with notes on removed clients, of an application or of a document.
///
/// The directory is ``ApplicationHierarchy/deletedClients`` or ``DocumentHierarchy/deletedClients``.
///
/// Its hooks throw what ``SyncHooks`` says.
public protocol ClientNoteHooks: SyncHooks {
    /// The names of the notes in a directory; empty if the directory doesn't exist.
    func listClientNotes(in directory: RemotePath) async throws -> [String]

    /// Reads a note; `nil` if it doesn't exist (any more).
    func fetchClientNote(at path: RemotePath) async throws -> [UInt8]?

    /// Saves a note, whose name only this client writes.
    func saveClientNote(_ content: [UInt8], at path: RemotePath) async throws

    /// Removes a note.
    func removeClientNote(at path: RemotePath) async throws
}

extension ClientNoteHooks {
    /// Lists the directory.
    public func listClientNotes(in directory: RemotePath) async throws -> [String] {
        try await backend.list(directory).noteNames
    }

    /// Reads the file.
    public func fetchClientNote(at path: RemotePath) async throws -> [UInt8]? {
        try await backend.note(at: path)
    }

    /// Writes the file.
    public func saveClientNote(_ content: [UInt8], at path: RemotePath) async throws {
        try await backend.write(content, to: path, when: .always)
    }

    /// Removes the file.
    public func removeClientNote(at path: RemotePath) async throws {
        try await backend.remove(path)
    }
}
