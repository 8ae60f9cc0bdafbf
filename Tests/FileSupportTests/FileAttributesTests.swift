import FileSupport
import Foundation
import SystemPackage
import TestSupport
import Testing

@Suite("What a file has besides its content")
struct FileAttributesTests {
    private let folder = TemporaryFolder()

    private func file(_ name: String) throws -> String {
        let url = folder.appending(path: name)
        try Data([1]).write(to: url)
        return url.path
    }

    @Test("Extended attributes go to another file, empty ones too, and former ones of other names stay")
    func copies() throws {
        let (source, target) = (try file("source"), try file("target"))
        // Not every file system has them.
        guard FileAttributes.set("user.tag", to: [1, 0, 2], source) else { return }
        FileAttributes.set("user.empty", to: [], source)
        FileAttributes.set("user.tag", to: [9], target)
        FileAttributes.set("user.other", to: [7], target)
        FileAttributes.copy(from: source, to: target)
        #expect(FileAttributes.value("user.tag", target) == [1, 0, 2])
        #expect(FileAttributes.value("user.empty", target) == [])
        #expect(FileAttributes.value("user.other", target) == [7])
        #expect(Set(FileAttributes.names(target)).isSuperset(of: ["user.tag", "user.empty", "user.other"]))
    }

    @Test("A file without attributes, and a missing file, change nothing")
    func nothing() throws {
        let target = try file("target")
        FileAttributes.copy(from: folder.appending(path: "missing").path, to: target)
        FileAttributes.copy(from: try file("source"), to: target)
        #expect(FileAttributes.value("user.tag", target) == nil)
        #expect(try Data(contentsOf: URL(filePath: target)) == Data([1]))
    }
}

@Suite("A move in a directory")
struct DirectoryMoveTests {
    private let folder = TemporaryFolder()

    @Test("A move can change only the case of a name")
    func caseOnly() throws {
        try Data([1]).write(to: folder.appending(path: "notes"))
        let directory = try Directory(path: folder.path)
        try directory.move("notes", to: directory, "Notes")
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["Notes"])
    }

    @Test("A move onto a second name of the same file is refused")
    func secondName() throws {
        try Data([1]).write(to: folder.appending(path: "one"))
        let directory = try Directory(path: folder.path)
        try directory.link("one", to: directory, "two")
        #expect(throws: Errno.fileExists) { try directory.move("one", to: directory, "two") }
        #expect(try Set(FileManager.default.contentsOfDirectory(atPath: folder.path)) == ["one", "two"])
    }
}
