public import Operations
import RemoteStorage

extension ApplicationSyncManager {
    /// What the manager is busy with: its operations that haven't ended, the oldest first.
    ///
    /// ```swift
    /// for operation in manager.activity { print(operation.name, operation.explain()) }
    /// ```
    ///
    /// It contains the operations of every manager of the same application, remote and supervisor. An operation with a
    /// coalescing key is listed once, with an identifier that none of its handles has.
    public var activity: [any OperationReference] {
        supervisor.operations.filter { !$0.isJoined && $0.userInfo[Self.applicationInfo] as? ApplicationKey == key }
    }

    /// The operations of one document that haven't ended.
    func activity(of document: RemoteIdentifier) -> [any OperationReference] {
        activity.filter { $0.userInfo[Self.documentInfo] as? RemoteIdentifier == document }
    }

    /// The user info that says to which application an operation belongs.
    private static let applicationInfo = "storesync.application"
    /// The user info that says to which document an operation belongs.
    private static let documentInfo = "storesync.document"

    /// The options of an operation: the caller's, with what the manager sets itself.
    ///
    /// - Parameters:
    ///   - given: The caller's options.
    ///   - document: The document, for an operation on one.
    ///   - subjects: What the operation locks: operations that lock the same wait for each other.
    /// - Returns: The options to add the operation with.
    func options(
        _ given: OperationOptions?,
        of document: RemoteIdentifier? = nil,
        locking subjects: [FileLock.Subject] = []
    ) -> OperationOptions {
        var options = given ?? OperationOptions()
        options.clientIdentifier = options.clientIdentifier ?? state.knownClient(of: key)
        options.retry = options.retry ?? retry
        options.keys.formUnion(subjects.map(\.exclusionKey))
        options.userInfo[Self.applicationInfo] = key
        if let document { options.userInfo[Self.documentInfo] = document }
        return options
    }

    /// The options of a step before the operation that the caller asked for.
    func options(ofStepBefore given: OperationOptions?, of document: RemoteIdentifier? = nil) -> OperationOptions {
        var options = options(given, of: document)
        options.name = nil
        options.coalescingKey = nil
        options.progressUnitCount = OperationOptions().progressUnitCount
        return options
    }

    /// The options of a registration of the application.
    ///
    /// On a device that isn't a client yet, registrations wait for each other, so that only the first one asks the
    /// delegate. A registration that waits for the caller's operations is left out: the others would have to wait for
    /// these operations too, and would never start if one of these awaits them.
    func options(
        ofRegistration given: OperationOptions?,
        after dependencies: [any OperationReference]
    ) -> OperationOptions {
        let isFirst = state.knownClient(of: key) == nil && dependencies.isEmpty
        return options(given, locking: isFirst ? [.application(key)] : [])
    }

    func documentKey(_ document: RemoteIdentifier) -> DocumentKey {
        DocumentKey(application: key, document: document.rawValue)
    }
}

extension OperationHandle {
    /// Cancels a step that only this operation needs, once this operation has ended, for whatever reason.
    func cancelling(_ step: any OperationReference) -> Self {
        whenEnded { _ in step.cancel() }
        return self
    }
}
