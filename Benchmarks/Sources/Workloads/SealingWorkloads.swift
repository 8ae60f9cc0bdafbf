import CLibsodium
import Foundation
import SyncCryptography

/// Mebibytes of noise, one at a time: it can't be compressed, and no disk is involved.
private struct Noise: AsyncSequence, Sendable {
    let count: Int
    let block: [UInt8]

    init(count: Int) {
        self.count = count
        var block = [UInt8](repeating: 0, count: 1 << 20)
        randombytes_buf(&block, block.count)
        self.block = block
    }

    struct AsyncIterator: AsyncIteratorProtocol {
        var left: Int
        let block: [UInt8]

        mutating func next() async -> [UInt8]? {
            guard left > 0 else { return nil }
            left -= 1
            return block
        }
    }

    func makeAsyncIterator() -> AsyncIterator { AsyncIterator(left: count, block: block) }
}

/// A sealed file in memory, in the pieces in which it was sealed.
private struct Pieces: AsyncSequence, Sendable {
    let pieces: [[UInt8]]

    struct AsyncIterator: AsyncIteratorProtocol {
        var rest: ArraySlice<[UInt8]>

        mutating func next() async -> [UInt8]? { rest.popFirst() }
    }

    func makeAsyncIterator() -> AsyncIterator { AsyncIterator(rest: pieces[...]) }
}

/// Seals or opens so many MiB with the library, by one worker or by one for each core; sealing digests every chunk.
func runSealing(_ workload: Workload, _ mebibytes: Int, workers count: Int?) async throws -> Measurement? {
    let key = EpochKey(master: MasterKey(), epoch: UUID())
    let context = SealedContext(application: "benchmark", role: "noise")
    let noise = Noise(count: mebibytes)
    return try await SealingWorkers.withWorkers(count: count) { workers in
        let sealing = key.sealing(noise, as: context, options: SealingOptions(compression: .none), on: workers)
        switch workload {
        case .seal:
            return Measurement(try await timed { for try await _ in sealing {} })
        case .open:
            var pieces: [[UInt8]] = []
            for try await piece in sealing { pieces.append(piece) }
            let opening = key.opening(Pieces(pieces: pieces), as: context, on: workers)
            return Measurement(try await timed { for try await _ in opening {} })
        default: return nil
        }
    }
}

/// Calls libsodium for each of so many MiB, on this thread: the cipher alone, or the cipher and then the plaintext's digest.
func runSodium(_ workload: Workload, _ mebibytes: Int, digests: Bool) async -> Measurement? {
    guard workload == .seal || workload == .open else { return nil }
    // Chooses the implementation for this processor. Without this call, libsodium uses the slow one.
    precondition(sodium_init() >= 0, "libsodium can't be used")
    let size = 1 << 20
    var plain = Noise(count: 1).block
    var sealed = [UInt8](repeating: 0, count: size + Int(crypto_aead_xchacha20poly1305_ietf_ABYTES))
    let key = [UInt8](repeating: 1, count: Int(crypto_aead_xchacha20poly1305_ietf_KEYBYTES))
    let nonce = [UInt8](repeating: 2, count: Int(crypto_aead_xchacha20poly1305_ietf_NPUBBYTES))
    let associated = [UInt8](repeating: 3, count: 12)
    var digest = [UInt8](repeating: 0, count: 32)
    func seal() {
        let status = crypto_aead_xchacha20poly1305_ietf_encrypt(
            &sealed,
            nil,
            plain,
            UInt64(size),
            associated,
            UInt64(associated.count),
            nil,
            nonce,
            key
        )
        precondition(status == 0, "libsodium doesn't seal")
    }
    seal()
    let duration = await timed {
        for _ in 0..<mebibytes {
            if workload == .seal {
                seal()
            } else {
                let status = crypto_aead_xchacha20poly1305_ietf_decrypt(
                    &plain,
                    nil,
                    nil,
                    sealed,
                    UInt64(sealed.count),
                    associated,
                    UInt64(associated.count),
                    nonce,
                    key
                )
                precondition(status == 0, "libsodium doesn't open what it sealed")
            }
            if digests { crypto_generichash(&digest, digest.count, plain, UInt64(size), nil, 0) }
        }
    }
    return Measurement(duration)
}
