/// A place that holds files: a folder, a server, memory.
///
/// ## What every backend must do
///
/// 1. **All or nothing.** A write, copy or move that throws has changed nothing that a reader can see, except that
///    directories made on the way may stay. Only ``RemoteError/Code/unavailable`` leaves it open whether a request was
///    carried out: its answer may have been lost.
/// 2. **Conditions are kept** as ``capabilities()`` says. Leave out a capability that you aren't sure of: without it an
///    operation takes another way or refuses, with it data may be lost.
/// 3. **Absent is an answer.** ``status(of:)``, ``list(_:)`` and ``read(_:range:)`` return `nil` for what isn't there, also
///    when a directory above it isn't there or is a file. They throw where they don't know, for instance when the place can't be
///    reached: a share that isn't mounted must never look like an empty one.
/// 4. **Nothing leaves the root.** Symbolic links are not followed.
/// 5. **Errors** are ``RemoteError`` with the codes named below; ``RemoteError/Code/notAllowed``,
///    ``RemoteError/Code/unauthorized``, ``RemoteError/Code/unavailable`` and ``RemoteError/Code/unsupported`` may come from every
///    request. What a content throws while it is written is thrown as it is.
/// 6. **Cancellation** is honoured: a request of a cancelled task throws `CancellationError` before the point where its change
///    becomes visible, and cleans up; past that point it finishes and returns normally. A removal may stop half way.
/// 7. **Requests run side by side.** No request waits for another, and none blocks a thread of the cooperative pool.
///
/// No requirement may be implemented by an `async` method that is `nonisolated`: debug builds of Swift 6.3 crash in it.
public protocol RemoteBackend: Actor {
    /// The place's stable name, without credentials, such as `file:///srv/share`.
    ///
    /// Devices remember by it what they have seen, so it is the same in every process and after every restart.
    nonisolated var identity: String { get }

    /// What this place guarantees.
    ///
    /// Cheap after the first call. A backend that has to ask the server does it at most once.
    func capabilities() async throws -> RemoteCapabilities

    /// What this place guarantees, as far as that is known without writing to it.
    ///
    /// - Returns: The same as ``capabilities()``; `nil` where that would have to try something out first.
    func knownCapabilities() async throws -> RemoteCapabilities?

    /// What is at `path`.
    ///
    /// - Parameter path: A file, a directory or the root, which always exists.
    /// - Returns: The item; `nil` if nothing is there.
    /// - Throws: What every request may throw.
    func status(of path: RemotePath) async throws -> RemoteItem?

    /// What is in a directory.
    ///
    /// Unfinished writes, of this process or of others, are not among it. The answer need not be one moment's: what is
    /// written or removed meanwhile may be missing or present.
    ///
    /// - Parameter directory: A directory or the root.
    /// - Returns: The items by name; `nil` if the directory isn't there, which is not the same as an empty one.
    /// - Throws: ``RemoteError/Code/wrongKind`` for a file.
    func list(_ directory: RemotePath) async throws -> [RemoteItem]?

    /// Makes sure that a directory exists, with all directories above it.
    ///
    /// Directories exist even when they are empty. The root is never created.
    ///
    /// - Parameter path: The directory; that it is there already is fine.
    /// - Throws: ``RemoteError/Code/wrongKind`` if a file is in the way.
    func createDirectory(at path: RemotePath) async throws

    /// Opens a file to be read.
    ///
    /// - Parameters:
    ///   - path: The file.
    ///   - range: Which bytes; what lies beyond the end isn't given. `nil` for all.
    /// - Returns: The bytes of one version of the file, even if it is replaced meanwhile; `nil` if it isn't there. Without
    ///   ``RemoteCapabilities/consistentRead``, it mustn't be replaced while this method runs.
    /// - Throws: ``RemoteError/Code/wrongKind`` for a directory. The content throws ``RemoteError/Code/unavailable`` rather than end early.
    func read(_ path: RemotePath, range: Range<Int64>?) async throws -> RemoteContent?

    /// Writes a file, and makes the directories above it.
    ///
    /// When it returns, the file survives a crash of the place as well as the place can promise. Where the condition
    /// can be seen to fail beforehand, the content isn't read.
    ///
    /// - Parameters:
    ///   - content: The bytes. May be iterated several times, from the beginning.
    ///   - path: The file.
    ///   - condition: What must be so; compared and written in one step as ``capabilities()`` says.
    /// - Returns: The file that was written.
    /// - Throws: ``RemoteError/Code/alreadyExists`` or ``RemoteError/Code/preconditionFailed`` if the condition doesn't hold;
    ///   ``RemoteError/Code/wrongLength`` if the content isn't as long as it announces; ``RemoteError/Code/wrongKind`` if a
    ///   directory is at `path` or a file above it; ``RemoteError/Code/noSpace``.
    @discardableResult
    func write(_ content: RemoteContent, to path: RemotePath, when condition: WriteCondition) async throws -> RemoteItem

    /// Writes a file as ``write(_:to:when:)`` does, but goes on where the last write of this kind to `path` was cut off.
    ///
    /// Where ``RemoteCapabilities/resumableWrite`` holds, what such a write has transferred is kept, unseen, when it fails or
    /// its process dies; not when it's cancelled. Every backend has this: without that capability nothing is kept. Only one
    /// may write to `path` this way at a time.
    ///
    /// Bytes count as kept if they are those that the last write sent, in the order in which it sent them. A place that
    /// can't tell them from those of an earlier attempt notes in `receipts` what it acknowledged. The order of the steps is:
    /// the receipts are read, `rest` is asked, the receipts are replaced by those of the bytes that it follows on, and only
    /// then is the content read.
    ///
    /// - Parameters:
    ///   - path: The file.
    ///   - condition: What must be so when the file is whole.
    ///   - receipts: Where the backend notes, on this device, what it has to know to resume the write.
    ///   - rest: Is told how many bytes are kept, and says what follows on all or some of them. May be asked again, with fewer,
    ///     where a part of them can't be kept without the rest; the last answer counts.
    /// - Returns: The file that was written.
    /// - Throws: What `rest` and ``write(_:to:when:)`` throw.
    @discardableResult
    func resumeWrite(
        to path: RemotePath,
        when condition: WriteCondition,
        receipts: any WriteReceipts,
        _ rest: @Sendable (_ keptBytes: Int64) async throws -> RemoteContentRest
    ) async throws -> RemoteItem

    /// Copies a file, and makes the directories above the destination.
    ///
    /// Source and destination may share their storage afterwards (a hard link): files are replaced, never changed.
    ///
    /// - Parameters:
    ///   - source: The file to copy.
    ///   - destination: Where to.
    ///   - condition: What must be so at the destination.
    /// - Throws: ``RemoteError/Code/notFound`` if the source isn't there, ``RemoteError/Code/wrongKind`` if it is a directory,
    ///   and what ``write(_:to:when:)`` throws.
    func copy(_ source: RemotePath, to destination: RemotePath, when condition: WriteCondition) async throws

    /// Gives a file, or a directory with all that is in it, another name, and makes the directories above the destination.
    ///
    /// - Parameters:
    ///   - source: What to move.
    ///   - destination: Its new name, at which nothing is, not even an empty directory.
    /// - Throws: ``RemoteError/Code/notFound`` if the source isn't there, ``RemoteError/Code/alreadyExists`` if something is at the
    ///   destination, ``RemoteError/Code/invalidPath`` if the destination is inside the source.
    func move(_ source: RemotePath, to destination: RemotePath) async throws

    /// Removes a file, or a directory with all that is in it.
    ///
    /// Of a directory, all or a part may be gone when it throws.
    ///
    /// - Parameter path: What to remove; that it isn't there is fine. Not the root.
    /// - Throws: ``RemoteError/Code/invalidPath`` for the root.
    func remove(_ path: RemotePath) async throws
}

extension RemoteBackend {
    /// Writes from the beginning.
    @discardableResult
    public func resumeWrite(
        to path: RemotePath,
        when condition: WriteCondition,
        receipts: any WriteReceipts,
        _ rest: @Sendable (_ keptBytes: Int64) async throws -> RemoteContentRest
    ) async throws -> RemoteItem {
        try await write(rest(0).content, to: path, when: condition)
    }
}
