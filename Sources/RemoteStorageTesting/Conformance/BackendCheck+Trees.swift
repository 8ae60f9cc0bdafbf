import RemoteStorage
import ThreadSupport

// Checks of lists, copies, moves and removals.
extension BackendCheck {
    /// Checks the items of a list.
    public static let listing = BackendCheck(
        "A list has each item once, by name, with its kind and size"
    ) { trial in
        let backend = trial.backend
        let directory = try RemotePath("d")
        try await backend.write([1, 2], to: directory.appending("b"), when: .always)
        try await backend.write([1], to: RemotePath("d/a/x"), when: .always)
        try await backend.write([], to: directory.appending("c"), when: .always)
        try await backend.createDirectory(at: RemotePath("d/e"))
        let items = try await backend.list(directory) ?? []
        try trial.requireEqual(items.map(\.name), ["a", "b", "c", "e"], "the names in a list")
        try trial.requireEqual(items.map(\.kind), [.directory, .file, .file, .directory], "the kinds in a list")
        try trial.requireEqual(items.map(\.size), [0, 2, 0, 0], "the sizes in a list")
        for item in items {
            let status = try await backend.status(of: directory.appending(item.name))
            try trial.requireEqual(status, item, "the status of “\(item.name)” and its item in the list differ")
        }
    }

    /// Checks a list that exceeds a server's page.
    public static let longListing = BackendCheck(
        "A list of thousands of files is complete"
    ) { trial in
        let (backend, count) = (trial.backend, trial.effort.listedFiles)
        let directory = try RemotePath("many")
        let names = (0..<count).map { "file \($0)" }.sorted()
        try await names.concurrentMap(atMost: trial.effort.racers) { name in
            try await backend.write([1], to: directory.appending(name), when: .always)
        }
        let listed = try await backend.list(directory)?.map(\.name) ?? []
        let missing = Set(names).subtracting(listed)
        try trial.require(
            missing.isEmpty,
            "\(missing.count) of \(count) files aren't listed, such as “\(missing.min() ?? "")”"
        )
        try trial.require(listed == names, "\(listed.count) items are listed in another order, or twice, not \(count)")
    }

    /// Checks copies of files.
    public static let copying = BackendCheck(
        "A copy has the bytes that its source has at that moment, and obeys a write's conditions"
    ) { trial in
        let backend = trial.backend
        let (source, copy) = (try RemotePath("source"), try RemotePath("new/copy"))
        try await backend.write([1, 2, 3], to: source, when: .always)
        try await backend.copy(source, to: copy, when: .ifAbsent)
        try await trial.requireBytes([1, 2, 3], at: copy, "copied")
        try await trial.requireError(.alreadyExists, of: "copying to an existing name, if absent") {
            try await backend.copy(source, to: copy, when: .ifAbsent)
        }
        try await backend.copy(source, to: copy, when: .always)
        try await backend.copy(copy, to: copy, when: .always)
        try await trial.requireBytes([1, 2, 3], at: copy, "copied onto itself")
        try await trial.requireNames(["copy"], in: RemotePath("new"), "after copies")
        try await backend.write([9], to: source, when: .always)
        try await trial.requireBytes([1, 2, 3], at: copy, "after its source was replaced")
        try await backend.copy(source, to: copy, when: .always)
        try await trial.requireBytes([9], at: copy, "copied onto an existing file")
        try await trial.requireBytes([9], at: source, "the source of a copy")
        try await trial.requireError(.notFound, of: "copying a missing file") {
            try await backend.copy(RemotePath("absent/x"), to: copy, when: .always)
        }
    }

    /// Checks moves of files and directories.
    public static let moving = BackendCheck(
        "A move transfers a file or a whole directory, and leaves nothing at the source"
    ) { trial in
        let backend = trial.backend
        let published = try RemotePath("published/store")
        try await backend.write([1], to: RemotePath("staging/deep/file"), when: .always)
        try await backend.createDirectory(at: RemotePath("staging/empty"))
        try await backend.move(RemotePath("staging"), to: published)
        try trial.require(
            try await backend.status(of: RemotePath("staging")) == nil,
            "a moved directory still exists at its source"
        )
        try trial.requireEqual(try await backend.status(of: published)?.name, "store", "the name of a moved directory")
        try await trial.requireNames(["deep", "empty"], in: published, "a moved directory")
        try await trial.requireBytes([1], at: RemotePath("published/store/deep/file"), "in a moved directory")
        try await backend.move(RemotePath("published/store/deep/file"), to: RemotePath("file"))
        try await trial.requireBytes([1], at: RemotePath("file"), "moved")
        try await trial.requireNames([], in: RemotePath("published/store/deep"), "the former directory of a moved file")
        try await trial.requireError(.notFound, of: "moving a missing item") {
            try await backend.move(RemotePath("absent"), to: RemotePath("x"))
        }
        try await trial.requireError(.invalidPath, of: "moving a directory into itself") {
            try await backend.move(RemotePath("published"), to: RemotePath("published/x"))
        }
        try await trial.requireError(.invalidPath, of: "moving the root") {
            try await backend.move(.root, to: RemotePath("x"))
        }
        try await trial.requireNames(["file", "published"], in: .root, "after moves")
    }

    /// Checks moves onto existing items.
    public static let movingExclusively = BackendCheck(
        "A move replaces nothing, not even an empty directory"
    ) { trial in
        let backend = trial.backend
        try await backend.write([1], to: RemotePath("file"), when: .always)
        try await backend.createDirectory(at: RemotePath("empty"))
        try await backend.write([2], to: RemotePath("full/x"), when: .always)
        try await backend.write([3], to: RemotePath("directory/y"), when: .always)
        try await backend.write([4], to: RemotePath("other"), when: .always)
        for destination in ["file", "empty", "full"] {
            for source in ["directory", "other", destination] {
                try await trial.requireError(.alreadyExists, of: "moving “\(source)” onto “\(destination)”") {
                    try await backend.move(RemotePath(source), to: RemotePath(destination))
                }
            }
            let names = ["directory", "empty", "file", "full", "other"]
            try await trial.requireNames(names, in: .root, "after a refused move onto “\(destination)”")
        }
        try await trial.requireBytes([1], at: RemotePath("file"), "after refused moves")
        try await trial.requireNames([], in: RemotePath("empty"), "after refused moves")
        try await trial.requireBytes([2], at: RemotePath("full/x"), "after refused moves")
        try await trial.requireBytes([3], at: RemotePath("directory/y"), "after refused moves")
        try await trial.requireBytes([4], at: RemotePath("other"), "after refused moves")
    }

    /// Checks removals.
    public static let removing = BackendCheck(
        "A removal removes a directory with its contents and nothing else, and may be repeated"
    ) { trial in
        let backend = trial.backend
        for name in ["a", "b/c", "b/d/e", "b/d/f/g", "b/d2"] {
            try await backend.write([1], to: RemotePath("tree/\(name)"), when: .always)
        }
        try await backend.write([2], to: RemotePath("tree-not"), when: .always)
        for _ in 0..<2 {
            try await backend.remove(RemotePath("tree/b/d"))
            try await trial.requireNames(["c", "d2"], in: RemotePath("tree/b"), "next to a removed directory")
        }
        for _ in 0..<2 {
            try await backend.remove(RemotePath("tree"))
            try await trial.requireNames(["tree-not"], in: .root, "next to a removed directory")
        }
        try await backend.write([3], to: RemotePath("tree/b/d/e"), when: .ifAbsent)
        try await trial.requireNames(["d"], in: RemotePath("tree/b"), "a directory that was removed and created again")
    }
}
