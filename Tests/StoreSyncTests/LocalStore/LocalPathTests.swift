import Foundation
import Testing

@testable import StoreSync

@Suite("A path on this device")
struct LocalPathTests {
    @Test("A local path equals only the path with the same bytes")
    func equality() {
        let paths = ["/caf\u{e9}", "/cafe\u{301}", "/caf\u{e9}"].map { LocalPath($0) }
        #expect(paths[0] != paths[1] && paths[0] == paths[2])
        #expect(Set(paths).count == 2)
    }

    @Test("A local path is coded as its text, byte by byte")
    func coding() throws {
        let path = LocalPath("/cafe\u{301}")
        let json = try JSONEncoder().encode([path])
        #expect(try JSONDecoder().decode([String].self, from: json).map { Array($0.utf8) } == [Array(path.text.utf8)])
        #expect(try JSONDecoder().decode([LocalPath].self, from: json) == [path])
    }

    @Test("A ~ at the start of a path is part of a name")
    func tilde() {
        let directory = FileManager.default.currentDirectoryPath
        for path in ["~", "~/notes.sqlite", "~root/notes.sqlite"] {
            #expect(URL(named: path).path == "\(directory)/\(path)")
        }
        #expect(URL(named: "/~").path == "/~")
    }

    @Test("A local path follows a directory that it is below, and no other directory")
    func moved() {
        let (former, later) = (LocalPath("/caf\u{e9}"), LocalPath("/later"))
        #expect(LocalPath("/caf\u{e9}/a").moved(from: former, to: later) == LocalPath("/later/a"))
        // As a character, the slash and the accent are one.
        #expect(LocalPath("/caf\u{e9}/\u{301}a").moved(from: former, to: later) == LocalPath("/later/\u{301}a"))
        for other in ["/cafe\u{301}/a", "/caf\u{e9}s/a", "/caf\u{e9}"] {
            #expect(LocalPath(other).moved(from: former, to: later) == nil, "\(other)")
        }
    }
}
