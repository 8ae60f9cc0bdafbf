#if canImport(Darwin)
public import Darwin
#else
public import Glibc
#endif

/// A reference to a value that is read and changed under a lock: copies share the value.
///
/// The lock isn't recursive: don't lock it again in the body.
///
/// Use it where many threads contend for one lock: `Synchronization.Mutex` spins there (18 to 26 µs a lock with eight
/// threads on two cores, against 0.2 µs) and ThreadSanitizer can't see it. Keep the body short, call no foreign code in it,
/// and resume continuations after it.
public struct Locked<Value>: @unchecked Sendable {
    // Sendable: once shared, the value is touched only between lock and unlock, and `withLock` hands values over as `sending`.
    @usableFromInline let box: Box

    /// Creates a lock around `value`.
    @inlinable
    public init(_ value: sending Value) {
        box = Box(value)
    }

    /// Runs `body` with the value, holding the lock.
    @inlinable
    public func withLock<Result, Failure: Error>(
        _ body: (inout sending Value) throws(Failure) -> sending Result
    ) throws(Failure) -> sending Result {
        box.lock()
        defer { box.unlock() }
        return try body(&box.storage.pointee.value)
    }

    /// The lock is beside the value, because the next holder then often gets both with one cache line.
    @usableFromInline
    struct Storage {
        @usableFromInline var mutex: NativeLock
        @usableFromInline var value: Value
    }

    @usableFromInline
    final class Box {
        /// Behind a pointer, because a lock needs an address of its own, and to avoid the runtime's check for exclusive
        /// access, which the lock already guarantees.
        @usableFromInline let storage: UnsafeMutablePointer<Storage>

        @usableFromInline
        init(_ value: sending Value) {
            storage = .allocate(capacity: 1)
            storage.initialize(to: Storage(mutex: NativeLock(), value: value))
            #if !canImport(Darwin)
            // An adaptive mutex spins briefly before it sleeps: critical sections are short, and sleeping costs two
            // context switches.
            var attributes = pthread_mutexattr_t()
            pthread_mutexattr_init(&attributes)
            pthread_mutexattr_settype(&attributes, CInt(PTHREAD_MUTEX_ADAPTIVE_NP))
            defer { pthread_mutexattr_destroy(&attributes) }
            let status = pthread_mutex_init(&storage.pointee.mutex, &attributes)
            precondition(status == 0, "pthread_mutex_init failed with \(status)")
            #endif
        }

        deinit {
            #if !canImport(Darwin)
            pthread_mutex_destroy(&storage.pointee.mutex)
            #endif
            storage.deinitialize(count: 1)
            storage.deallocate()
        }

        @inlinable
        func lock() {
            #if canImport(Darwin)
            os_unfair_lock_lock(&storage.pointee.mutex)
            #else
            pthread_mutex_lock(&storage.pointee.mutex)
            #endif
        }

        @inlinable
        func unlock() {
            #if canImport(Darwin)
            os_unfair_lock_unlock(&storage.pointee.mutex)
            #else
            pthread_mutex_unlock(&storage.pointee.mutex)
            #endif
        }
    }
}

#if canImport(Darwin)
@usableFromInline typealias NativeLock = os_unfair_lock
#else
@usableFromInline typealias NativeLock = pthread_mutex_t
#endif
