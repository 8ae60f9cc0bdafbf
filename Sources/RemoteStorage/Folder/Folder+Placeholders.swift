import FileSupport

/// Files that iCloud has, and that only a placeholder stands for on this device: `.name.icloud` instead of `name`.
extension Folder {
    /// Whether iCloud synchronizes the folder.
    private var isInICloud: Bool { path.contains("/Library/Mobile Documents/") }

    /// Throws if a missing item isn't missing, but in iCloud.
    func refusePlaceholder(of name: String, in directory: Directory, at path: RemotePath) throws {
        guard isInICloud, try directory.status(".\(name).icloud") != nil else { return }
        throw RemoteError.placeholderInICloud(path)
    }

    /// Throws if one of the names in a directory is that of a placeholder.
    func refusePlaceholders(among names: [String], at path: RemotePath) throws {
        guard isInICloud, let name = names.first(where: { $0.hasPrefix(".") && $0.hasSuffix(".icloud") })
        else { return }
        throw RemoteError.placeholderInICloud(try path.appending(String(name.dropFirst().dropLast(".icloud".count))))
    }
}

extension RemoteError {
    fileprivate static func placeholderInICloud(_ path: RemotePath) -> RemoteError {
        RemoteError(
            .unavailable,
            """
            “\(path)” is in iCloud and not on this device. Choose “Keep Downloaded” for the folder in Finder or Files, wait until it's \
            complete, then try again.
            """,
            path: path
        )
    }
}
