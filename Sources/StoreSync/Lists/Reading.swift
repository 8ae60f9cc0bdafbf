import RemoteStorage

/// The content of a small file, or why it can't be read; neither if the file doesn't exist.
struct Reading<Value: Sendable>: Sendable {
    var value: Value?
    var unreadable: ApplicationStatus.Unreadable?

    /// Reads a file; errors of its content are the result, and errors of the storage are thrown.
    static func of(
        _ path: RemotePath,
        _ fetch: @Sendable () async throws -> [UInt8]?,
        _ parse: @Sendable ([UInt8]) throws(StoreSyncError) -> Value
    ) async throws -> Reading {
        do {
            guard let bytes = try await fetch() else { return Reading() }
            return Reading(value: try parse(bytes))
        } catch let error as StoreSyncError {
            return Reading(unreadable: ApplicationStatus.Unreadable(error, at: path))
        }
    }
}
