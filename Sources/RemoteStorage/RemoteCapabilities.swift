/// What a storage guarantees, or does cheaply.
///
/// Every request works without capabilities, as its documentation says. Operations choose their recipe by the
/// capabilities, or refuse. A backend names only guarantees that hold under concurrent requests of many clients.
public struct RemoteCapabilities: OptionSet, Hashable, Sendable, CustomStringConvertible {
    /// One bit for each capability.
    public let rawValue: UInt32

    /// Creates a set from its bits.
    public init(rawValue: UInt32) {
        self.rawValue = rawValue
    }

    /// If several clients create a file at the same time, exactly one succeeds.
    ///
    /// Without it, ``WriteCondition/ifAbsent`` may succeed for several clients.
    public static let exclusiveCreate = RemoteCapabilities(rawValue: 1 << 0)
    /// If several clients move a directory to one name at the same time, exactly one succeeds.
    ///
    /// Without it, the move may succeed for several clients.
    public static let exclusiveDirectoryMove = RemoteCapabilities(rawValue: 1 << 1)
    /// A reader of a file that is being replaced sees the old or the new version.
    ///
    /// Without it, the reader may see no file or a mixture of both versions.
    public static let atomicReplace = RemoteCapabilities(rawValue: 1 << 2)
    /// No client can change a file between the comparison of ``WriteCondition/ifMatches(_:)`` and the replacement.
    public static let conditionalReplace = RemoteCapabilities(rawValue: 1 << 3)
    /// A copy doesn't pass through this device.
    public static let serverSideCopy = RemoteCapabilities(rawValue: 1 << 4)
    /// Only the requested range is transferred.
    public static let rangedRead = RemoteCapabilities(rawValue: 1 << 5)
    /// A repeated write resumes where the interrupted one stopped, or a few megabytes before that.
    public static let resumableWrite = RemoteCapabilities(rawValue: 1 << 6)
    /// A reader of a file gets one version of it, or an error, even if it is replaced at that moment.
    ///
    /// Without it, the reader may get the beginning of the new version, cut to the length of the old version.
    /// ``RemoteBackend/bytes(at:upTo:)`` returns one version nevertheless.
    public static let consistentRead = RemoteCapabilities(rawValue: 1 << 7)

    /// A file keeps its tag until it is written again: another tag means another file.
    ///
    /// Without it, a tag may change although the file doesn't.
    public static let contentTags = RemoteCapabilities(rawValue: 1 << 8)

    /// All of them.
    public static let all = RemoteCapabilities(namesByBit.map(\.capability))

    /// The names of the capabilities in the set, such as `exclusiveCreate`, in the order of their declaration.
    public var names: [String] {
        Self.namesByBit.filter { contains($0.capability) }.map(\.name)
    }

    /// The names separated by commas; `none` for the empty set.
    public var description: String {
        isEmpty ? "none" : names.joined(separator: ", ")
    }

    private static let namesByBit: [(capability: RemoteCapabilities, name: String)] = [
        (.exclusiveCreate, "exclusiveCreate"), (.exclusiveDirectoryMove, "exclusiveDirectoryMove"),
        (.atomicReplace, "atomicReplace"), (.conditionalReplace, "conditionalReplace"),
        (.serverSideCopy, "serverSideCopy"), (.rangedRead, "rangedRead"), (.resumableWrite, "resumableWrite"),
        (.consistentRead, "consistentRead"), (.contentTags, "contentTags"),
    ]
}
