#if os(Linux)
import Foundation
import Glibc

/// A system call that not every file system supports, or not in every directory.
package enum FileSystemCall: UInt64, Sendable {
    #if arch(arm64)
    case flock = 32
    case unlinkat = 35
    case linkat = 37
    case renameat2 = 276
    #else
    case flock = 73
    case unlinkat = 263
    case linkat = 265
    case renameat2 = 316
    #endif
}

/// Runs `body` on a thread on which the kernel refuses system calls, as on a file system that doesn't support them.
///
/// - Parameters:
///   - calls: The calls, and the `errno` of each.
///   - body: The work, of which all is done on that thread.
/// - Returns: What `body` returns; `nil` if this system doesn't let a thread refuse calls.
/// - Throws: What `body` throws.
package func refusing<Result: Sendable>(
    _ calls: [FileSystemCall: CInt],
    _ body: @escaping @Sendable () throws -> Result
) async throws -> Result? {
    try await withCheckedThrowingContinuation { continuation in
        Thread {
            continuation.resume(with: Swift.Result { try refuse(calls) ? body() : nil })
        }.start()
    }
}

/// Refuses calls on the current thread until it ends; returns whether the system lets it.
private func refuse(_ calls: [FileSystemCall: CInt]) -> Bool {
    // Swift doesn't import functions with a variable number of arguments.
    typealias Control = @convention(c) (CInt, UInt, UInt, UInt, UInt) -> CInt
    guard let symbol = dlsym(nil, "prctl") else { return false }
    let control = unsafeBitCast(symbol, to: Control.self)
    // A program for seccomp(2). Each instruction has an operation, the distances of two jumps, and an operand: load the call's
    // number; if it's this one, return this error; allow every other call.
    var program: [UInt64] = [0x20]
    for (call, error) in calls {
        program.append(0x15 | 1 << 24 | call.rawValue << 32)
        program.append(0x06 | (0x5_0000 | UInt64(error)) << 32)
    }
    program.append(0x06 | 0x7fff_0000 << 32)
    return program.withUnsafeBufferPointer { program in
        // PR_SET_NO_NEW_PRIVS, without which only root may filter calls.
        guard control(38, 1, 0, 0, 0) == 0 else { return false }
        return [UInt(program.count), UInt(bitPattern: program.baseAddress)].withUnsafeBufferPointer { filter in
            // PR_SET_SECCOMP and SECCOMP_MODE_FILTER.
            control(22, 2, UInt(bitPattern: filter.baseAddress), 0, 0) == 0
        }
    }
}
#endif
