public import RemoteStorage

/// A kind of storage: what it guarantees and how it misbehaves, as seen on the real ones.
///
/// Capabilities are those that a careful backend can claim of it; faults are what no backend can help.
public struct SimulatedServer: Sendable, Hashable, CustomStringConvertible {
    /// What it is called.
    public let name: String
    /// What can be claimed of it.
    public let capabilities: RemoteCapabilities
    /// Whether a directory is moved in one step, not file by file.
    public let movesAtOnce: Bool
    /// Whether others see lists and files of some moments ago.
    public let isEventual: Bool

    /// Creates a kind of storage.
    public init(_ name: String, _ capabilities: RemoteCapabilities, movesAtOnce: Bool = true, isEventual: Bool = false)
    {
        self.name = name
        self.capabilities = capabilities
        self.movesAtOnce = movesAtOnce
        self.isEventual = isEventual
    }

    /// What it is called.
    public var description: String { name }

    /// Its typical faults, at a chance.
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

    /// Apache's mod_dav: no condition is safe in a race, PUT is atomic, and a file that is just being replaced is read as
    /// long as the former one was.
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
    /// `rclone serve webdav`: ignores conditions, and whoever reads during a write sees a part.
    public static let rclone = SimulatedServer("rclone", shared.union(.exclusiveDirectoryMove))
    /// WsgiDAV: whoever reads during a write sees a part.
    public static let wsgiDAV = SimulatedServer("wsgidav", shared.union(.exclusiveDirectoryMove))
    /// SeaweedFS by S3: conditions hold, directories don't move.
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
    /// OpenStack Swift by its s3api: answers 501 to conditions, and lists late.
    public static let swiftS3 = SimulatedServer("Swift s3api", s3, movesAtOnce: false, isEventual: true)
    /// Ceph's RGW: creates exclusively, and fails every condition on a version.
    public static let ceph = SimulatedServer("Ceph RGW", s3.union(.exclusiveCreate), movesAtOnce: false)
    /// AWS S3, as documented: consistent, with conditions.
    public static let aws = SimulatedServer(
        "AWS S3",
        s3.union([.exclusiveCreate, .conditionalReplace]),
        movesAtOnce: false
    )
    /// A folder that a program keeps in step, or an S3 of old: what was written shows later.
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
