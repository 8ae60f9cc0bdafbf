public import RemoteStorage

/// One promise of ``/RemoteStorage/RemoteBackend``, and its test.
///
/// ``all`` is the conformance suite. A backend's tests run it in one line; with Swift Testing:
///
/// ```swift
/// @Test(arguments: BackendCheck.all)
/// func keepsItsPromises(check: BackendCheck) async throws { try await check.run(on: MyBackend()) }
/// ```
///
/// Each run needs an empty storage of its own. The check tests the capabilities that a backend claims by
/// ``/RemoteStorage/RemoteBackend/capabilities()`` under concurrent requests. Every request
/// must work without capabilities as long as no other client interferes. Only
/// ``/RemoteStorage/WriteCondition/ifMatches(_:)`` may be refused, with ``/RemoteStorage/RemoteError/lacks(_:at:)``.
public struct BackendCheck: Sendable, Hashable, CustomStringConvertible {
    /// The number of attempts in checks that find more errors with more attempts.
    public struct Effort: Sendable {
        /// The number of times that a race is run.
        public let rounds: Int
        /// The number of requests that race each other.
        public let racers: Int
        /// The number of files in the long list.
        public let listedFiles: Int

        /// Creates an effort; an invalid number counts as the nearest valid one.
        ///
        /// - Parameters:
        ///   - rounds: The number of times that a race is run, at least 1.
        ///   - racers: The number of requests that race each other, from 2 to 256.
        ///   - listedFiles: The number of files in the long list, at least 0.
        public init(rounds: Int = 20, racers: Int = 8, listedFiles: Int = 3000) {
            self.rounds = max(1, rounds)
            self.racers = min(max(2, racers), 256)
            self.listedFiles = max(0, listedFiles)
        }
    }

    /// The promise, in a sentence.
    public let promise: String
    private let body: @Sendable (BackendTrial) async throws -> Void

    init(_ promise: String, _ body: @escaping @Sendable (BackendTrial) async throws -> Void) {
        self.promise = promise
        self.body = body
    }

    /// Tests the promise.
    ///
    /// A backend in which one request waits for another one never ends some checks: give the test a time limit.
    ///
    /// - Parameters:
    ///   - backend: The backend, on an empty storage. The check doesn't remove the files that it leaves.
    ///   - effort: The number of attempts.
    /// - Throws: A ``BrokenPromise``; `CancellationError` if the task is cancelled.
    public func run(on backend: any RemoteBackend, effort: Effort = Effort()) async throws {
        do {
            try await body(BackendTrial(backend: backend, claimed: backend.capabilities(), effort: effort))
        } catch let violation as BackendTrial.Violation {
            throw BrokenPromise(promise: promise, violation: violation.words)
        } catch {
            try Task.checkCancellation()
            throw BrokenPromise(promise: promise, violation: "a request that should succeed failed: \(error)")
        }
    }

    /// The promise.
    public var description: String { promise }

    /// Two checks are equal if their promises are.
    public static func == (left: BackendCheck, right: BackendCheck) -> Bool { left.promise == right.promise }

    /// Hashes the promise.
    public func hash(into hasher: inout Hasher) { hasher.combine(promise) }
}

/// A promise that a backend doesn't keep.
public struct BrokenPromise: Error, Sendable, CustomStringConvertible {
    /// What ``/RemoteStorage/RemoteBackend`` promises.
    public let promise: String
    /// What happened instead.
    public let violation: String

    /// The promise and the violation.
    public var description: String { "A backend must keep this promise: \(promise)\nIt didn't: \(violation)." }
}
