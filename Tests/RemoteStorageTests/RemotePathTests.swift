import RemoteStorage
import Testing

@Suite("A remote path")
struct RemotePathTests {
    @Test(
        "A remote path accepts any single path component",
        arguments: [
            "a", "a b", "%2e%2e", "+", "#?&", "é", "文書", "…", "...", "..a", "a\\b", "-",
            String(repeating: "x", count: 255),
        ]
    )
    func takesNames(name: String) throws {
        let path = try RemotePath("directory/\(name)")
        #expect(path.components == ["directory", name])
        #expect(path.lastComponent == name)
        #expect(path.description == "directory/\(name)")
    }

    @Test(
        "A remote path refuses every string that could lead outside the root",
        arguments: [
            "", "/", "a/", "/a", "a//b", ".", "..", "../x", "a/../b", "a/./b", "a/..", "a\0b", "\0",
            String(repeating: "x", count: 256), String(repeating: "é", count: 128), "../\u{301}x",
        ]
    )
    func refusesStrings(string: String) {
        #expect(throws: RemoteError.self) { try RemotePath(string) }
    }

    @Test(
        "A remote path refuses a separator inside a component",
        arguments: ["a/b", "/", "../x", "a/\u{301}", "", ".", "..", "a\0"]
    )
    func refusesComponents(component: String) {
        let error = #expect(throws: RemoteError.self) { try RemotePath.root.appending(component) }
        #expect(error?.code == .invalidPath)
        #expect(error?.message.contains("no “/”") == true)
        #expect(throws: RemoteError.self) { try RemotePath(components: ["a", component]) }
    }

    @Test("A remote path returns its parent, and detects the directories that contain it")
    func knowsItsParent() throws {
        let path = try RemotePath("a/b/c")
        #expect(path.parent?.description == "a/b")
        #expect(RemotePath.root.parent == nil)
        #expect(RemotePath.root.lastComponent == nil)
        #expect(RemotePath.root.description == "/")
        #expect(path.isEqualToOrInside(path))
        #expect(try path.isEqualToOrInside(RemotePath("a/b")))
        #expect(path.isEqualToOrInside(.root))
        #expect(try !path.isEqualToOrInside(RemotePath("a/b/c/d")))
        #expect(try !RemotePath("ab").isEqualToOrInside(RemotePath("a")))
        #expect(try RemotePath("a/z") < RemotePath("a-"))
    }

    @Test("A remote path appends identifiers and literal names unchanged")
    func takesIdentifiers() throws {
        let path = RemotePath.root.appending(try RemoteIdentifier("notes")).appending(literal: "stores")
        #expect(path.components == ["notes", "stores"])
    }

    @Test("A remote path traps on a literal that isn't a path component")
    func trapsOnLiterals() async {
        await #expect(processExitsWith: .failure) {
            _ = RemotePath.root.appending(literal: "a/b")
        }
    }
}
