public import RemoteStorage

/// One promise of ``/RemoteStorage/RemoteBackend``, and how it is tested.
///
/// ``all`` is the conformance suite. A backend's tests adopt it in one line; with Swift Testing:
///
/// ```swift
/// @Test(arguments: BackendCheck.all)
/// func keepsItsPromises(check: BackendCheck) async throws { try await check.run(on: MyBackend()) }
/// ```
///
/// Each run needs an empty place of its own. What a backend claims by ``/RemoteStorage/RemoteBackend/capabilities()`` is tested as hard as
/// can be; what it doesn't claim it has to do right as long as nobody interferes, or to refuse with
/// ``/RemoteStorage/RemoteError/lacks(_:at:)``.
public struct BackendCheck: Sendable, Hashable, CustomStringConvertible {
    /// How much is tried where more finds more.
    public struct Effort: Sendable {
        /// How often a race is run.
        public var rounds: Int
        /// How many requests race each other.
        public var racers: Int
        /// How many files the long list has.
        public var listedFiles: Int

        /// Creates an effort.
        public init(rounds: Int = 20, racers: Int = 8, listedFiles: Int = 3000) {
            self.rounds = rounds
            self.racers = racers
            self.listedFiles = listedFiles
        }
    }

    /// What is promised, in a sentence.
    public let promise: String
    private let body: @Sendable (BackendTrial) async throws -> Void

    init(_ promise: String, _ body: @escaping @Sendable (BackendTrial) async throws -> Void) {
        self.promise = promise
        self.body = body
    }

    /// Tests the promise.
    ///
    /// - Parameters:
    ///   - backend: The backend, with nothing in it. What is left in it afterwards isn't cleaned up.
    ///   - effort: How much is tried.
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

    /// Two checks are the same when they promise the same.
    public static func == (left: BackendCheck, right: BackendCheck) -> Bool { left.promise == right.promise }

    /// Hashes the promise.
    public func hash(into hasher: inout Hasher) { hasher.combine(promise) }
}

/// A promise that a backend doesn't keep.
public struct BrokenPromise: Error, Sendable, CustomStringConvertible {
    /// What ``/RemoteStorage/RemoteBackend`` promises.
    public let promise: String
    /// What was seen instead.
    public let violation: String

    /// Both.
    public var description: String { "A backend must keep this promise: \(promise)\nIt didn't: \(violation)." }
}
