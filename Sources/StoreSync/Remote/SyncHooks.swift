public import RemoteStorage

/// The base of all hook protocols: the backend that the hooks work on.
///
/// A *hook* is one step of an operation on the remote. TICoreDataSync's subclasses had to write each of them. Here
/// every backend has default hooks, built on its file primitives. A backend that can do a step better (one request
/// instead of six) conforms to the operation's hook protocol and implements that hook:
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
/// A hook returns its answer, and throws what the backend throws: mainly `RemoteError`, and `CancellationError` if its task is
/// cancelled. A default hook that reads a small file throws ``StoreSyncError/Code/corrupt`` if the file is far too large, but a
/// note on something that was removed is then empty. Exceptions are named at the hook.
public protocol SyncHooks: Sendable {
    /// The backend that the hooks work on.
    var backend: any RemoteBackend { get }
}

/// The default hooks, built on the file primitives of any backend.
///
/// A backend that does more than the default in one step forwards to them:
///
/// ```swift
/// extension MyServer: WholeStoreUploadHooks {
///     nonisolated var backend: any RemoteBackend { self }
///
///     func publishManifest(_ bytes: [UInt8], at path: RemotePath) async throws -> Bool {
///         let isPublished = try await DefaultHooks(backend: self).publishManifest(bytes, at: path)
///         if isPublished { try await notifySubscribers(of: path) }
///         return isPublished
///     }
/// }
/// ```
public struct DefaultHooks: ApplicationRegistrationHooks, DocumentRegistrationHooks, WholeStoreUploadHooks,
    WholeStoreDownloadHooks, KeychainSynchronizationHooks, VerificationHooks, RecentSyncHooks, DocumentRemovalHooks,
    ApplicationRemovalHooks, ApplicationReplacementHooks, SynchronizationHooks
{
    /// The backend that the hooks work on.
    public let backend: any RemoteBackend

    /// Creates the default hooks of a backend.
    public init(backend: any RemoteBackend) {
        self.backend = backend
    }
}

extension RemoteBackend {
    /// The backend's own hooks for registering applications if it has them, otherwise the default hooks.
    nonisolated var applicationRegistrationHooks: any ApplicationRegistrationHooks {
        self as? any ApplicationRegistrationHooks ?? DefaultHooks(backend: self)
    }

    /// The backend's own hooks for replacing applications if it has them, otherwise the default hooks.
    nonisolated var applicationReplacementHooks: any ApplicationReplacementHooks {
        self as? any ApplicationReplacementHooks ?? DefaultHooks(backend: self)
    }

    /// The backend's own hooks for registering documents if it has them, otherwise the default hooks.
    nonisolated var documentRegistrationHooks: any DocumentRegistrationHooks {
        self as? any DocumentRegistrationHooks ?? DefaultHooks(backend: self)
    }

    /// The backend's own hooks for uploading stores if it has them, otherwise the default hooks.
    nonisolated var wholeStoreUploadHooks: any WholeStoreUploadHooks {
        self as? any WholeStoreUploadHooks ?? DefaultHooks(backend: self)
    }

    /// The backend's own hooks for downloading stores if it has them, otherwise the default hooks.
    nonisolated var wholeStoreDownloadHooks: any WholeStoreDownloadHooks {
        self as? any WholeStoreDownloadHooks ?? DefaultHooks(backend: self)
    }

    /// The backend's own hooks for the times of last pushes and pulls if it has them, otherwise the default hooks.
    nonisolated var recentSyncHooks: any RecentSyncHooks {
        self as? any RecentSyncHooks ?? DefaultHooks(backend: self)
    }

    /// The backend's own hooks for removing documents if it has them, otherwise the default hooks.
    nonisolated var documentRemovalHooks: any DocumentRemovalHooks {
        self as? any DocumentRemovalHooks ?? DefaultHooks(backend: self)
    }

    /// The backend's own hooks for removing applications if it has them, otherwise the default hooks.
    nonisolated var applicationRemovalHooks: any ApplicationRemovalHooks {
        self as? any ApplicationRemovalHooks ?? DefaultHooks(backend: self)
    }

    /// The backend's own hooks for verifying applications if it has them, otherwise the default hooks.
    nonisolated var verificationHooks: any VerificationHooks {
        self as? any VerificationHooks ?? DefaultHooks(backend: self)
    }

    /// The backend's own hooks for synchronizing records if it has them, otherwise the default hooks.
    nonisolated var synchronizationHooks: any SynchronizationHooks {
        self as? any SynchronizationHooks ?? DefaultHooks(backend: self)
    }

    /// The backend's own hooks for synchronizing keychains if it has them, otherwise the default hooks.
    nonisolated var keychainSynchronizationHooks: any KeychainSynchronizationHooks {
        self as? any KeychainSynchronizationHooks ?? DefaultHooks(backend: self)
    }
}
