import Foundation
import SyncCryptography
import Testing

// The code between the marks is also in the documentation.

@Suite("The examples of the documentation", .timeLimit(.minutes(60)))
struct ExampleTests {
    @Test("The landing page's examples seal a small file and a large one, which open with the key of the key file")
    func landingPage() async throws {
        let (epoch, registration) = (UUID(), Array("registration".utf8))
        // DOC: small file
        let master = MasterKey()
        let keyFile = try await KeyFile.create(
            wrapping: master,
            with: Password("correct horse"),
            epoch: epoch,
            registration: registration
        )

        let key = EpochKey(master: master, epoch: epoch)
        let context = SealedContext(application: "org.example.notes", role: "deviceInfo", client: "laptop")
        let sealed = key.seal(Array("my laptop".utf8), as: context)
        // DOC: end
        let unwrapped = EpochKey(master: try await keyFile.open(with: Password("correct horse")), epoch: epoch)
        #expect(try unwrapped.open(sealed, as: context, upTo: 9) == Array("my laptop".utf8))

        let content = [UInt8](repeating: 7, count: 3_000_000)
        let source = Pieces(bytes: content, sizes: [1009])
        var file: [UInt8] = []
        func write(_ piece: [UInt8]) async throws { file += piece }
        // DOC: large file
        try await SealingWorkers.withWorkers { workers in
            for try await piece in key.sealing(source, as: context, on: workers) { try await write(piece) }
        }
        // DOC: end
        #expect(try unwrapped.open(file, as: context, upTo: content.count) == content)
    }
}
