/// What is wrong with an application on the remote: what ``VerificationOperation`` results in.
public struct VerificationReport: Sendable, Hashable {
    /// One thing that is wrong.
    public struct Problem: Sendable, Hashable {
        /// Where it is.
        public let path: String
        /// What kind it is: `corrupt`, `missing` or `unsupportedFormat`.
        public let code: String
        /// What is wrong and what to do about it.
        public let message: String
    }

    /// How many files were read.
    public internal(set) var files = 0
    /// How many bytes they have.
    public internal(set) var bytes: Int64 = 0
    /// What is wrong.
    public internal(set) var problems: [Problem] = []
    /// What is odd and does no harm.
    public internal(set) var warnings: [String] = []
    /// What was repaired or cleaned up.
    public internal(set) var repaired: [String] = []
}
