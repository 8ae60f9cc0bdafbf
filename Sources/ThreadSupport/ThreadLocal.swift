#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// A thread-local reference to an object.
///
/// Use it for objects that synchronous code can't get as a parameter, mainly in hooks of Swift's runtime. Use a `TaskLocal`
/// for values that belong to a task.
package struct ThreadLocal<Object: AnyObject & Sendable>: Sendable {
    private let key: pthread_key_t

    /// Creates a slot that is empty on every thread.
    package init() {
        var key = pthread_key_t()
        let status = pthread_key_create(&key, nil)
        precondition(status == 0, "pthread_key_create failed with \(status)")
        self.key = key
    }

    /// The current thread's object.
    package var current: Object? {
        pthread_getspecific(key).map { Unmanaged<Object>.fromOpaque($0).takeUnretainedValue() }
    }

    /// Runs `body` with `object` as the current thread's object, then restores the previous one.
    package func withValue<Result, Failure: Error>(
        _ object: Object,
        _ body: () throws(Failure) -> Result
    ) throws(Failure) -> Result {
        let former = pthread_getspecific(key)
        pthread_setspecific(key, Unmanaged.passUnretained(object).toOpaque())
        defer { pthread_setspecific(key, former) }
        return try withExtendedLifetime(object, body)
    }
}
