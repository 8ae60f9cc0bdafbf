import Testing

@testable import SyncCryptography

@Suite("Secrets")
struct SecretTests {
    @Test("Secrets are compared by content and length")
    func equality() {
        let secret = SecretBytes(copying: [1, 2, 3])
        #expect(secret == SecretBytes(copying: [1, 2, 3]))
        #expect(secret != SecretBytes(copying: [1, 2, 4]))
        #expect(secret != SecretBytes(copying: [1, 2]))
        #expect(SecretBytes(copying: []) == SecretBytes(copying: []))
        #expect(secret.isEqual(to: [1, 2, 3]) && !secret.isEqual(to: [1, 2, 3, 0]))
        #expect(SecretBytes(randomCount: 32) != SecretBytes(randomCount: 32))
    }

    @Test("A secret can't be written after it's created")
    func readOnly() async {
        await #expect(processExitsWith: .failure) {
            let secret = SecretBytes(copying: [1, 2, 3])
            secret.withBytes { bytes in
                guard let start = bytes.baseAddress else { return }
                UnsafeMutableRawPointer(mutating: start).storeBytes(of: 0, as: UInt8.self)
            }
        }
    }

    @Test("A secret whose filling throws is released")
    func throwingFill() {
        struct Failure: Error {}
        #expect(throws: Failure.self) { try SecretBytes(count: 16) { _ in throw Failure() } }
    }

    @Test("Secrets in common memory have their own bytes and lengths, can't be written, and outlive each other")
    func several() async throws {
        let content: [[UInt8]] = [[1, 2], [], [3, 4, 5]]
        func secrets() -> [SecretBytes] {
            SecretBytes.several(upTo: [2, 8, 8]) { index, buffer in
                buffer.copyBytes(from: content[index])
                return content[index].count
            }
        }
        #expect(secrets().map { $0.withBytes { Array($0) } } == content)
        #expect(secrets()[2] == SecretBytes(copying: content[2]))
        #expect(SecretBytes.several(upTo: []) { _, _ in 0 }.isEmpty)
        await #expect(processExitsWith: .failure) {
            let secrets = SecretBytes.several(upTo: [8, 8]) { _, buffer in buffer.count }
            secrets[1].withBytes { bytes in
                guard let start = bytes.baseAddress else { return }
                UnsafeMutableRawPointer(mutating: start).storeBytes(of: 0, as: UInt8.self)
            }
        }
    }

    @Test("Dividing a secret gives its first bytes and the others, which outlive it")
    func divided() {
        let (first, rest) = SecretBytes(copying: [1, 2, 3]).divided(after: 1)
        #expect(first == SecretBytes(copying: [1]) && rest == SecretBytes(copying: [2, 3]))
        #expect(SecretBytes(copying: [4, 5]).divided(after: 2).0 == SecretBytes(copying: [4, 5]))
        #expect(SecretBytes(copying: [4, 5]).divided(after: 2).1.count == 0)
    }

    @Test(
        "F3: A password is UTF-8 in its normal form, without one line end, and otherwise unchanged",
        arguments: [
            ("geheim", "geheim"), ("geheim\n", "geheim"), ("geheim\r\n", "geheim"), ("geheim\n\n", "geheim\n"),
            (" ge heim ", " ge heim "), ("Zu\u{308}rich", "Z\u{FC}rich"), ("\u{212B}", "\u{C5}"), ("\n\n", "\n"),
            ("\u{1F511}", "\u{1F511}"), ("a\u{0}b", "a\u{0}b"), ("geheim\r", "geheim\r"),
        ]
    )
    func normalization(given: String, expected: String) throws {
        for password in [
            try Password(given), try Password(utf8: Array(given.utf8)), try Password(utf8: AnySequence(given.utf8)),
        ] {
            #expect(password.bytes.isEqual(to: Array(expected.utf8)))
        }
    }

    @Test("A password that is empty, too long or not UTF-8 is refused with a typed error")
    func refusedPasswords() throws {
        for text in ["", "\n", "\r\n"] {
            #expect(failure { try Password(text) }?.code == .invalidPassword)
        }
        #expect(failure { try Password(utf8: [0x66, 0xFF]) }?.message == "The password isn't UTF-8. Save it as UTF-8.")
        let longest = String(repeating: "a", count: Password.maximumBytes)
        _ = try Password(longest + "\n")
        #expect(failure { try Password(longest + "a") }?.code == .invalidPassword)
        // Each character grows from four bytes to twelve as it's normalized.
        let growing = String(repeating: "\u{1D160}", count: Password.maximumBytes / 4)
        #expect(failure { try Password(growing) }?.code == .invalidPassword)
    }

    @Test("A password whose normal form the system gets wrong is refused rather than cut off")
    func manyMarks() throws {
        for count in [1, 10, 63, 64, 65, 100, 1000] {
            // In normal form each of these marks is two marks.
            let text = "a" + String(repeating: "\u{344}", count: count)
            do {
                let expected = "a" + String(repeating: "\u{308}\u{301}", count: count)
                // The first mark may combine with the “a” into one letter.
                #expect(try Password(text).bytes.count == expected.utf8.count - 1)
            } catch {
                #expect(error.code == .invalidPassword && count > 10)
            }
        }
    }

    @Test("F3: Passwords are equal after normalization, and different passwords aren't")
    func passwordEquality() throws {
        #expect(try Password("Zu\u{308}rich") == Password("Z\u{FC}rich\n"))
        #expect(try Password("a") != Password("a "))
    }

    @Test("No description, mirror, dump or error shows a secret")
    func descriptions() async throws {
        let text = "CANARYCANARYCANARYCANARYCANARY!!"
        let secret = SecretBytes(copying: text.utf8)
        let master = try MasterKey(secret)
        let password = try Password(text)
        let key = EpochKey(master: master, epoch: Fixture.epoch)
        let keyFile = try await KeyFile.create(
            wrapping: master,
            with: password,
            epoch: Fixture.epoch,
            registration: [],
            parameters: .interactive
        )
        let sealed = key.seal(Array(text.utf8), as: Fixture.context)
        let codec = ChunkCodec(sealing: Fixture.context, with: key, options: SealingOptions())
        var values: [Any] = [
            secret, password, master, key, keyFile, SaltFile(for: keyFile), sealed, codec, codec.header,
            master.derivedKey(for: "test"), Optional(password) as Any, [password], ["key": master],
            PasswordParameters.moderate, Fixture.context, SealingOptions(),
        ]
        let failures: [() async throws -> Any] = [
            { try Password(text + String(repeating: "a", count: 1 << 16)) },
            { try Password(utf8: Array(text.utf8) + [0xFF]) },
            { try await keyFile.open(with: Password("wrong")) },
            { try MasterKey(SecretBytes(copying: text.utf8.dropLast())) },
            { try await keyFile.changingPassword(to: password, masterKey: MasterKey()) },
            { try key.open(sealed, as: Fixture.context, upTo: 1) },
            { try key.open(Array(sealed.dropLast()), as: Fixture.context, upTo: 100) },
            { try key.open(sealed, as: Fixture.otherContexts[0], upTo: 100) },
            { try EpochKey(master: MasterKey(), epoch: key.epoch).open(sealed, as: Fixture.context, upTo: 100) },
            { try EpochKey(master: master, epoch: Fixture.formerEpoch).open(sealed, as: Fixture.context, upTo: 1) },
            { try KeyFile(Array(keyFile.bytes.dropLast())) },
            { try await password.key(salt: keyFile.salt, parameters: .init(passes: 1, memoryKibibytes: 8)) },
        ]
        for body in failures {
            do {
                values.append(try await body())
                Issue.record("a call that must throw didn't")
            } catch {
                values.append(error)
            }
        }
        for value in values {
            var printed = String(describing: value) + String(reflecting: value) + "\(value)"
            dump(value, to: &printed)
            let squeezed = printed.lowercased().filter { !$0.isWhitespace }
            // As text, in hexadecimal, as numbers in a list and in a dump, in base 64.
            for canary in ["canary", "43414e415259", "67,65,78", "-67-65-78", "q0foqvj", "nbqvjz"] {
                let isShown = squeezed.contains(canary)
                #expect(!isShown, "\(type(of: value)) shows a secret")
            }
        }
        #expect("\(password) \(secret) \(master)" == "<a password> <secret of 32 bytes> <a master key>")
    }
}
