import Foundation
import RemoteStorage

/// `<client>.recentsync`: when a client last pushed or pulled a document, under TICoreDataSync's key.
struct RecentSync: Hashable, Sendable {
    /// The time, by the client's clock, in whole seconds.
    var date: Date

    private static let key = "kTICDSLastSyncDate"

    init(_ date: Date) { self.date = date }

    /// Reads the file.
    ///
    /// - Throws: ``StoreSyncError/Code/corrupt`` for anything but a plaintext property list with a date.
    init(_ bytes: [UInt8], at path: RemotePath) throws(StoreSyncError) {
        guard let date = try PropertyListValue.dictionary(in: bytes, at: path)[Self.key]?.date else {
            throw .corrupt(path, "\(Self.key) is missing")
        }
        self.init(date)
    }

    var xml: [UInt8] { PropertyListValue.dictionary([Self.key: .date(date)]).xml }
}

extension ApplicationSeal {
    /// Opens and reads the file of a client.
    ///
    /// - Throws: ``StoreSyncError``, which says what writes or removes a damaged file.
    func recentSync(
        _ bytes: [UInt8],
        of client: RemoteIdentifier,
        _ identity: DocumentIdentity,
        at path: RemotePath
    ) throws(StoreSyncError) -> RecentSync {
        do throws(StoreSyncError) {
            return try RecentSync(open(bytes, as: .recentSync(client, of: identity), at: path), at: path)
        } catch {
            guard [.corrupt, .tampered].contains(error.code) else { throw error }
            throw StoreSyncError(
                error.code,
                """
                \(path) on the remote is damaged, or still arriving. Client \(client)'s device writes it again when it next \
                pushes or pulls, or when it synchronizes half an hour after the last time. If the client was removed, remove \
                it again.
                """,
                cause: error
            )
        }
    }
}
