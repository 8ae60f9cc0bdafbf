/// The problems of an application on the remote: the result of ``VerificationOperation``.
public struct VerificationReport: Sendable, Hashable {
    /// A problem of one file.
    public struct Problem: Sendable, Hashable {
        /// The file's path on the remote.
        public let path: String
        /// The kind of problem: `missing`, `unreadable` for a file that the storage refuses to read, or the name of a
        /// ``StoreSyncError/Code``, such as `corrupt` or `tampered`.
        public let code: String
        /// What is wrong and what to do about it.
        public let message: String
    }

    /// How many files were read.
    public internal(set) var files = 0
    /// How many bytes they have.
    public internal(set) var bytes: Int64 = 0
    /// The problems found.
    public internal(set) var problems: [Problem] = []
    /// Oddities that do no harm, in full sentences.
    public internal(set) var warnings: [String] = []
    /// The paths that were repaired or cleaned up.
    public internal(set) var repaired: [String] = []
}
