public import Operations
import ThreadSupport

/// Lists an application's documents, without registering this device or changing anything.
///
/// ```swift
/// let list = try await supervisor.add(DocumentListOperation(access)).value
/// for document in list.documents { print(document.document, document.description) }
/// ```
///
/// A file that can't be read is named in ``DocumentList/unreadable``.
public actor DocumentListOperation: Operation {
    private let access: ApplicationAccess
    private let hooks: any DocumentRegistrationHooks

    /// Creates an operation.
    ///
    /// - Parameter access: The application whose documents are listed.
    public init(_ access: ApplicationAccess) {
        self.access = access
        hooks = access.backend.documentRegistrationHooks
    }

    /// Lists the documents in four rounds of requests, however many there are.
    ///
    /// - Throws: ``StoreSyncError``, among others `applicationMissing`, `passwordRequired` and `remoteUnavailable`;
    ///   `CancellationError`.
    public func main(_ context: OperationContext) async throws -> DocumentList {
        try await translatingErrors {
            async let names = hooks.listDocuments(access.hierarchy)
            async let registered = access.backend.applicationRegistrationHooks.listClients(access.hierarchy)
            let seal = try await access.seal(context)
            context.reportProgress(0.3)
            let reader = HierarchyReader(hierarchy: access.hierarchy, seal: seal, backend: access.backend)
            let clients = try await registered
            let documents = try await names.concurrentMap { try await reader.document($0, of: clients) }
            async let recentSyncs = reader.recentSyncs(of: documents)
            let deleted = try await reader.interruptedRemovals(among: documents)
            let (times, unreadable) = try await (recentSyncs.times, recentSyncs.unreadable)
            let existing = documents.filter { deleted[$0.document] == nil && $0.isRegistered }
            return DocumentList(
                application: access.application,
                documents: existing.sorted { $0.document < $1.document }.map {
                    DocumentList.Document($0, lastSyncs: times[$0.document] ?? [:])
                },
                unreadable: (documents.compactMap(\.info.unreadable) + unreadable + deleted.values)
                    .sorted { $0.path < $1.path }
            )
        }
    }
}

extension HierarchyReader.Document {
    /// Whether it has an info, readable or not: a directory without one is left over, or still arriving.
    fileprivate var isRegistered: Bool { info.value != nil || info.unreadable != nil }
}
