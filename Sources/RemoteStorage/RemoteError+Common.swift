/// The errors that all backends have in common.
extension RemoteError {
    /// The error for an item at `path` that must not be replaced.
    public static func alreadyExists(_ path: RemotePath, cause: (any Error)? = nil) -> RemoteError {
        RemoteError(
            .alreadyExists,
            "“\(path)” exists already and is not replaced. Remove it first, or choose another name.",
            path: path,
            cause: cause
        )
    }

    /// The error for a missing item at `path`.
    public static func notFound(_ path: RemotePath, cause: (any Error)? = nil) -> RemoteError {
        RemoteError(
            .notFound,
            "“\(path)” doesn't exist. It was removed, or hasn't arrived yet.",
            path: path,
            cause: cause
        )
    }

    /// The error for a file at `path` that isn't the expected version.
    public static func preconditionFailed(_ path: RemotePath) -> RemoteError {
        RemoteError(
            .preconditionFailed,
            "Another client has changed “\(path)” in the meantime. Read it again, then write.",
            path: path
        )
    }

    /// The error for an item at `path` that isn't a file.
    public static func notAFile(_ path: RemotePath, cause: (any Error)? = nil) -> RemoteError {
        RemoteError(
            .wrongKind,
            "“\(path)” is a directory where a file is needed. Move it out of the way.",
            path: path,
            cause: cause
        )
    }

    /// The error for an item at `path`, or at one of its parents, that isn't a directory.
    public static func notADirectory(_ path: RemotePath, cause: (any Error)? = nil) -> RemoteError {
        RemoteError(
            .wrongKind,
            "“\(path)”, or a directory above it, is a file where a directory is needed. Move it out of the way.",
            path: path,
            cause: cause
        )
    }

    /// The error for an item at `path`, or at one of its parents, that is neither a file nor a directory.
    public static func specialFile(_ path: RemotePath, cause: (any Error)? = nil) -> RemoteError {
        RemoteError(
            .notAllowed,
            """
            “\(path)”, or a directory above it, is a symbolic link or another special file. Links aren't followed, \
            because they may lead out of this storage: put the file or directory itself there.
            """,
            path: path,
            cause: cause
        )
    }

    /// The error for a request that would write, replace, move or remove the root.
    public static func rootIsFixed() -> RemoteError {
        RemoteError(.invalidPath, "The root itself can't be changed. Name an item inside it.", path: .root)
    }

    /// The error for a request that would move a directory into itself.
    public static func moveIntoItself(_ source: RemotePath, to destination: RemotePath) -> RemoteError {
        RemoteError(
            .invalidPath,
            "“\(source)” can't be moved to “\(destination)”, which is inside it. Choose a destination outside.",
            path: source
        )
    }

    /// The error for a content for `path` that doesn't have as many bytes as it announced.
    public static func wrongLength(_ path: RemotePath, announced: Int64, actual: Int64) -> RemoteError {
        RemoteError(
            .wrongLength,
            """
            The content for “\(path)” announced \(announced) bytes and has \(actual) or more. \
            It changed while it was read. Try again.
            """,
            path: path
        )
    }

    /// The error for a request on `path` that needs a capability which the storage lacks.
    public static func lacks(_ capability: RemoteCapabilities, at path: RemotePath) -> RemoteError {
        RemoteError(
            .unsupported,
            "“\(path)” can't be written safely: this storage has no \(capability). Use a storage that has it.",
            path: path
        )
    }
}
