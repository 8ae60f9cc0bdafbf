import ByteCoding
import ContentDigests
import Foundation

@testable import SyncCryptography

/// The files in `Resources/Vectors`, and how to create them again.
///
/// `Resources/read_vectors.py` opens them, written only from the formats' article and `vectors.json`.
enum FormatVectors {
    static let resources = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "Resources")

    static func read(_ name: String) throws -> [UInt8] {
        Array(try Data(contentsOf: resources.appending(path: "Vectors/\(name)")))
    }

    static let masterKey: [UInt8] = (0..<32).map { UInt8($0) }
    static let epoch = UUID(bytes: (0xA0..<0xB0).map { UInt8($0) })
    /// A decomposed password with a line end.
    static let password = "Zu\u{308}rich \u{1F511}\n"
    static let registration = "<plist>the registration of the vectors</plist>\n"
    static let salt: [UInt8] = (0x40..<0x50).map { UInt8($0) }

    static func key() throws -> EpochKey {
        EpochKey(master: try MasterKey(SecretBytes(copying: masterKey)), epoch: epoch)
    }

    /// A sealed file of the vectors.
    struct Sealed: Sendable, CustomStringConvertible {
        var description: String
        var content: [UInt8]
        var context: SealedContext
        var options: SealingOptions

        var name: String { "\(description).sealed" }
    }

    static let sealed = [
        Sealed(
            description: "raw",
            content: [UInt8].noise(4096) + [UInt8].text(4096) + Array("the end".utf8),
            context: SealedContext(
                application: "org.example.notes",
                role: "store",
                document: "notes",
                integrityKey: "9C4E",
                client: "laptop",
                generation: 258,
                upload: "F0E1"
            ),
            options: SealingOptions(chunkSize: 4096, compression: .none)
        ),
        Sealed(
            description: "zstd",
            content: [UInt8].text(8192) + [UInt8].noise(8192) + [UInt8].text(100),
            context: SealedContext(application: "org.example.notes", role: "manifest", document: "n\u{F6}tes"),
            options: SealingOptions(chunkSize: 8192, compression: .zstd)
        ),
        Sealed(
            description: "empty",
            content: [],
            context: SealedContext(application: "org.example.notes", role: "deviceInfo", client: "laptop"),
            options: SealingOptions()
        ),
    ]

    /// Seals with fixed salts and nonces.
    static func make(_ vector: Sealed) throws -> [UInt8] {
        var options = vector.options
        options.salt = (0x60..<0x80).map { UInt8($0) }
        let codec = ChunkCodec(sealing: vector.context, with: try key(), options: options)
        let workspace = ChunkWorkspace()
        var file = codec.start
        var rest = vector.content[...]
        var index = 0
        repeat {
            let chunk = rest.prefix(vector.options.chunkSize)
            rest = rest.dropFirst(chunk.count)
            file += codec.seal(
                chunk,
                index: UInt64(index),
                isLast: rest.isEmpty,
                in: workspace,
                nonce: [UInt8](repeating: UInt8(0xE0 + index), count: 24)
            )
            index += 1
        } while !rest.isEmpty
        return file
    }

    static func makeKeyFile() throws -> KeyFile {
        let parameters = PasswordParameters.interactive
        return KeyFile(
            wrapping: try key().master,
            with: try Argon2id.hash(
                Password(password).bytes,
                salt: salt,
                passes: parameters.passes,
                memory: parameters.memory
            ),
            KeyFile.Fields(
                epoch: epoch,
                registrationDigest: Blake2b.digest(of: Array(registration.utf8)),
                passwordVersion: 3,
                parameters: parameters,
                salt: salt
            ),
            nonce: [UInt8](repeating: 0xD0, count: 24)
        )
    }
}
