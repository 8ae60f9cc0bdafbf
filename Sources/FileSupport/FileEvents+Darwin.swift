#if canImport(Darwin)
import Darwin
import Dispatch
import SystemPackage
import ThreadSupport

/// Reports what changes in a watched scene, by the kernel's events of files and directories.
final class FileEvents: Sendable {
    private let scene: WatchedScene
    /// On which events are handled, and the watches are changed.
    let queue = DispatchQueue(label: "swift-store-sync.watch")
    private let report: @Sendable (FileEvents, FileChanges) -> Void
    private let sources = Locked<[Source]>([])

    /// An open file or directory, closed with its last reference.
    private final class Source: @unchecked Sendable {
        // Sendable: created in `init` and never changed; dispatch sources are thread-safe.
        private let source: any DispatchSourceFileSystemObject

        init(_ source: any DispatchSourceFileSystemObject) { self.source = source }

        deinit { source.cancel() }
    }

    /// Starts to watch.
    ///
    /// - Parameters:
    ///   - scene: What is watched.
    ///   - report: Called on one thread at a time.
    /// - Throws: Nothing: what can't be opened is watched by the name in its directory.
    init(
        _ scene: WatchedScene,
        _ report: @escaping @Sendable (FileEvents, FileChanges) -> Void
    ) throws(Errno) {
        (self.scene, self.report) = (scene, report)
        watch()
    }

    /// Watches what the paths stand for by now.
    func watch() {
        let last = scene.directories.count - 1
        let directories = scene.directories.enumerated().compactMap { index, path in
            // An event of a directory has no name. So only what the paths stand for counts, and files may be new.
            source(path, [.write, .delete, .rename, .revoke]) { events in
                if index == last { events.watch() }
                events.report(events, index == last && events.scene.database == nil ? .content : .names)
            }
        }
        // Never the database itself: closing it would release the locks that this process has on it. Its logs have none.
        let logs = scene.database.map { [$0 + "-wal", $0 + "-journal"] } ?? []
        let files = logs.compactMap { source(scene.path($0), [.write, .extend]) { $0.report($0, .content) } }
        sources.withLock { $0 = directories + files }
    }

    private func source(
        _ path: String,
        _ mask: DispatchSource.FileSystemEvent,
        _ body: @escaping @Sendable (FileEvents) -> Void
    ) -> Source? {
        let descriptor = open(path, O_EVTONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        let source = DispatchSource.makeFileSystemObjectSource(
            fileDescriptor: descriptor,
            eventMask: mask,
            queue: queue
        )
        source.setCancelHandler { close(descriptor) }
        source.setEventHandler { [weak self] in
            guard let self else { return }
            body(self)
        }
        source.activate()
        return Source(source)
    }
}
#endif
