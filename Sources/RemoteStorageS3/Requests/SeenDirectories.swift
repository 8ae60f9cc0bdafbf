import RemoteStorage
import ThreadSupport

/// A cache of the directories that were seen or created, and of what their last lists contained.
///
/// Other clients may have changed them since. A known directory is assumed to remain a directory. The absence of a path is
/// trusted for a minute, and only to skip checks that aren't essential: the server enforces conditions itself.
struct SeenDirectories: Sendable {
    /// How long a list is trusted.
    private static let patience = Duration.seconds(60)

    private struct List: Sendable {
        /// The listed names, and the names written since.
        var names: Set<String>
        /// The names that aren't known to be directories.
        var files: Set<String>
        let age: @Sendable () -> Duration
        var isFresh: Bool { age() < SeenDirectories.patience }
    }

    private var directories: Set<RemotePath> = [.root]
    private var lists: [RemotePath: List] = [:]
    /// Counts this client's changes: a list that was requested before a change may not show it.
    private(set) var changeCount = 0

    /// Whether a directory was seen, or created by this client.
    func contains(_ path: RemotePath) -> Bool { directories.contains(path) }

    /// Whether the path itself is known not to be a file, whatever its parents are.
    func isNoFile(_ path: RemotePath) -> Bool {
        if contains(path) { return true }
        guard let name = path.lastComponent, let parent = path.parent else { return true }
        guard let list = lists[parent], list.isFresh else { return isAbsent(path) }
        return !list.files.contains(name)
    }

    /// Whether the path is known to be absent.
    func isAbsent(_ path: RemotePath) -> Bool {
        guard !contains(path), let name = path.lastComponent, let parent = path.parent else { return false }
        guard let list = lists[parent] else { return isAbsent(parent) }
        return list.isFresh && !list.names.contains(name)
    }

    /// Records a directory's list, or its absence, unless something was changed since the list was requested.
    mutating func note(
        _ items: some Collection<RemoteItem>,
        in directory: RemotePath,
        exists: Bool,
        since count: Int,
        on clock: any Clock<Duration>
    ) {
        guard count == changeCount else { return }
        let files = items.filter { $0.kind == .file }.map(\.name)
        lists = lists.filter { $0.value.isFresh }
        lists[directory] = List(names: Set(items.map(\.name)), files: Set(files), age: clock.stopwatch())
        guard exists else { return }
        var next: RemotePath? = directory
        while let path = next {
            directories.insert(path)
            next = path.parent
        }
    }

    /// Records that these directories exist.
    mutating func insert(_ paths: [RemotePath]) { directories.formUnion(paths) }

    /// Records that a file may have replaced this directory, so that it is checked again.
    mutating func doubt(_ path: RemotePath) { directories.remove(path) }

    /// Records that a file is about to be written to a path, whether or not the write succeeds.
    mutating func expect(_ path: RemotePath) {
        guard let name = path.lastComponent, let parent = path.parent else { return }
        expectDirectory(parent)
        changeCount += 1
        lists[parent]?.names.insert(name)
        lists[parent]?.files.insert(name)
        lists[path] = nil
    }

    /// Records that a directory is about to be created: if it is absent now, only this client's writes are in it.
    mutating func expectDirectory(_ path: RemotePath) {
        guard let name = path.lastComponent, let parent = path.parent else { return }
        let isNew = isAbsent(path)
        expectDirectory(parent)
        changeCount += 1
        lists[parent]?.names.insert(name)
        guard isNew, lists[path] == nil, let age = lists[parent]?.age else { return }
        lists[path] = List(names: [], files: [], age: age)
    }

    /// Forgets everything about a path and the paths below it.
    mutating func forget(_ path: RemotePath) {
        changeCount += 1
        directories = directories.filter { $0 == .root || !$0.isEqualToOrInside(path) }
        lists = lists.filter { !$0.key.isEqualToOrInside(path) }
    }
}
