import Foundation
import Operations
import RemoteStorage
import StoreSync
import SyncCryptography
import ThreadSupport

/// A delegate that records what it's asked and told, and does what a test wants when a store is replaced.
@MainActor final class AppDelegate: ApplicationSyncDelegate {
    /// What the delegate was told about a store.
    enum Event: Equatable, Sendable {
        case willReplace
        case didReplace(Bool)
    }

    nonisolated let events = Locked<[Event]>([])
    nonisolated let questions = Locked<[EncryptionQuestion]>([])
    private let password: Password?
    private let onReplacement: @Sendable (Event, URL) async throws -> Void

    init(
        _ password: Password? = nil,
        onReplacement: @escaping @Sendable (Event, URL) async throws -> Void = { _, _ in }
    ) {
        self.password = password
        self.onReplacement = onReplacement
    }

    func decideEncryption(
        _ question: EncryptionQuestion,
        of application: RemoteIdentifier
    ) async throws -> EncryptionDecision {
        questions.withLock { $0.append(question) }
        return password.map { .encrypted($0) } ?? .unencrypted
    }

    func willReplaceStore(at url: URL, of document: RemoteIdentifier) async throws {
        events.withLock { $0.append(.willReplace) }
        try await onReplacement(.willReplace, url)
    }

    func didReplaceStore(at url: URL, of document: RemoteIdentifier, isReplaced: Bool) async {
        events.withLock { $0.append(.didReplace(isReplaced)) }
        try? await onReplacement(.didReplace(isReplaced), url)
    }
}

extension Device {
    /// A manager of the device's application.
    func manager(
        _ delegate: any ApplicationSyncDelegate,
        userInfo: [String: PropertyListValue] = [:],
        on supervisor: OperationSupervisor? = nil,
        over backend: (any RemoteBackend)? = nil
    ) -> ApplicationSyncManager {
        ApplicationSyncManager(
            application: application,
            clientDescription: name,
            userInfo: userInfo,
            backend: backend ?? self.backend,
            state: state,
            supervisor: supervisor ?? self.supervisor,
            delegate: delegate
        )
    }

    /// Captures what the user changed, and returns how many changes that are.
    @discardableResult
    func recordChanges(over backend: (any RemoteBackend)? = nil) async throws -> Int {
        let delegate = await AppDelegate()
        return try await manager(delegate, over: backend).document(document).recordChanges(ofStoreAt: store)
    }
}
