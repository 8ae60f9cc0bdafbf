import RemoteStorage
import StoreSync

/// What the results of a push and a pull have in common.
protocol StoreTransfer {
    var client: RemoteIdentifier { get }
    var generation: Int { get }
    var bytes: Int64 { get }
    var storedBytes: Int64 { get }
    var isEncrypted: Bool { get }
    var isUnchanged: Bool { get }
    var warnings: [String] { get }
}

extension WholeStoreUpload: StoreTransfer {}

extension WholeStoreDownload: StoreTransfer {}

/// The result that push and pull print.
struct TransferResult: Encodable {
    let command: String
    let application: String
    let client: String
    let document: String
    /// The client whose store was pulled.
    var from: String?
    let generation: Int
    let bytes: Int64
    let storedBytes: Int64
    let encrypted: Bool
    let seconds: Double
    let unchanged: Bool?
}

extension Session {
    /// Reports a transfer's warnings, and returns the result to print.
    func result(
        of transfer: some StoreTransfer,
        command: String,
        document: RemoteIdentifier,
        since start: ContinuousClock.Instant
    ) -> TransferResult {
        for warning in transfer.warnings { report.warning(warning) }
        return TransferResult(
            command: command,
            application: manager.application.rawValue,
            client: transfer.client.rawValue,
            document: document.rawValue,
            generation: transfer.generation,
            bytes: transfer.bytes,
            storedBytes: transfer.storedBytes,
            encrypted: transfer.isEncrypted,
            seconds: (ContinuousClock.now - start) / .seconds(1),
            unchanged: transfer.isUnchanged ? true : nil
        )
    }
}
