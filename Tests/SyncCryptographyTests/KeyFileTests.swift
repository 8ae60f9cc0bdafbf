import ContentDigests
import Foundation
import Testing

@testable import SyncCryptography

@Suite("The key file", .timeLimit(.minutes(60)))
struct KeyFileTests {
    private static let registration = Array("<plist>registration</plist>".utf8)

    private static func create(_ password: String = "geheim", _ master: MasterKey = MasterKey()) async throws -> KeyFile
    {
        try await KeyFile.create(
            wrapping: master,
            with: Password(password),
            epoch: Fixture.epoch,
            registration: registration,
            parameters: .interactive
        )
    }

    /// Returns a key file with other parameters and a valid checksum.
    private static func forged(passes: Int, memory: Int) -> KeyFile {
        KeyFile(
            wrapping: MasterKey(),
            with: SecretBytes(randomCount: 32),
            KeyFile.Fields(
                epoch: Fixture.epoch,
                registrationDigest: [UInt8](repeating: 0, count: 32),
                passwordVersion: 1,
                parameters: PasswordParameters(passes: passes, memoryKibibytes: memory),
                salt: [UInt8](repeating: 0, count: 16)
            )
        )
    }

    @Test("F5: A key file returns the master key for the right password, and recognizes the right master key")
    func roundTrip() async throws {
        let master = MasterKey()
        let file = try await Self.create("geheim", master)
        #expect(file.bytes.count == KeyFile.byteCount)
        let read = try KeyFile(file.bytes)
        #expect(read == file)
        #expect(read.epoch == Fixture.epoch && read.passwordVersion == 1 && read.parameters == .interactive)
        #expect(try await read.open(with: Password("geheim\n")) == master)
        #expect(read.isProven(by: master))
        #expect(!read.isProven(by: MasterKey()))
        #expect(read.binds(registration: Self.registration))
        #expect(!read.binds(registration: Self.registration + [10]))
    }

    @Test("F6: A wrong password and a damaged key file have different errors")
    func wrongPassword() async throws {
        let file = try await Self.create()
        let wrong = await #expect(throws: CryptographyError.self) { try await file.open(with: Password("geheim ")) }
        #expect(wrong?.code == .wrongPassword)
        var damaged = file.bytes
        damaged[130] ^= 1
        #expect(failure { try KeyFile(damaged) }?.code == .corrupt)
    }

    @Test("F6, D19: A key file with any flipped byte, or of any other length, is refused with a typed error")
    func damage() async throws {
        let file = try await Self.create()
        var cases = 0
        for index in file.bytes.indices {
            for mask: UInt8 in [1, 0x80, 0xFF] {
                var bytes = file.bytes
                bytes[index] ^= mask
                #expect(failure { try KeyFile(bytes) }?.code == (index < 18 ? .unsupportedFormat : .corrupt))
                cases += 1
            }
        }
        for count in 0..<file.bytes.count {
            #expect(failure { try KeyFile(Array(file.bytes.prefix(count))) }?.code == .corrupt)
            cases += 1
        }
        #expect(failure { try KeyFile(file.bytes + [0]) }?.code == .corrupt)
        for other in [SaltFile(for: file).bytes, Array("<?xml version=\"1.0\"?>".utf8)] {
            #expect(failure { try KeyFile(other) }?.code == .unsupportedFormat)
        }
        #expect(cases == 264 * 4)
    }

    @Test("No password opens a key file that was changed anywhere with a corrected checksum, and no key is proven")
    func forgery() async throws {
        let master = MasterKey()
        let file = try await Self.create("geheim", master)
        let passwordKey = try await Password("geheim").key(salt: file.salt, parameters: .interactive)
        #expect(try file.unwrap(with: passwordKey) == master)
        for index in 18..<232 {
            var bytes = file.bytes
            bytes[index] ^= 0x40
            bytes.replaceSubrange(232..., with: Blake2b.digest(of: Array(bytes.prefix(232))))
            // A changed suite is refused when the file is read, every other change when the file is used.
            guard let forged = try? KeyFile(bytes) else {
                #expect((18..<20).contains(index))
                continue
            }
            #expect(!forged.isProven(by: master))
            // As if this key had been derived with the salt and parameters in the file.
            let code = failure { try forged.unwrap(with: passwordKey) }?.code
            #expect(code == (index < 200 ? .wrongPassword : .tampered))
        }
    }

    @Test(
        "A key file with parameters lowered, or raised to 64 GiB, is refused before anything is hashed",
        arguments: [(1, 8, CryptographyError.Code.weakParameters), (3, 64 << 20, .costlyParameters)]
    )
    func hostileParameters(passes: Int, memory: Int, code: CryptographyError.Code) async throws {
        let file = try KeyFile(Self.forged(passes: passes, memory: memory).bytes)
        let error = await #expect(throws: CryptographyError.self) { try await file.open(with: Password("geheim")) }
        #expect(error?.code == code)
    }

    @Test("F5, D19: A new password gives another file for the same key, with a fresh salt and no weaker parameters")
    func passwordChange() async throws {
        let master = MasterKey()
        let file = try await Self.create("alt", master)
        let changed = try await file.changingPassword(
            to: Password("neu"),
            masterKey: master,
            parameters: PasswordParameters(passes: 3, memoryKibibytes: 1)
        )
        #expect(changed.passwordVersion == 2)
        #expect(changed.salt != file.salt)
        #expect(changed.parameters == PasswordParameters(passes: 3, memoryKibibytes: 64 << 10))
        #expect(changed.epoch == file.epoch && changed.binds(registration: Self.registration))
        #expect(changed.isProven(by: master))
        #expect(try await KeyFile(changed.bytes).open(with: Password("neu")) == master)
        let old = await #expect(throws: CryptographyError.self) { try await changed.open(with: Password("alt")) }
        #expect(old?.code == .wrongPassword)
        // Unavoidable: the former file still opens with the former password.
        #expect(try await file.open(with: Password("alt")) == master)
        let foreign = await #expect(throws: CryptographyError.self) {
            try await file.changingPassword(to: Password("neu"), masterKey: MasterKey())
        }
        #expect(foreign?.code == .wrongKey)
    }

    @Test("The salt file is a copy of the salt, and is refused when it's damaged")
    func saltFile() async throws {
        let file = try await Self.create()
        let salt = SaltFile(for: file)
        let read = try SaltFile(salt.bytes)
        #expect(read == salt && read.salt == file.salt && read.epoch == file.epoch)
        #expect(salt.bytes.count == SaltFile.byteCount)
        for index in salt.bytes.indices {
            var bytes = salt.bytes
            bytes[index] ^= 1
            #expect(failure { try SaltFile(bytes) }?.code == (index < 18 ? .unsupportedFormat : .corrupt))
            #expect(failure { try SaltFile(Array(salt.bytes.prefix(index))) }?.code == .corrupt)
        }
        #expect(failure { try SaltFile(salt.bytes + [0]) }?.code == .corrupt)
        // The Objective-C framework wrote such a file there.
        #expect(failure { try SaltFile(.noise(20)) }?.code == .unsupportedFormat)
    }

    @Test("Keys for other purposes differ by their label and their context, whose lengths are part of them")
    func derivedKeys() throws {
        let master = MasterKey()
        let keys = [
            master.derivedKey(for: "a"), master.derivedKey(for: "b"), master.derivedKey(for: "a", context: [1]),
            master.derivedKey(for: "ab", context: [0x63]), master.derivedKey(for: "a", context: [0x62, 0x63]),
            MasterKey().derivedKey(for: "a"),
        ]
        for (index, key) in keys.enumerated() {
            #expect(!keys[(index + 1)...].contains(key))
        }
        #expect(master.derivedKey(for: "a") == keys[0])
    }
}
