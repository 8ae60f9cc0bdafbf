#if os(Linux)
import FileSupport
import Foundation
import SystemPackage
import TestSupport
import Testing

@Suite("An exclusive rename in a directory")
struct ExclusiveRenameTests {
    private let folder = TemporaryFolder()

    init() throws {
        for name in ["one", "two"] { try Data(name.utf8).write(to: folder.appending(path: name)) }
    }

    /// The contents of all files, by name.
    private func files() throws -> [String: String] {
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
        let files = try names.map { ($0, try String(contentsOf: folder.appending(path: $0), encoding: .utf8)) }
        return Dictionary(uniqueKeysWithValues: files)
    }

    /// Renames files where the system refuses calls.
    ///
    /// - Returns: The error of each rename; `nil` if this system can't refuse the calls.
    private func rename(
        _ names: [(String, String)],
        refusing calls: [FileSystemCall: CInt]
    ) async throws -> [Errno?]? {
        let directory = try Directory(path: folder.path)
        return try await refusing(calls) {
            names.map { name, newName in
                do throws(Errno) {
                    try directory.renameExclusively(name, newName)
                    return nil
                } catch {
                    return error
                }
            }
        }
    }

    @Test(
        "A file gets a new name and replaces no other, even where a file system can neither rename exclusively nor link",
        arguments: [[:], [.renameat2: EINVAL], [.renameat2: EINVAL, .linkat: EPERM]] as [[FileSystemCall: CInt]]
    )
    func everyFileSystem(calls: [FileSystemCall: CInt]) async throws {
        let names = [("one", "two"), ("missing", "three"), ("one", "three")]
        guard let errors = try await rename(names, refusing: calls) else { return }
        #expect(errors == [.fileExists, .noSuchFileOrDirectory, nil])
        #expect(try files() == ["two": "two", "three": "one"])
    }

    @Test(
        "If a file system can neither rename exclusively nor link, a file is renamed under a lock if there are locks",
        arguments: [(EIO, .ioError), (EOPNOTSUPP, nil)] as [(CInt, Errno?)]
    )
    func lock(refusal: CInt, error: Errno?) async throws {
        let calls: [FileSystemCall: CInt] = [.renameat2: EINVAL, .linkat: EPERM, .flock: refusal]
        guard let errors = try await rename([("one", "three")], refusing: calls) else { return }
        #expect(errors == [error])
        let name = error == nil ? "three" : "one"
        #expect(try files() == ["two": "two", name: "one"])
    }

    @Test("A rename that can't remove the former name says so, and not that the new name existed")
    func formerName() async throws {
        let calls: [FileSystemCall: CInt] = [.renameat2: EINVAL, .unlinkat: EPERM]
        guard let errors = try await rename([("one", "three")], refusing: calls) else { return }
        #expect(errors == [.notPermitted])
    }
}
#endif
