import SystemPackage

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// A descriptor that is closed when nobody holds it any more.
final class OpenFile: Sendable {
    let descriptor: FileDescriptor

    /// Takes a descriptor that a system call just gave, or throws what it failed with.
    init(_ call: () -> CInt) throws(Errno) {
        descriptor = FileDescriptor(rawValue: try retrying(call))
    }

    deinit {
        try? descriptor.close()
    }

    func status() throws(Errno) -> Stat {
        try Stat(descriptor)
    }

    func read(at offset: Int64, upTo count: Int) throws -> [UInt8] {
        try [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            initialized = try descriptor.read(
                fromAbsoluteOffset: offset,
                into: UnsafeMutableRawBufferPointer(buffer)
            )
        }
    }

    func write(_ bytes: [UInt8]) throws {
        try descriptor.writeAll(bytes)
    }

    /// Takes the file for this process as long as it's open; returns whether nobody else has it.
    func lock() -> Bool {
        flock(descriptor.rawValue, LOCK_EX | LOCK_NB) == 0
    }

    /// Gives it back at once, whoever else holds the descriptor: a program that is just being started has a copy.
    func unlock() {
        _ = flock(descriptor.rawValue, LOCK_UN)
    }

    /// Drops what stands after the first bytes.
    func truncate(to count: Int64) throws(Errno) {
        try retrying { ftruncate(descriptor.rawValue, off_t(count)) }
    }

    /// Waits until what was written is on the medium, where the file system has a way to.
    func synchronize() throws(Errno) {
        do {
            #if canImport(Darwin)
            // On Darwin fsync(2) leaves the data in the drive's cache.
            if fcntl(descriptor.rawValue, F_FULLFSYNC) == 0 { return }
            #endif
            try retrying { fsync(descriptor.rawValue) }
        } catch let error where error.isUnsupported {
            return
        }
    }
}

/// Makes a system call again while signals interrupt it.
///
/// - Returns: What it returned.
/// - Throws: What it failed with.
@discardableResult
func retrying(_ call: () -> CInt) throws(Errno) -> CInt {
    while true {
        let result = call()
        guard result < 0 else { return result }
        let error = Errno(rawValue: errno)
        guard error == .interrupted else { throw error }
    }
}

/// On Darwin another error than `ENOTSUP`, with the same meaning here.
private let operationNotSupported = Errno(rawValue: EOPNOTSUPP)

extension Errno {
    /// Whether the file system doesn't have the call, or not in this form.
    var isUnsupported: Bool {
        [.notSupported, operationNotSupported, .noFunction, .invalidArgument].contains(self)
    }

    /// Whether the file can't have a second name: no hard links here, none to this file, or on another file system.
    var isNoHardLink: Bool {
        isUnsupported || self == .notPermitted || self == .improperLink || self == .tooManyLinks
    }

    /// Whether it says that a name isn't there.
    var isAbsent: Bool {
        self == .noSuchFileOrDirectory || self == .notDirectory
    }
}
