/// An access key of a user of S3.
///
/// Descriptions never show the secret or the token.
public struct S3Credentials: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The access key's identifier, which isn't secret.
    public let accessKeyID: String
    let secretAccessKey: String
    let sessionToken: String?

    /// Creates credentials.
    ///
    /// - Parameters:
    ///   - accessKeyID: The access key's identifier.
    ///   - secretAccessKey: The secret that signs requests; it is never sent.
    ///   - sessionToken: The session token of a temporary key.
    public init(accessKeyID: String, secretAccessKey: String, sessionToken: String? = nil) {
        self.accessKeyID = accessKeyID
        self.secretAccessKey = secretAccessKey
        self.sessionToken = sessionToken
    }

    /// The key's identifier, without the secret.
    public var description: String { "\(accessKeyID), with a secret" }
    /// The key's identifier, without the secret.
    public var debugDescription: String { description }
    /// The key's identifier, without the secret.
    public var customMirror: Mirror { Mirror(self, children: ["accessKeyID": accessKeyID]) }
}
