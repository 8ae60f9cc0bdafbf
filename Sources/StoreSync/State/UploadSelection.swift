import GRDB
import RemoteStorage

/// Which of this device's uploads to a document a query returns.
///
/// A device keeps the records of all its uploads, so a push that reads them all takes longer each time.
struct UploadSelection: Sendable {
    /// The end of the query, after the document's columns.
    let sql: String
    var arguments: StatementArguments = []

    /// All uploads, the oldest first.
    static let all = UploadSelection(sql: "TRUE ORDER BY generation")
    /// The upload with the highest generation, if there is any.
    static let newest = UploadSelection(sql: "TRUE ORDER BY generation DESC LIMIT 1")
    /// The published upload with the highest generation, if there is any.
    static let lastPublished = UploadSelection(sql: "isPublished ORDER BY generation DESC LIMIT 1")
    /// The uploads that aren't known to be published, the oldest first: only their records may have a store.
    static let unpublished = UploadSelection(sql: "NOT isPublished ORDER BY generation")

    /// The uploads with this generation or a higher one, the oldest first.
    static func since(generation: Int) -> UploadSelection {
        UploadSelection(sql: "generation >= ? ORDER BY generation", arguments: [generation])
    }

    /// The uploads with these names, the oldest first.
    static func named(_ names: some Sequence<UploadName>) throws -> UploadSelection {
        // By generation too, so that the index finds each.
        UploadSelection(
            sql: """
                (generation, upload) IN (SELECT value ->> 'generation', value ->> 'upload' FROM json_each(?))
                ORDER BY generation
                """,
            arguments: [try StateSchema.encode(names.map(\.reference))]
        )
    }

    /// The newest published upload of a client that isn't among `names`, if there is any.
    static func lastPublished(
        by client: RemoteIdentifier,
        besides names: Set<UploadName>
    ) throws -> UploadSelection {
        let known = names.filter { $0.client == client }.map(\.directoryName)
        return UploadSelection(
            sql: """
                isPublished AND client = ? AND generation || '-' || upload NOT IN (SELECT value FROM json_each(?))
                ORDER BY generation DESC LIMIT 1
                """,
            arguments: [client.rawValue, try StateSchema.encode(known)]
        )
    }
}
