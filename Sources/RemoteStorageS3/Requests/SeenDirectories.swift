import RemoteStorage

/// What is known of directories without asking: which were seen or made, and what was in them when they were listed last.
///
/// Others may have changed that since. What was a directory is taken for one from then on; that nothing stood at a path is
/// believed for a minute, and only where it saves a look that is no more than that: the server keeps conditions itself.
struct SeenDirectories: Sendable {
    /// How long a list is believed.
    private static let patience = Duration.seconds(60)

    private struct List: Sendable {
        /// What there was, and what was put there since.
        var names: Set<String>
        /// What of it isn't known to be a directory.
        var files: Set<String>
        let age: @Sendable () -> Duration
        var isFresh: Bool { age() < SeenDirectories.patience }
    }

    private var directories: Set<RemotePath> = [.root]
    private var lists: [RemotePath: List] = [:]
    /// Counts what was changed from here: a list that was asked for before may be older than it.
    private(set) var changeCount = 0

    /// Whether a directory was seen or made here.
    func contains(_ path: RemotePath) -> Bool { directories.contains(path) }

    /// Whether no file stands there, as far as is known; what is above it is another question.
    func isNoFile(_ path: RemotePath) -> Bool {
        if contains(path) { return true }
        guard let name = path.lastComponent, let parent = path.parent else { return true }
        guard let list = lists[parent], list.isFresh else { return isAbsent(path) }
        return !list.files.contains(name)
    }

    /// Whether nothing stands there, as far as is known.
    func isAbsent(_ path: RemotePath) -> Bool {
        guard !contains(path), let name = path.lastComponent, let parent = path.parent else { return false }
        guard let list = lists[parent] else { return isAbsent(parent) }
        return list.isFresh && !list.names.contains(name)
    }

    /// Notes what is in a directory, or that it isn't there, unless something was changed since that was asked.
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

    /// Notes that these directories are there.
    mutating func insert(_ paths: [RemotePath]) { directories.formUnion(paths) }

    /// Notes that it's to be looked at again whether a file has come into this directory's place.
    mutating func doubt(_ path: RemotePath) { directories.remove(path) }

    /// Notes that something is about to be put at a path, whether or not it will arrive.
    mutating func expect(_ path: RemotePath) {
        guard let name = path.lastComponent, let parent = path.parent else { return }
        expectDirectory(parent)
        changeCount += 1
        lists[parent]?.names.insert(name)
        lists[parent]?.files.insert(name)
        lists[path] = nil
    }

    /// Notes that a directory is about to be made: if it isn't there, nothing will be in it but what is put there.
    mutating func expectDirectory(_ path: RemotePath) {
        guard let name = path.lastComponent, let parent = path.parent else { return }
        let isNew = isAbsent(path)
        expectDirectory(parent)
        changeCount += 1
        lists[parent]?.names.insert(name)
        guard isNew, lists[path] == nil, let age = lists[parent]?.age else { return }
        lists[path] = List(names: [], files: [], age: age)
    }

    /// Forgets what was seen at a path and below it.
    mutating func forget(_ path: RemotePath) {
        changeCount += 1
        directories = directories.filter { $0 == .root || !$0.isEqualToOrInside(path) }
        lists = lists.filter { !$0.key.isEqualToOrInside(path) }
    }
}

extension Clock where Duration == Swift.Duration {
    /// Tells how much time has passed since it was made.
    fileprivate func stopwatch() -> @Sendable () -> Duration {
        let start = now
        return { start.duration(to: now) }
    }
}
