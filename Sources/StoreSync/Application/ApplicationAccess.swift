import Operations
public import RemoteStorage
import ThreadSupport

/// How an operation reaches an application without registering this device.
///
/// Operations that list or remove something take it:
///
/// ```swift
/// let access = ApplicationAccess(application, backend: backend, state: state) { _ in .encrypted(password) }
/// let list = try await supervisor.add(DocumentListOperation(access)).value
/// ```
public struct ApplicationAccess: Sendable {
    /// The application.
    public let application: RemoteIdentifier
    let backend: any RemoteBackend
    let state: StateDirectory
    private let delegate: ApplicationRegistrationOperation.Delegate

    /// Names an application.
    ///
    /// - Parameters:
    ///   - application: The application.
    ///   - backend: The remote storage.
    ///   - state: This device's memory.
    ///   - delegate: Is asked for the password of an encrypted application whose keys this device doesn't have.
    public init(
        _ application: RemoteIdentifier,
        backend: any RemoteBackend,
        state: StateDirectory,
        delegate: ApplicationRegistrationOperation.Delegate? = nil
    ) {
        self.application = application
        self.backend = backend
        self.state = state
        self.delegate = delegate ?? { _ in throw StoreSyncError.passwordRequired(application) }
    }

    var hierarchy: ApplicationHierarchy { ApplicationHierarchy(application) }
    var key: ApplicationKey { ApplicationKey(backend, application) }
    var unlocking: ApplicationUnlocking { ApplicationUnlocking(hierarchy, backend, state, delegate: delegate) }
    var missing: StoreSyncError { .applicationMissing(application, at: backend.identity) }

    /// The error of a document that the application doesn't have.
    func documentNotFound(_ document: RemoteIdentifier) -> StoreSyncError {
        StoreSyncError(
            .documentNotFound,
            "\(application) has no document \(document). storesync list documents lists its documents."
        )
    }

    func key(_ document: RemoteIdentifier) -> DocumentKey { DocumentKey(application: key, document: document.rawValue) }

    /// Returns the seal of the application's files without changing this device's memory.
    ///
    /// - Throws: ``StoreSyncError/Code/applicationMissing``, and the errors of opening an application.
    func seal(_ context: OperationContext) async throws -> ApplicationSeal {
        async let exists = backend.applicationRegistrationHooks.applicationDirectoryExists(hierarchy)
        let remembered = try await unlocking.fetch(context)
        guard try await exists else { throw missing }
        return try await unlocking.seal(remembered, context)
    }

    /// Returns the seal for an operation that removes something, unless this client was removed from the application.
    ///
    /// - Throws: ``StoreSyncError/Code/deregistered``, and the errors of ``seal(_:)``.
    func sealForRemoval(_ context: OperationContext) async throws -> ApplicationSeal {
        let seal = try await seal(context)
        try await unlocking.refuseRemovedClient(seal, context)
        return seal
    }
}
