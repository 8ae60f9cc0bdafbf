import Foundation
import Testing

@testable import StoreSync

@Suite("A store in a directory that can't be written", .serialized, .timeLimit(.minutes(60)))
struct ReadOnlyDirectoryTests {
    private let copies: TestStore
    private let store: TestStore

    init() throws {
        (copies, store) = (try TestStore(), try TestStore())
    }

    #if os(Linux)
    /// Whether this process is root, which only a read-only mount keeps from writing; ``canForbid`` tests for mounts.
    private static let mounts = geteuid() == 0
    private static let canForbid: Bool = {
        guard mounts else { return true }
        let path = FileManager.default.temporaryDirectory.appending(path: "mount-\(UUID().uuidString)").path
        guard mkdir(path, 0o700) == 0 else { return false }
        defer { rmdir(path) }
        return mount("none", path, "tmpfs", 0, nil) == 0 && umount(path) == 0
    }()
    #else
    private static let canForbid = geteuid() != 0
    #endif

    /// Makes the folder read-only for as long as `body` runs, after `prepare` has filled it.
    private func whileReadOnly(prepare: () throws -> Void, _ body: () throws -> Void) throws {
        let path = store.folder.path
        #if os(Linux)
        if Self.mounts {
            #expect(mount("none", path, "tmpfs", 0, nil) == 0)
            defer { umount2(path, Int32(MNT_DETACH)) }
            try prepare()
            // A bind mount: the file system itself can't become read-only while a process that another test is starting
            // still has a copy of a descriptor.
            #expect(mount(path, path, nil, UInt(MS_BIND), nil) == 0)
            defer { umount2(path, Int32(MNT_DETACH)) }
            #expect(mount(nil, path, nil, UInt(MS_REMOUNT) | UInt(MS_BIND) | UInt(MS_RDONLY), nil) == 0)
            return try body()
        }
        #endif
        try prepare()
        chmod(path, 0o555)
        defer { chmod(path, 0o755) }
        try body()
    }

    @Test(
        "A store in a read-only directory is copied if SQLite can read it, or if its file is the whole store",
        .enabled(if: canForbid),
        arguments: [TestStore.State.closedInRollbackMode, .closedInWALMode, .killedInWALMode]
    )
    func copies(state: TestStore.State) throws {
        try whileReadOnly {
            try store.make("old", in: state)
        } _: {
            try StoreSnapshot.checkSource(LocalStore(store.url))
            let snapshot = try StoreSnapshot.take(of: LocalStore(store.url), at: copies.file("copy"))
            #expect(try copies.content(of: snapshot.url) == "old")
            #expect(try copies.names() == ["copy"])
        }
    }

    @Test(
        "A store in a read-only directory is refused, naming permissions, if its journal can't be recovered",
        .enabled(if: canForbid)
    )
    func refuses() throws {
        for state in [TestStore.State.killedInWALMode, .killedInTransaction] {
            try whileReadOnly {
                try store.make("old", in: state)
                unlink(store.url.path + "-shm")
            } _: {
                let error = #expect(throws: StoreSyncError.self) {
                    try StoreSnapshot.take(of: LocalStore(store.url), at: copies.file("copy"))
                }
                #expect(error?.message.contains("permissions") == true, "\(state): \(String(describing: error))")
                #expect([.storeNotFound, .cannotWrite].contains(error?.code), "\(state)")
                let names = try copies.names()
                #expect(names.isEmpty)
            }
        }
    }

    @Test(
        "A store in a read-only directory isn't replaced, and stays as it is",
        .enabled(if: canForbid),
        arguments: TestStore.State.allCases
    )
    func replacement(state: TestStore.State) throws {
        let download = store.file(".store.storesync-1")
        try whileReadOnly {
            try store.make("old", in: state)
            try FileManager.default.moveItem(at: store.download(), to: download)
        } _: {
            let before = try store.names()
            for mode in [WholeStoreDownloadRequest.Replacement.file, .transaction] {
                let error = #expect(throws: StoreSyncError.self) {
                    try StoreReplacement.replace(
                        LocalStore(store.url),
                        with: download,
                        expecting: .anything,
                        mode: mode
                    )
                }
                #expect(error?.code == .cannotWrite)
                #expect(error?.message.contains(store.folder.path) == true)
            }
            #expect(try store.names() == before)
            #expect(try store.image().content() == "old")
        }
    }
}
