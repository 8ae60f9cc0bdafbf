import ContentDigests
import Foundation
import Testing
import ThreadSupport

@testable import SyncCryptography

@Suite("The formats, by files that an earlier version wrote", .timeLimit(.minutes(60)))
struct FormatVectorTests {
    @Test("Earlier sealed files open", arguments: FormatVectors.sealed)
    func opens(vector: FormatVectors.Sealed) throws {
        let file = try FormatVectors.read(vector.name)
        #expect(try FormatVectors.key().open(file, as: vector.context, upTo: 1 << 20) == vector.content)
        // zstd's output for the same bytes may change with its version.
        if vector.options.compression == .none || vector.content.isEmpty {
            #expect(try FormatVectors.make(vector) == file)
        }
    }

    @Test("An earlier key file opens, and equals the file that this version writes")
    func keyFile() async throws {
        let file = try KeyFile(FormatVectors.read("test.ticdsync"))
        #expect(try await file.open(with: Password(FormatVectors.password)) == FormatVectors.key().master)
        #expect(file.binds(registration: Array(FormatVectors.registration.utf8)))
        #expect(file.passwordVersion == 3 && file.epoch == FormatVectors.epoch)
        #expect(try FormatVectors.makeKeyFile() == file)
        #expect(try SaltFile(FormatVectors.read("salt.ticdsync")) == SaltFile(for: file))
    }

    #if os(Linux)
    /// Returns the summary of a pass that opens a vector.
    private func summary(of vector: FormatVectors.Sealed) async throws -> ContentSummary {
        let source = Pieces(bytes: try FormatVectors.read(vector.name), sizes: [1000])
        let summary = Locked<ContentSummary?>(nil)
        try await SealingWorkers.withWorkers { workers in
            let opening = try FormatVectors.key().opening(source, as: vector.context, on: workers) { pass in
                summary.withLock { $0 = pass }
            }
            #expect(try await collect(opening) == vector.content)
        }
        return try #require(summary.withLock { $0 })
    }

    @Test("A program in another language, written only from the article, opens all files and refuses a swapped file")
    func independentReader() async throws {
        let process = Process()
        // Debian's own Python, which has the packages that `.ci/prepare` installs.
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
        for vector in FormatVectors.sealed {
            let seals = try await summary(of: vector).seals
            expected.append("\(vector) \(hex(Blake2b.digest(of: vector.content))) \(hex(seals))")
        }
        #expect(text.split(separator: "\n").map(String.init) == expected + ["swapped refused"])
    }
    #endif
}
