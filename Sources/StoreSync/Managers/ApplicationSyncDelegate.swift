public import Foundation
public import RemoteStorage

/// Answers the questions that an ``ApplicationSyncManager`` can't decide.
///
/// The manager asks on the main actor, so that the delegate can show a user interface.
///
/// An answer may take long: the operation that waits is paused and blocks no other. An error that a method throws fails the
/// operation, and `CancellationError` ends it as cancelled. The methods should throw that when their task is cancelled.
@MainActor
public protocol ApplicationSyncDelegate: AnyObject, Sendable {
    /// Decides whether to encrypt a new application, gives the password of an encrypted one, or allows joining an
    /// unencrypted one.
    ///
    /// After a wrong password the question comes again, as often as the answer is wrong, and hashing each takes 256 MiB by
    /// default. So don't answer `passwordWasWrong: true` with a saved password: return what the user enters then, or throw.
    ///
    /// Until this device is a client of the application, the manager's registrations run one after the other: one answer is
    /// enough for operations that were added together. After a refusal, the next operation asks again. Operations with
    /// dependencies, and operations that don't register, such as lists, may ask at the same time. So may all operations after
    /// ``ApplicationSyncManager/forgetKeys(after:options:)``.
    func decideEncryption(
        _ question: EncryptionQuestion,
        of application: RemoteIdentifier
    ) async throws -> EncryptionDecision

    /// Whether to create a document that doesn't exist.
    ///
    /// `false` ends the registration as cancelled.
    func shouldCreate(_ document: RemoteIdentifier, in application: RemoteIdentifier) async throws -> Bool

    /// Whether to recreate a document that was deleted.
    ///
    /// `false` ends the registration as cancelled.
    func shouldRecreate(_ document: RemoteIdentifier, in application: RemoteIdentifier) async throws -> Bool

    /// Called when a download is complete and verified, and is about to replace the local store: close the store.
    ///
    /// The download waits, and fails if this throws: the store then stays as it is.
    func willReplaceStore(at url: URL, of document: RemoteIdentifier) async throws

    /// Called once after each ``willReplaceStore(at:of:)``, also if that or the download failed: open the store.
    ///
    /// - Parameters:
    ///   - url: The store.
    ///   - document: The document.
    ///   - isReplaced: Whether the store was replaced; otherwise it's the former one.
    func didReplaceStore(at url: URL, of document: RemoteIdentifier, isReplaced: Bool) async
}

extension ApplicationSyncDelegate {
    /// Returns `true`.
    public func shouldCreate(_ document: RemoteIdentifier, in application: RemoteIdentifier) async throws -> Bool {
        true
    }

    /// Returns `false`: a user deleted the document on purpose.
    public func shouldRecreate(
        _ document: RemoteIdentifier,
        in application: RemoteIdentifier
    ) async throws -> Bool { false }

    /// Does nothing.
    public func willReplaceStore(at url: URL, of document: RemoteIdentifier) async throws {}

    /// Does nothing.
    public func didReplaceStore(at url: URL, of document: RemoteIdentifier, isReplaced: Bool) async {}
}
