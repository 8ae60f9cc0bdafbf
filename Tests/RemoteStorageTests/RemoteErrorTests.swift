import RemoteStorage
import Testing

@Suite("A remote error")
struct RemoteErrorTests {
    @Test("A remote error prints its code, its message and its cause")
    func prints() throws {
        let path = try RemotePath("a/b")
        #expect(
            RemoteError.notFound(path).description
                == "notFound: “a/b” doesn't exist. It was removed, or hasn't arrived yet."
        )
        let error = RemoteError(.unavailable, "Try again.", path: path, cause: RemoteError(.noSpace, "Make room."))
        #expect(error.description == "unavailable: Try again.\n└ noSpace: Make room.")
    }
}
