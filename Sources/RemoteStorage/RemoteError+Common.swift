/// The errors that every backend has, worded once.
extension RemoteError {
    /// Something is at `path`, and it must not be replaced.
    public static func alreadyExists(_ path: RemotePath, cause: (any Error)? = nil) -> RemoteError {
        RemoteError(
            .alreadyExists,
            "“\(path)” is there already and is not replaced. Remove it first, or take another name.",
            path: path,
            cause: cause
        )
    }

    /// Nothing is at `path`.
    public static func notFound(_ path: RemotePath, cause: (any Error)? = nil) -> RemoteError {
        RemoteError(
            .notFound,
            "“\(path)” isn't there. It was removed, or hasn't arrived yet.",
            path: path,
            cause: cause
        )
    }

    /// The file at `path` isn't the version that was expected.
    public static func preconditionFailed(_ path: RemotePath) -> RemoteError {
        RemoteError(
            .preconditionFailed,
            "“\(path)” was changed by somebody else in the meantime. Read it again, then write.",
            path: path
        )
    }

    /// What is at `path` is no file.
    public static func notAFile(_ path: RemotePath, cause: (any Error)? = nil) -> RemoteError {
        RemoteError(
            .wrongKind,
            "“\(path)” is a directory where a file is needed. Move it out of the way.",
            path: path,
            cause: cause
        )
    }

    /// What is at `path`, or at one of its parents, is no directory.
    public static func notADirectory(_ path: RemotePath, cause: (any Error)? = nil) -> RemoteError {
        RemoteError(
            .wrongKind,
            "“\(path)”, or a directory above it, is a file where a directory is needed. Move it out of the way.",
            path: path,
            cause: cause
        )
    }

    /// What is at `path`, or at one of its parents, is neither a file nor a directory, so it isn't followed or used.
    public static func isSpecial(_ path: RemotePath, cause: (any Error)? = nil) -> RemoteError {
        RemoteError(
            .notAllowed,
            """
            “\(path)”, or a directory above it, is a symbolic link or another special file. Such ones aren't followed, \
            because they may lead out of this place: put the file or directory itself there.
            """,
            path: path,
            cause: cause
        )
    }

    /// The request would write, replace, move or remove the root.
    public static func isRoot() -> RemoteError {
        RemoteError(.invalidPath, "The root itself stays where it is. Name something inside it.", path: .root)
    }

    /// The request would move a directory into itself.
    public static func isInsideItself(_ source: RemotePath, _ destination: RemotePath) -> RemoteError {
        RemoteError(
            .invalidPath,
            "“\(source)” can't be moved to “\(destination)”, which is inside it. Take a destination outside.",
            path: source
        )
    }

    /// The content for `path` doesn't have as many bytes as it announced.
    public static func wrongLength(_ path: RemotePath, announced: Int64, actual: Int64) -> RemoteError {
        RemoteError(
            .wrongLength,
            """
            The content for “\(path)” announced \(announced) bytes and has \(actual) or more. \
            It changed while it was read; try again.
            """,
            path: path
        )
    }

    /// The request about `path` can't be done safely, or at all, because the place lacks a capability.
    public static func lacks(_ capability: RemoteCapabilities, at path: RemotePath) -> RemoteError {
        RemoteError(
            .unsupported,
            "“\(path)” can't be written like that: this place has no \(capability). Use a place that has it.",
            path: path
        )
    }
}
