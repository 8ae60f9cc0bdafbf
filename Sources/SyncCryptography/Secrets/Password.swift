import Foundation

/// A password as a person gave it.
///
/// It's UTF-8 in Normalization Form C, so that the same password typed on another system is the same bytes; not empty; and without
/// the line end that editors put at the end of a file, one at most. Nothing else is taken off or changed: spaces count.
///
/// A `String` that it's made from stays in memory for as long as Swift likes. Where that matters, give bytes and overwrite
/// them.
public struct Password: Sendable, Equatable {
    /// How many bytes a password may have, before and after normalization: 64 KiB.
    public static let mostBytes = 1 << 16

    let bytes: SecretBytes
    /// What hashing it costs whatever is asked for: tests that aren't about hashing do it thousands of times.
    package var cost: PasswordParameters?

    /// Takes a password.
    ///
    /// - Parameter text: The password; one line end at its end is dropped.
    /// - Throws: ``CryptographyError/Code/invalidPassword`` for one that is empty, too long, or has dozens of combining marks in
    ///   a row.
    public init(_ text: String) throws(CryptographyError) {
        // A line end of two characters is one `Character`.
        let line = text.last == "\n" || text.last == "\r\n" ? text.dropLast() : text[...]
        // Before it's normalized, so that what isn't a password takes no time.
        guard line.utf8.count <= Self.mostBytes else { throw .tooLongPassword }
        let normalized = line.precomposedStringWithCanonicalMapping
        guard normalized.utf8.count <= Self.mostBytes else { throw .tooLongPassword }
        guard !normalized.isEmpty else {
            throw CryptographyError(.invalidPassword, "The password is empty. Give one of at least one character.")
        }
        // On Linux, Foundation cuts a hundred combining marks in a row off after 64, so that different passwords would be
        // the same. The standard library compares by what the normal form must be.
        guard normalized == line else {
            throw CryptographyError(
                .invalidPassword,
                "The password has too many accents on one letter. Take another one."
            )
        }
        bytes = SecretBytes(copying: normalized.utf8)
    }

    /// Takes a password that comes as bytes, from a file for example.
    ///
    /// - Parameter bytes: The password in UTF-8; one line end at its end is dropped.
    /// - Throws: ``CryptographyError/Code/invalidPassword`` for one that isn't UTF-8, and what ``init(_:)`` refuses.
    public init(utf8 bytes: some Sequence<UInt8>) throws(CryptographyError) {
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw CryptographyError(.invalidPassword, "The password isn't UTF-8. Save it as UTF-8.")
        }
        try self.init(text)
    }
}

extension Password {
    /// The password in the clear, for a message that has to carry it.
    package var revealed: String { bytes.withBytes { String(decoding: $0, as: UTF8.self) } }
}

extension CryptographyError {
    fileprivate static let tooLongPassword = CryptographyError(
        .invalidPassword,
        "What was given for a password has more than \(Password.mostBytes) bytes. Make sure that it's the right file."
    )
}

extension Password: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// Says nothing of it, not even how long it is.
    public var description: String { "<a password>" }

    /// Says nothing of it.
    public var debugDescription: String { description }

    /// Has no children: `dump` shows nothing.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
