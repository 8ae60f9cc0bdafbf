import Foundation
import Testing

@testable import SyncCryptography

@Suite("The formats, as files that were written once", .timeLimit(.minutes(60)))
struct FormatVectorTests {
    @Test("sealed files of then open now", arguments: FormatVectors.sealed)
    func opens(vector: FormatVectors.Sealed) throws {
        let file = try FormatVectors.read(vector.name)
        #expect(try FormatVectors.key().open(file, as: vector.context, upTo: 1 << 20) == vector.content)
        // What zstd makes of the same bytes may change with its version.
        if vector.options.compression == .none || vector.content.isEmpty {
            #expect(try FormatVectors.make(vector) == file)
        }
    }

    @Test("a key file of then opens now, and is what would be written now")
    func keyFile() async throws {
        let file = try KeyFile(FormatVectors.read("test.ticdsync"))
        #expect(try await file.open(with: Password(FormatVectors.password)) == FormatVectors.key().master)
        #expect(file.binds(registration: Array(FormatVectors.registration.utf8)))
        #expect(file.passwordVersion == 3 && file.epoch == FormatVectors.epoch)
        #expect(try FormatVectors.makeKeyFile() == file)
        #expect(try SaltFile(FormatVectors.read("salt.ticdsync")) == SaltFile(for: file))
    }

    #if os(Linux)
    @Test("a program in another language, written by the article alone, opens them all, and a swapped one not")
    func independentReader() throws {
        let process = Process()
        // Debian's own Python, for which its packages are; `.ci/prepare` installs them.
        process.executableURL = URL(filePath: "/usr/bin/python3")
        process.arguments = [FormatVectors.resources.appending(path: "read_vectors.py").path]
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let text = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        process.waitUntilExit()
        #expect(process.terminationStatus == 0, "\(text)Run .ci/prepare if nacl or zstandard is missing.")
        var expected = ["key \(hex(FormatVectors.masterKey))"]
        expected += FormatVectors.sealed.map { "\($0.description) \(hex(Blake2b.digest(of: $0.content)))" }
        #expect(text.split(separator: "\n").map(String.init) == expected + ["swapped refused"])
    }
    #endif
}
