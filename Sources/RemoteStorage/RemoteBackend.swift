/// A storage that holds files: a folder, a server, memory.
///
/// ## What every backend must do
///
/// 1. **All or nothing.** A write, copy or move that throws has changed nothing that a reader can see, except that
///    directories created on the way may stay. Only ``RemoteError/Code/unavailable`` leaves it open whether a request was
///    carried out: its answer may have been lost.
/// 2. **Conditions are kept** as ``capabilities()`` states. Leave out a capability that you aren't sure of: without it an
///    operation takes another way or refuses, with it data may be lost.
/// 3. **Absent is an answer.** ``status(of:)``, ``list(_:)`` and ``read(_:range:)`` return `nil` for an item that doesn't exist, also
///    when a directory above it is missing or is a file. They throw if they can't know, for instance when the storage can't be
///    reached: a share that isn't mounted must never look like an empty one.
/// 4. **No request leaves the root.** Symbolic links are not followed.
/// 5. **Errors** are ``RemoteError`` with the codes named below. Every request may throw ``RemoteError/Code/notAllowed``,
///    ``RemoteError/Code/unauthorized``, ``RemoteError/Code/unavailable`` and ``RemoteError/Code/unsupported``. An error that a content
///    throws while it is written is rethrown unchanged.
/// 6. **Cancellation** is honoured: a request of a cancelled task throws `CancellationError` before the point where its change
///    becomes visible, and cleans up. Past that point it finishes and returns normally. A removal may stop half way.
/// 7. **Requests run concurrently.** No request waits for another, and none blocks a thread of the cooperative pool.
///
/// No requirement may be implemented by an `async` method that is `nonisolated`: debug builds of Swift 6.3 crash in it.
public protocol RemoteBackend: Actor {
    /// The storage's stable name, without credentials, such as `file:///srv/share`.
    ///
    /// Devices store what they have seen under this name, so it is the same in every process and after every restart.
    nonisolated var identity: String { get }

    /// Returns what this storage guarantees.
    ///
    /// Cheap after the first call. A backend that has to ask the server does so at most once.
    ///
    /// - Throws: What every request may throw.
    func capabilities() async throws -> RemoteCapabilities

    /// Returns what this storage guarantees, as far as that is known without writing to it.
    ///
    /// By default, what ``capabilities()`` returns: implement it if that writes to the storage.
    ///
    /// - Returns: The same as ``capabilities()``; `nil` if the backend would have to test the storage first.
    /// - Throws: What every request may throw.
    func knownCapabilities() async throws -> RemoteCapabilities?

    /// Returns the item at `path`.
    ///
    /// - Parameter path: A file, a directory or the root, which always exists.
    /// - Returns: The item; `nil` if it doesn't exist.
    /// - Throws: What every request may throw.
    func status(of path: RemotePath) async throws -> RemoteItem?

    /// Returns the items in a directory.
    ///
    /// Each name is listed once. Unfinished writes, of this process or of others, are not listed. The list need not be a
    /// snapshot: items that are written or removed in the meantime may be missing or present.
    ///
    /// - Parameter directory: A directory or the root.
    /// - Returns: The items by name; `nil` if the directory doesn't exist, which is not the same as an empty one.
    /// - Throws: ``RemoteError/Code/wrongKind`` for a file.
    func list(_ directory: RemotePath) async throws -> [RemoteItem]?

    /// Creates a directory and its missing parents; an existing directory isn't an error.
    ///
    /// Directories exist even when they are empty. The root is never created, and not an error either.
    ///
    /// - Parameter path: The directory.
    /// - Throws: ``RemoteError/Code/wrongKind`` if a file is in the way.
    func createDirectory(at path: RemotePath) async throws

    /// Opens a file for reading.
    ///
    /// - Parameters:
    ///   - path: The file.
    ///   - range: The bytes to read, cut off at the file's beginning and end; `nil` for all.
    /// - Returns: The bytes of one version of the file, even if it is replaced meanwhile; `nil` if it doesn't exist. Without
    ///   ``RemoteCapabilities/consistentRead``, it mustn't be replaced while this method runs.
    /// - Throws: ``RemoteError/Code/wrongKind`` for a directory. The content throws ``RemoteError/Code/unavailable`` rather than end early.
    func read(_ path: RemotePath, range: Range<Int64>?) async throws -> RemoteContent?

    /// Writes a file, and creates the directories above it.
    ///
    /// When this method returns, the file survives a crash of the storage as far as the storage can promise that. If the
    /// backend knows in advance that the condition fails, it doesn't read the content.
    ///
    /// - Parameters:
    ///   - content: The bytes. May be iterated several times, from the beginning.
    ///   - path: The file.
    ///   - condition: The condition for the write; ``capabilities()`` states whether it's checked in the same step as the write.
    /// - Returns: The file that was written.
    /// - Throws: ``RemoteError/Code/alreadyExists`` or ``RemoteError/Code/preconditionFailed`` if the condition doesn't hold;
    ///   ``RemoteError/Code/wrongLength`` if the content isn't as long as it announces; ``RemoteError/Code/wrongKind`` if a
    ///   directory is at `path` or a file above it; ``RemoteError/Code/invalidPath`` for the root;
    ///   ``RemoteError/Code/noSpace``.
    @discardableResult
    func write(_ content: RemoteContent, to path: RemotePath, when condition: WriteCondition) async throws -> RemoteItem

    /// Writes a file as ``write(_:to:when:)`` does, but resumes the last interrupted write of this kind to `path`.
    ///
    /// With ``RemoteCapabilities/resumableWrite``, the storage keeps the transferred bytes hidden when such a write fails or
    /// its process dies, but not when it's cancelled. Every backend has this method: without that capability nothing is
    /// kept. Only one caller may write to `path` this way at a time.
    ///
    /// Bytes count as kept if the last write sent them, in the order in which it sent them. A backend that can't distinguish
    /// them from the bytes of an earlier attempt records in `receipts` what the storage acknowledged. The order of the steps
    /// is: the backend reads the receipts, calls `rest`, replaces the receipts by those of the bytes before the rest, and
    /// only then reads the content.
    ///
    /// - Parameters:
    ///   - path: The file.
    ///   - condition: The condition for the write, which applies when the file is complete.
    ///   - receipts: The backend's notes on this device, which it needs to resume the write.
    ///   - rest: Receives the number of kept bytes, and returns the content that follows all or some of them. The backend may
    ///     call it again with fewer bytes, if some of them can't be kept without the others; the last answer counts.
    /// - Returns: The file that was written.
    /// - Throws: What `rest` and ``write(_:to:when:)`` throw.
    @discardableResult
    func resumeWrite(
        to path: RemotePath,
        when condition: WriteCondition,
        receipts: any WriteReceipts,
        _ rest: @Sendable (_ keptBytes: Int64) async throws -> RemoteContentRest
    ) async throws -> RemoteItem

    /// Copies a file, and creates the directories above the destination.
    ///
    /// Source and destination may share their bytes afterwards (a hard link): files are replaced, never changed.
    ///
    /// - Parameters:
    ///   - source: The file to copy.
    ///   - destination: The path of the copy.
    ///   - condition: The condition for the destination.
    /// - Throws: ``RemoteError/Code/notFound`` if the source doesn't exist, ``RemoteError/Code/wrongKind`` if it is a directory,
    ///   and what ``write(_:to:when:)`` throws.
    func copy(_ source: RemotePath, to destination: RemotePath, when condition: WriteCondition) async throws

    /// Moves a file, or a directory with its contents, and creates the directories above the destination.
    ///
    /// - Parameters:
    ///   - source: The file or directory to move.
    ///   - destination: Its new path, at which not even an empty directory may exist.
    /// - Throws: ``RemoteError/Code/notFound`` if the source doesn't exist, ``RemoteError/Code/alreadyExists`` if the destination
    ///   exists, ``RemoteError/Code/wrongKind`` if a file is above it, ``RemoteError/Code/invalidPath`` if it's inside the
    ///   source.
    func move(_ source: RemotePath, to destination: RemotePath) async throws

    /// Removes a file, or a directory with its contents.
    ///
    /// If this method throws, a directory may be removed completely or in part.
    ///
    /// - Parameter path: The item to remove, not the root; a missing item isn't an error.
    /// - Throws: ``RemoteError/Code/invalidPath`` for the root.
    func remove(_ path: RemotePath) async throws

    /// Signals when something in a directory may have changed, also by this backend, if the storage tells its clients.
    ///
    /// Signals are hints: changes that follow each other quickly may give one signal, and a signal may have no reason. A client
    /// lists the directory from time to time in any case. Every backend has this method: by default there are no signals.
    ///
    /// - Parameter directory: A directory that needn't exist, and may vanish and come back.
    /// - Returns: Signals until the reader ends; `nil` if clients have to list the directory to learn of changes.
    func changes(in directory: RemotePath) async -> AsyncStream<Void>?
}

extension RemoteBackend {
    /// Returns the capabilities, which most backends know without a test.
    ///
    /// - Throws: What ``RemoteBackend/capabilities()`` throws.
    public func knownCapabilities() async throws -> RemoteCapabilities? { try await capabilities() }

    /// Writes from the beginning.
    ///
    /// - Throws: What `rest` and ``write(_:to:when:)`` throw.
    @discardableResult
    public func resumeWrite(
        to path: RemotePath,
        when condition: WriteCondition,
        receipts: any WriteReceipts,
        _ rest: @Sendable (_ keptBytes: Int64) async throws -> RemoteContentRest
    ) async throws -> RemoteItem {
        try await write(rest(0).content, to: path, when: condition)
    }

    /// No signals.
    public func changes(in directory: RemotePath) async -> AsyncStream<Void>? { nil }
}
