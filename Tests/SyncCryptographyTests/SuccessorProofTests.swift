import ByteCoding
import ContentDigests
import Foundation
import Testing

@testable import SyncCryptography

@Suite("The proof of an application's successor", .timeLimit(.minutes(60)))
struct SuccessorProofTests {
    private static let registration = Array("<plist>registration</plist>".utf8)
    private static let successor = UUID(bytes: Array(0x30..<0x40))

    private static func proof() throws -> SuccessorProof {
        try SuccessorProof(former: Fixture.key(), successor: successor, registration: registration)
    }

    @Test("A successor's proof holds only for the key that created it, its epochs and its registration")
    func holds() throws {
        let proof = try SuccessorProof(Self.proof().bytes)
        #expect(try proof == Self.proof())
        #expect(proof.bytes.count == 148 && proof.bytes.count == SuccessorProof.byteCount)
        #expect(proof.formerEpoch == Fixture.epoch && proof.epoch == Self.successor)
        #expect(try proof.holds(for: Fixture.key(), registration: Self.registration))
        #expect(try !proof.holds(for: Fixture.key(8), registration: Self.registration))
        #expect(try !proof.holds(for: Fixture.key(), registration: Self.registration + [10]))
        let other = EpochKey(master: try Fixture.key().master, epoch: Fixture.formerEpoch)
        #expect(!proof.holds(for: other, registration: Self.registration))
    }

    @Test("D19: A successor's proof with any flipped byte, or of any other length, is refused with a typed error")
    func damage() throws {
        let bytes = try Self.proof().bytes
        for index in bytes.indices {
            var changed = bytes
            changed[index] ^= 1
            #expect(failure { try SuccessorProof(changed) }?.code == (index < 18 ? .unsupportedFormat : .corrupt))
            #expect(failure { try SuccessorProof(Array(bytes.prefix(index))) }?.code == .corrupt)
        }
        #expect(failure { try SuccessorProof(bytes + [0]) }?.code == .corrupt)
    }

    @Test("D19: A successor's proof that was changed with a corrected checksum proves nothing")
    func mended() throws {
        let bytes = try Self.proof().bytes
        for index in 18..<116 {
            var changed = Array(bytes.prefix(116))
            changed[index] ^= 1
            changed += Blake2b.digest(of: changed)
            guard let proof = try? SuccessorProof(changed) else {
                #expect(index < 20)
                continue
            }
            #expect(try !proof.holds(for: Fixture.key(), registration: Self.registration))
        }
    }

    @Test("A successor's proof has the layout that the article describes, byte by byte")
    func layout() throws {
        let key = try Fixture.key()
        var expected = Array("storesync epoch".utf8) + [0, 1, 0, 1, 0]
        expected += Fixture.epoch.bytes + Self.successor.bytes + Blake2b.digest(of: Self.registration)
        expected += Blake2b.digest(of: expected, key: key.master.bytes)
        expected += Blake2b.digest(of: expected)
        #expect(try Self.proof().bytes == expected)
    }
}
