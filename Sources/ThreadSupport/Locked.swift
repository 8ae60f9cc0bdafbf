#if canImport(Darwin)
public import Darwin
#else
public import Glibc
#endif

/// A value that is read and changed under a lock.
///
/// Use it where many threads contend for one lock: `Synchronization.Mutex` spins there (18 to 26 µs a lock with eight
/// threads on two cores, against 0.2 µs) and ThreadSanitizer can't see it. Keep the body short, call no foreign code in it,
/// and resume continuations after it.
public struct Locked<Value>: @unchecked Sendable {
    // Sendable: the value is touched only between lock and unlock, and `withLock` hands values over as `sending`.
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
        return try body(&box.value.pointee)
    }

    @usableFromInline
    final class Box {
        /// Behind a pointer, to avoid the runtime's check for exclusive access, which the lock already guarantees.
        @usableFromInline let value: UnsafeMutablePointer<Value>
        @usableFromInline let mutex: UnsafeMutablePointer<NativeLock>

        @usableFromInline
        init(_ value: sending Value) {
            self.value = .allocate(capacity: 1)
            self.value.initialize(to: value)
            mutex = .allocate(capacity: 1)
            mutex.initialize(to: NativeLock())
            #if !canImport(Darwin)
            // An adaptive mutex spins briefly before it sleeps: critical sections are short, and sleeping costs two
            // context switches.
            var attributes = pthread_mutexattr_t()
            pthread_mutexattr_init(&attributes)
            pthread_mutexattr_settype(&attributes, CInt(PTHREAD_MUTEX_ADAPTIVE_NP))
            defer { pthread_mutexattr_destroy(&attributes) }
            let status = pthread_mutex_init(mutex, &attributes)
            precondition(status == 0, "pthread_mutex_init failed with \(status)")
            #endif
        }

        deinit {
            #if !canImport(Darwin)
            pthread_mutex_destroy(mutex)
            #endif
            mutex.deinitialize(count: 1)
            mutex.deallocate()
            value.deinitialize(count: 1)
            value.deallocate()
        }

        @inlinable
        func lock() {
            #if canImport(Darwin)
            os_unfair_lock_lock(mutex)
            #else
            pthread_mutex_lock(mutex)
            #endif
        }

        @inlinable
        func unlock() {
            #if canImport(Darwin)
            os_unfair_lock_unlock(mutex)
            #else
            pthread_mutex_unlock(mutex)
            #endif
        }
    }
}

#if canImport(Darwin)
@usableFromInline typealias NativeLock = os_unfair_lock
#else
@usableFromInline typealias NativeLock = pthread_mutex_t
#endif
