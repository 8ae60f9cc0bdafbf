import Operations
import ThreadSupport

/// The uploads that operations of this process may have published.
///
/// A later attempt of an operation, perhaps with another instance, recognizes its own upload. Of each document only the last
/// operation's uploads are kept, because operations that fail make no further attempt.
struct BegunUploads: Sendable {
    private let uploads = Locked<[DocumentKey: (operation: OperationID, warnings: [UploadName: [String]])]>([:])

    /// Remembers that an operation is about to publish an upload.
    ///
    /// - Parameters:
    ///   - name: The upload.
    ///   - document: The document.
    ///   - operation: The operation.
    ///   - warnings: The warnings about what the upload replaces.
    func note(_ name: UploadName, of document: DocumentKey, by operation: OperationID, _ warnings: [String]) {
        uploads.withLock { uploads in
            let former = uploads[document].flatMap { $0.operation == operation ? $0.warnings : nil } ?? [:]
            uploads[document] = (operation, former.merging([name: warnings]) { $1 })
        }
    }

    /// The warnings about an upload that an operation has begun to publish; `nil` if it hasn't.
    func warnings(about name: UploadName, of document: DocumentKey, by operation: OperationID) -> [String]? {
        uploads.withLock { $0[document].flatMap { $0.operation == operation ? $0.warnings[name] : nil } }
    }

    /// Forgets the uploads of an operation, which makes no further attempt.
    func forgetUploads(of document: DocumentKey, by operation: OperationID) {
        uploads.withLock { if $0[document]?.operation == operation { $0[document] = nil } }
    }
}
