/// What a sealed file is, and of whom: it opens as nothing else.
///
/// The context isn't written into the file. Whoever opens one says what it must be, by the place where it was found; so a
/// file that the storage moved, exchanged or put back in another's place doesn't open.
public struct SealedContext: Hashable, Sendable {
    /// The application's identifier.
    public var application: String
    /// The document's identifier, for what belongs to one.
    public var document: String?
    /// Tells the document from one that was made anew under the same name, for what is inside of one.
    public var integrityKey: String?
    /// The identifier of the client whose file it is, for what belongs to one.
    public var client: String?
    /// What kind of file it is; every kind has its own word.
    public var role: String
    /// The generation of the upload that it's part of.
    public var generation: UInt64?
    /// The identifier of the upload that it's part of.
    public var upload: String?

    /// Creates a context.
    ///
    /// An empty string is the same as none.
    public init(
        application: String,
        role: String,
        document: String? = nil,
        integrityKey: String? = nil,
        client: String? = nil,
        generation: UInt64? = nil,
        upload: String? = nil
    ) {
        self.application = application
        self.document = document
        self.integrityKey = integrityKey
        self.client = client
        self.role = role
        self.generation = generation
        self.upload = upload
    }

    /// The fields in their fixed order, each with its length before it; what isn't there has length 0.
    var encoded: [UInt8] {
        func field(_ text: String?) -> [UInt8] { lengthPrefixed(Array((text ?? "").utf8)) }
        return field(application) + field(document) + field(integrityKey) + field(client) + field(role)
            + lengthPrefixed(generation?.littleEndianBytes ?? []) + field(upload)
    }
}
