import ByteCoding

/// The context of a sealed file: its kind and owner, without which it doesn't open.
///
/// The context isn't written into the file. The reader derives it from the path where it found the file. So a file that the
/// storage moved, exchanged or restored at another path doesn't open.
public struct SealedContext: Hashable, Sendable {
    /// The application's identifier.
    public var application: String
    /// The document's identifier, for a file of a document.
    public var document: String?
    /// Distinguishes the document from another that was created again under the same name, for a file inside a document.
    public var integrityKey: String?
    /// The client's identifier, for a file of a client.
    public var client: String?
    /// The kind of file; each kind has its own word.
    public var role: String
    /// The generation of the upload that the file is part of.
    public var generation: UInt64?
    /// The identifier of the upload that the file is part of.
    public var upload: String?

    /// Creates a context.
    ///
    /// An empty string is equivalent to `nil`.
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

    /// The fields in their fixed order, each with its length before it; a missing field has length 0.
    var encoded: [UInt8] {
        func field(_ text: String?) -> [UInt8] { lengthPrefixed(Array((text ?? "").utf8)) }
        return field(application) + field(document) + field(integrityKey) + field(client) + field(role)
            + lengthPrefixed(generation?.littleEndianBytes ?? []) + field(upload)
    }
}
