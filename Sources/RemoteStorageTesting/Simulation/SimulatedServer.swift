public import RemoteStorage

/// A kind of storage: its guarantees and faults, as observed on real servers.
///
/// A careful backend can claim the capabilities for this storage. No backend can prevent the faults.
public struct SimulatedServer: Sendable, Hashable, CustomStringConvertible {
    /// The server's name.
    public let name: String
    /// The capabilities that a backend can claim for this server.
    public let capabilities: RemoteCapabilities
    /// Whether a directory is moved in one step, not file by file.
    public let movesAtOnce: Bool
    /// Whether lists and files may be stale for some moments.
    public let isEventual: Bool

    /// Creates a kind of storage.
    public init(_ name: String, _ capabilities: RemoteCapabilities, movesAtOnce: Bool = true, isEventual: Bool = false)
    {
        self.name = name
        self.capabilities = capabilities
        self.movesAtOnce = movesAtOnce
        self.isEventual = isEventual
    }

    /// The server's name.
    public var description: String { name }

    /// Returns the server's typical faults, with a probability.
    public func faults(_ chance: Double) -> FaultModel {
        var model = FaultModel.network(chance)
        model.duplicateDelivery = chance
        if isEventual {
            model.staleListing = 4 * chance
            model.lateVisibility = chance
        }
        if !capabilities.contains(.atomicReplace) { model.tornWrite = chance }
        if !capabilities.contains(.consistentRead) { model.lateOpening = chance }
        return model
    }

    private static let shared: RemoteCapabilities = [.exclusiveCreate, .rangedRead]
    private static let s3: RemoteCapabilities = [.atomicReplace, .consistentRead, .serverSideCopy, .rangedRead]

    /// Apache's mod_dav: no condition is safe in a race, and PUT is atomic.
    ///
    /// A read during a replacement may return the new version, cut to the length of the former one.
    public static let apache = SimulatedServer("apache2", shared.union([.exclusiveDirectoryMove, .atomicReplace]))
    /// lighttpd's mod_webdav: strong entity tags, and conditions that hold.
    public static let lighttpd = SimulatedServer(
        "lighttpd",
        shared.union([.exclusiveDirectoryMove, .atomicReplace, .consistentRead, .conditionalReplace])
    )
    /// nginx: ignores conditions, PUT is atomic.
    public static let nginx = SimulatedServer(
        "nginx",
        shared.union([.exclusiveDirectoryMove, .atomicReplace, .consistentRead])
    )
    /// `rclone serve webdav`: ignores conditions, and a read during a write sees a partial file.
    public static let rclone = SimulatedServer("rclone", shared.union(.exclusiveDirectoryMove))
    /// WsgiDAV: a read during a write sees a partial file.
    public static let wsgiDAV = SimulatedServer("wsgidav", shared.union(.exclusiveDirectoryMove))
    /// SeaweedFS through its S3 API: conditions hold, directories can't be moved in one step.
    public static let seaweedFS = SimulatedServer(
        "SeaweedFS",
        s3.union([.exclusiveCreate, .conditionalReplace]),
        movesAtOnce: false
    )
    /// moto: an S3 for tests.
    public static let moto = SimulatedServer(
        "moto",
        s3.union([.exclusiveCreate, .conditionalReplace]),
        movesAtOnce: false
    )
    /// OpenStack Swift through its s3api: answers 501 to conditions, and lists are stale.
    public static let swiftS3 = SimulatedServer("Swift s3api", s3, movesAtOnce: false, isEventual: true)
    /// Ceph's RGW: creates exclusively, and rejects every condition on a version.
    public static let ceph = SimulatedServer("Ceph RGW", s3.union(.exclusiveCreate), movesAtOnce: false)
    /// AWS S3, as documented: consistent, with conditions.
    public static let aws = SimulatedServer(
        "AWS S3",
        s3.union([.exclusiveCreate, .conditionalReplace]),
        movesAtOnce: false
    )
    /// A folder that a program synchronizes, or an early S3: writes become visible later.
    public static let eventual = SimulatedServer(
        "eventual",
        s3.union([.exclusiveCreate, .conditionalReplace]),
        movesAtOnce: false,
        isEventual: true
    )

    /// All kinds.
    public static let all = [
        apache, lighttpd, nginx, rclone, wsgiDAV, seaweedFS, moto, swiftS3, ceph, aws, eventual,
    ]
}
