#if !canImport(Darwin)
import Dispatch
import Glibc
import SystemPackage
import ThreadSupport

/// Reports what changes in a watched scene, by inotify.
final class FileEvents: @unchecked Sendable {
    private let scene: WatchedScene
    /// On which events are read, and the watches are changed.
    let queue = DispatchQueue(label: "swift-store-sync.watch")
    private let descriptor: Int32
    // Sendable: created in `init` and never changed; dispatch sources are thread-safe.
    private let source: any DispatchSourceRead
    /// The indices of the directories, by their watches: several paths may lead to one directory.
    private let indices = Locked<[Int32: Set<Int>]>([:])

    /// Starts to watch.
    ///
    /// - Parameters:
    ///   - scene: What is watched.
    ///   - report: Called on one thread at a time.
    /// - Throws: The error of inotify.
    init(
        _ scene: WatchedScene,
        _ report: @escaping @Sendable (FileEvents, FileChanges) -> Void
    ) throws(Errno) {
        let descriptor = try retrying { inotify_init1(Int32(IN_CLOEXEC) | Int32(IN_NONBLOCK)) }
        (self.scene, self.descriptor) = (scene, descriptor)
        source = DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: queue)
        source.setCancelHandler { close(descriptor) }
        source.setEventHandler { [weak self] in
            guard let self else { return }
            let changes = changes()
            // In the directories above, other programs may be busy.
            if !changes.isEmpty { report(self, changes) }
        }
        let error = watch()
        // Events are read once the watches are known.
        source.activate()
        if let error { throw error }
    }

    deinit { source.cancel() }

    /// Watches what the paths stand for by now.
    ///
    /// - Returns: The error if the system's limit of watches is reached; `nil` if nothing is missing.
    @discardableResult
    func watch() -> Errno? {
        var isLimitReached = false
        var added: [Int32: Set<Int>] = [:]
        for (index, path) in scene.directories.enumerated() {
            let isLast = index == scene.directories.count - 1
            // A directory that can't be watched is watched by the name in its parent.
            let mask = Self.names | UInt32(IN_ONLYDIR) | (isLast ? content : 0)
            let watch = inotify_add_watch(descriptor, path, mask)
            if watch >= 0 { added[watch, default: []].insert(index) } else if errno == ENOSPC { isLimitReached = true }
        }
        let former = indices.withLock { indices in
            defer { indices = added }
            return indices
        }
        for watch in former.keys where added[watch] == nil { inotify_rm_watch(descriptor, watch) }
        return isLimitReached ? .noSpace : nil
    }

    private static let names = UInt32(IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO)
    /// SQLite keeps its files open, and a file that another program adds counts when it is complete.
    private var content: UInt32 { scene.database == nil ? UInt32(IN_CLOSE_WRITE) : UInt32(IN_MODIFY) }

    /// Reads all events that wait.
    private func changes() -> FileChanges {
        var changes: FileChanges = []
        var buffer = [UInt8](repeating: 0, count: 1 << 14)
        while true {
            let count = read(descriptor, &buffer, buffer.count)
            guard count > 0 else { return changes }
            buffer[..<count].withUnsafeBytes { bytes in
                var rest = bytes[...]
                while rest.count >= Self.headerBytes {
                    let event = UnsafeRawBufferPointer(rebasing: rest).loadUnaligned(as: inotify_event.self)
                    let name = rest.dropFirst(Self.headerBytes).prefix(Int(event.len)).prefix { $0 != 0 }
                    changes.formUnion(change(event, String(decoding: name, as: UTF8.self)))
                    rest = rest.dropFirst(Self.headerBytes + Int(event.len))
                }
            }
        }
    }

    private static let headerBytes = MemoryLayout<inotify_event>.size

    private func change(_ event: inotify_event, _ name: String) -> FileChanges {
        // Events were lost.
        guard event.mask & UInt32(IN_Q_OVERFLOW) == 0 else { return [.content, .path] }
        let indices = indices.withLock { $0[event.wd] ?? [] }
        // The kernel has ended a watch: its directory was removed, or the file system was unmounted.
        guard event.mask & UInt32(IN_IGNORED) == 0 else { return indices.isEmpty ? [] : .path }
        var changes: FileChanges = []
        for index in indices {
            if index < scene.directories.count - 1 {
                if event.mask & Self.names != 0, scene.names[index] == name { changes.insert(.path) }
            } else if scene.database != nil {
                let isWrite = event.mask & UInt32(IN_MODIFY) != 0
                if scene.files.contains(name) { changes.insert(isWrite ? .content : .names) }
            } else if !name.isEmpty, !name.hasPrefix(".") {
                changes.insert(.content)
            }
        }
        return changes
    }
}
#endif
