import RemoteStorage
import ServerFixtures
import Testing

@testable import RemoteStorageS3

@Suite("The cache of a bucket's directories")
struct SeenDirectoriesTests {
    private let clock = SteppedClock()

    private func seen(_ lists: [String: [RemoteItem]]) throws -> SeenDirectories {
        var seen = SeenDirectories()
        for (directory, items) in lists {
            seen.note(items, in: try RemotePath(directory), exists: true, since: seen.changeCount, on: clock)
        }
        return seen
    }

    private func file(_ name: String) -> RemoteItem { RemoteItem(name: name, kind: .file, size: 1) }

    @Test("The cache of directories knows nothing about paths that weren't listed")
    func unlisted() throws {
        let seen = try seen(["a/b": []])
        #expect(try !seen.isAbsent(RemotePath("a/c")) && !seen.isNoFile(RemotePath("a/c")))
        #expect(try !seen.isAbsent(RemotePath("c")) && !seen.isNoFile(RemotePath("c/d")))
        // The parents of an existing path are directories.
        #expect(try seen.contains(RemotePath("a/b")) && seen.contains(RemotePath("a")) && seen.contains(.root))
        #expect(try !seen.isAbsent(RemotePath("a/b")) && seen.isNoFile(RemotePath("a")))
    }

    @Test("The cache of directories treats a name that a list lacks as absent, with everything below it")
    func listed() throws {
        let seen = try seen(["a": [file("f"), RemoteItem(directory: "d")]])
        #expect(try seen.isAbsent(RemotePath("a/x")) && seen.isNoFile(RemotePath("a/x")))
        #expect(try seen.isAbsent(RemotePath("a/x/y/z")) && seen.isNoFile(RemotePath("a/x/y")))
        #expect(try !seen.isAbsent(RemotePath("a/f")) && !seen.isNoFile(RemotePath("a/f")))
        #expect(try !seen.isAbsent(RemotePath("a/d")) && seen.isNoFile(RemotePath("a/d")))
        #expect(try !seen.isAbsent(RemotePath("a/d/e")) && !seen.isNoFile(RemotePath("a/d/e")))
    }

    @Test("The cache of directories trusts a list for a minute, and the existence of a directory for good")
    func age() throws {
        let seen = try seen(["a": [file("f")]])
        clock.advance(by: .seconds(59))
        #expect(try seen.isAbsent(RemotePath("a/x")))
        clock.advance(by: .seconds(1))
        #expect(
            try !seen.isAbsent(RemotePath("a/x")) && !seen.isNoFile(RemotePath("a/x"))
                && !seen.isAbsent(RemotePath("a/x/y"))
        )
        #expect(try seen.contains(RemotePath("a")))
    }

    @Test("Once a write to a path starts, the cache of directories treats its siblings as absent, and not the path")
    func expected() throws {
        var seen = try seen(["a": []])
        seen.expect(try RemotePath("a/n/s/file"))
        #expect(try !seen.isAbsent(RemotePath("a/n/s/file")) && !seen.isNoFile(RemotePath("a/n/s/file")))
        #expect(try !seen.isAbsent(RemotePath("a/n")) && !seen.isAbsent(RemotePath("a/n/s")))
        #expect(try seen.isNoFile(RemotePath("a/n")) && seen.isNoFile(RemotePath("a/n/s")))
        #expect(
            try seen.isAbsent(RemotePath("a/n/s/other")) && seen.isAbsent(RemotePath("a/n/t"))
                && seen.isAbsent(RemotePath("a/m"))
        )
        clock.advance(by: .seconds(60))
        #expect(try !seen.isAbsent(RemotePath("a/n/s/other")))
        // Nothing is known about the contents of a directory that may already exist.
        seen = try self.seen(["a": [RemoteItem(directory: "n")]])
        seen.expect(try RemotePath("a/n/file"))
        #expect(try !seen.isAbsent(RemotePath("a/n/other")))
        seen.expectDirectory(try RemotePath("a/m"))
        #expect(try seen.isAbsent(RemotePath("a/m/file")) && !seen.isAbsent(RemotePath("a/m")))
    }

    @Test("The cache of directories ignores a list that was requested before a change")
    func outdated() throws {
        var seen = SeenDirectories()
        let before = seen.changeCount
        seen.expect(try RemotePath("a/f"))
        seen.note([], in: try RemotePath("a"), exists: true, since: before, on: clock)
        #expect(try !seen.isAbsent(RemotePath("a/f")) && !seen.isAbsent(RemotePath("a/g")))
        seen.note([file("f")], in: try RemotePath("a"), exists: true, since: seen.changeCount, on: clock)
        #expect(try seen.isAbsent(RemotePath("a/g")))
    }

    @Test("The cache of directories forgets a removed path, with everything below it")
    func forgotten() throws {
        var seen = try seen(["a": [RemoteItem(directory: "b")], "a/b": [RemoteItem(directory: "c")], "a/b/c": []])
        seen.forget(try RemotePath("a/b"))
        #expect(
            try !seen.contains(RemotePath("a/b")) && !seen.contains(RemotePath("a/b/c"))
                && seen.contains(RemotePath("a"))
        )
        #expect(
            try !seen.isAbsent(RemotePath("a/b")) && !seen.isAbsent(RemotePath("a/b/c/d"))
                && seen.isAbsent(RemotePath("a/x"))
        )
    }
}
