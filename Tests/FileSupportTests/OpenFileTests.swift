import FileSupport
import Foundation
import SystemPackage
import TestSupport
import Testing

@Suite("An open file")
struct OpenFileTests {
    private let folder = TemporaryFolder()

    private var path: String { folder.appending(path: "file").path }

    @Test("A file is created only where nothing exists, not even a symbolic link, and only its owner may use it")
    func exclusiveCreation() throws {
        #expect(try OpenFile(creating: path).status().permissions == .ownerReadWrite)
        #expect(throws: Errno.fileExists) { try OpenFile(creating: path) }
        let link = path + "-link"
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: path + "-target")
        #expect(throws: Errno.fileExists) { try OpenFile(creating: link) }
    }

    @Test("An open file is read from any offset, up to its end")
    func reading() throws {
        let file = try OpenFile(creating: path)
        try file.write(Array("abcdef".utf8))
        try file.truncate(to: 5)
        try file.synchronize()
        let opened = try OpenFile(path: path, O_RDONLY)
        #expect(try opened.read(at: 0, upTo: 5) == Array("abcde".utf8))
        #expect(try opened.read(at: 3, upTo: 10) == Array("de".utf8))
        #expect(try opened.read(at: 5, upTo: 10) == [])
        #expect(throws: Errno.self) { try opened.write([1]) }
    }

    @Test("A file's lock is shared by many holders, or held by one alone")
    func locks() throws {
        let files = try (0..<3).map { _ in try OpenFile(path: path, O_RDWR | O_CREAT) }
        #expect(try files[0].lock(.shared))
        #expect(try files[1].lock(.shared))
        #expect(try !files[2].lock(.exclusive))
        files[0].unlock()
        files[1].unlock()
        #expect(try files[2].lock(.exclusive, waits: true))
        #expect(try !files[0].lock(.shared))
    }

    @Test("A clone of a file shares its blocks, or isn't created where the file system can't share them")
    func cloning() throws {
        try Data(repeating: 7, count: 10_000).write(to: URL(filePath: path))
        let isCloned = OpenFile.clone(path, creating: path + "-clone")
        #expect((try? Stat(path + "-clone").size) == (isCloned ? 10_000 : nil))
        #expect(!OpenFile.clone(path + "-missing", creating: path + "-other"))
        #expect(!FileManager.default.fileExists(atPath: path + "-other"))
    }
}
