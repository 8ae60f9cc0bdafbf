/// What a place guarantees, or does cheaply.
///
/// Every request works without them, as the documentation of each says; operations choose their recipe by them, or
/// refuse. A backend names only what it knows to hold under concurrent requests of many clients.
public struct RemoteCapabilities: OptionSet, Hashable, Sendable, CustomStringConvertible {
    /// One bit for each capability.
    public let rawValue: UInt32

    /// Creates a set from its bits.
    public init(rawValue: UInt32) {
        self.rawValue = rawValue
    }

    /// Of all that create a file at once, one wins.
    ///
    /// Without it, ``WriteCondition/ifAbsent`` may tell several that they did.
    public static let exclusiveCreate = RemoteCapabilities(rawValue: 1 << 0)
    /// Of all that move a directory to one name at once, one wins.
    ///
    /// Without it, several may be told that they did.
    public static let exclusiveDirectoryMove = RemoteCapabilities(rawValue: 1 << 1)
    /// A reader of a file that is being replaced sees the old or the new one.
    ///
    /// Without it, it may see none or a torn one.
    public static let atomicReplace = RemoteCapabilities(rawValue: 1 << 2)
    /// Nobody can change a file between the comparison of ``WriteCondition/ifMatches(_:)`` and the replacement.
    public static let conditionalReplace = RemoteCapabilities(rawValue: 1 << 3)
    /// A copy doesn't pass through this device.
    public static let serverSideCopy = RemoteCapabilities(rawValue: 1 << 4)
    /// Only the range that is asked for is transferred.
    public static let rangedRead = RemoteCapabilities(rawValue: 1 << 5)
    /// A write that was cut off goes on where it stopped when it is repeated, or a few megabytes before that.
    public static let resumableWrite = RemoteCapabilities(rawValue: 1 << 6)
    /// Files are transferred as fast as between places of this device.
    ///
    /// Without it, what is uploaded is copied first if others would have to wait for the upload.
    public static let localSpeed = RemoteCapabilities(rawValue: 1 << 7)
    /// A reader of a file gets one version of it, or an error, even if it is replaced at that moment.
    ///
    /// Without it, the reader may get the beginning of the new one, as long as the old one was.
    /// ``RemoteBackend/bytes(at:upTo:)`` sees to it nevertheless.
    public static let consistentRead = RemoteCapabilities(rawValue: 1 << 8)

    /// The tag of a file follows from what is in it: another tag is another content.
    ///
    /// Without it, a tag may change although the file doesn't.
    public static let contentTags = RemoteCapabilities(rawValue: 1 << 9)

    /// All of them.
    public static let all: RemoteCapabilities = [
        .exclusiveCreate, .exclusiveDirectoryMove, .atomicReplace, .conditionalReplace, .serverSideCopy, .rangedRead,
        .resumableWrite, .localSpeed, .consistentRead, .contentTags,
    ]

    /// The names of the capabilities in the set, such as `exclusiveCreate`, in the order of their declaration.
    public var names: [String] {
        Self.namesByBit.filter { contains($0.capability) }.map(\.name)
    }

    /// The names with commas between them; `none` where there is none.
    public var description: String {
        isEmpty ? "none" : names.joined(separator: ", ")
    }

    private static let namesByBit: [(capability: RemoteCapabilities, name: String)] = [
        (.exclusiveCreate, "exclusiveCreate"), (.exclusiveDirectoryMove, "exclusiveDirectoryMove"),
        (.atomicReplace, "atomicReplace"), (.conditionalReplace, "conditionalReplace"),
        (.serverSideCopy, "serverSideCopy"), (.rangedRead, "rangedRead"), (.resumableWrite, "resumableWrite"),
        (.localSpeed, "localSpeed"), (.consistentRead, "consistentRead"), (.contentTags, "contentTags"),
    ]
}
