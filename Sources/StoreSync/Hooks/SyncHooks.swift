public import RemoteStorage

/// What all hooks have: the backend that they work on.
///
/// A *hook* is one step of an operation at the remote. TICoreDataSync's subclasses had to write each of them; here
/// every backend has them all, made of its file primitives. A backend that can do a step better (one request in place of
/// six) conforms to the operation's hook protocol and implements that one:
///
/// ```swift
/// extension MyServer: ApplicationRegistrationHooks {
///     nonisolated var backend: any RemoteBackend { self }
///
///     func createApplicationDirectoryStructure(_ hierarchy: ApplicationHierarchy) async throws {
///         try await send(.makeApplication(hierarchy.application))
///     }
/// }
/// ```
///
/// An answer is returned, an error thrown; a hook that is cancelled throws `CancellationError`.
public protocol SyncHooks: Sendable {
    /// The backend that the hooks work on.
    var backend: any RemoteBackend { get }
}

/// All hooks as they are made of any backend's file primitives.
struct DefaultHooks: ApplicationRegistrationHooks, DocumentRegistrationHooks, WholeStoreUploadHooks,
    WholeStoreDownloadHooks, KeychainSynchronizationHooks
{
    let backend: any RemoteBackend
}

extension RemoteBackend {
    /// The backend's own hooks for registering applications where it has them, else the ones every backend gets.
    nonisolated var applicationRegistrationHooks: any ApplicationRegistrationHooks {
        self as? any ApplicationRegistrationHooks ?? DefaultHooks(backend: self)
    }

    /// The backend's own hooks for registering documents where it has them, else the ones every backend gets.
    nonisolated var documentRegistrationHooks: any DocumentRegistrationHooks {
        self as? any DocumentRegistrationHooks ?? DefaultHooks(backend: self)
    }

    /// The backend's own hooks for uploading stores where it has them, else the ones every backend gets.
    nonisolated var wholeStoreUploadHooks: any WholeStoreUploadHooks {
        self as? any WholeStoreUploadHooks ?? DefaultHooks(backend: self)
    }

    /// The backend's own hooks for downloading stores where it has them, else the ones every backend gets.
    nonisolated var wholeStoreDownloadHooks: any WholeStoreDownloadHooks {
        self as? any WholeStoreDownloadHooks ?? DefaultHooks(backend: self)
    }

    /// The backend's own hooks for synchronizing keychains where it has them, else the ones every backend gets.
    nonisolated var keychainSynchronizationHooks: any KeychainSynchronizationHooks {
        self as? any KeychainSynchronizationHooks ?? DefaultHooks(backend: self)
    }
}

/// Sends requests that don't depend on each other out together and collects the answers in their order.
///
/// How many there are is often decided by the remote, so no more than `limit` are under way at a time, in their order.
@discardableResult
func together<Request: Sendable, Answer: Sendable>(
    _ requests: [Request],
    atMost limit: Int = 128,
    _ send: @escaping @Sendable (Request) async throws -> Answer
) async throws -> [Answer] {
    try await withThrowingTaskGroup(of: (Int, Answer).self) { group in
        var answers: [(Int, Answer)] = []
        for (index, request) in requests.enumerated() {
            if index >= limit, let answer = try await group.next() { answers.append(answer) }
            group.addTask { (index, try await send(request)) }
        }
        for try await answer in group { answers.append(answer) }
        return answers.sorted { $0.0 < $1.0 }.map(\.1)
    }
}
