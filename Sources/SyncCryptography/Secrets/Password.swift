import Foundation

/// A password that a user entered.
///
/// It's UTF-8 in Normalization Form C, so that the same password typed on another system has the same bytes. It isn't empty. One
/// line end is dropped, which editors put at the end of a file. Nothing else is removed or changed: spaces count.
///
/// It's kept in memory that is wiped. What it's created from isn't wiped, nor, if it isn't ASCII, are copies that Swift and
/// Foundation make to normalize it.
public struct Password: Sendable, Equatable {
    /// The maximum size of a password in bytes, before and after normalization: 64 KiB.
    public static let maximumBytes = 1 << 16

    let bytes: SecretBytes
    /// The cost of hashing that overrides all parameters, for tests that hash thousands of passwords.
    package var cost: PasswordParameters?

    /// Creates a password from text.
    ///
    /// - Parameter text: The password; one line end at its end is dropped.
    /// - Throws: ``CryptographyError/Code/invalidPassword`` if it's empty or too long, or has dozens of combining marks in a row.
    public init(_ text: String) throws(CryptographyError) {
        if let password = text.utf8.withContiguousStorageIfAvailable(Self.ascii) ?? nil {
            self = try password.get()
            return
        }
        // A line end of two characters is one `Character`.
        let line = text.last == "\n" || text.last == "\r\n" ? text.dropLast() : text[...]
        // Checked before normalization, which would take long for a huge text.
        guard line.utf8.count <= Self.maximumBytes else { throw .tooLongPassword }
        let normalized = line.precomposedStringWithCanonicalMapping
        guard normalized.utf8.count <= Self.maximumBytes else { throw .tooLongPassword }
        guard !normalized.isEmpty else { throw .emptyPassword }
        // On Linux, Foundation drops combining marks after 64 in a row, so that different passwords would become equal.
        // The standard library compares by the correct normal form.
        guard normalized == line else {
            throw CryptographyError(
                .invalidPassword,
                "The password has too many accents on one letter. Choose another password."
            )
        }
        bytes = SecretBytes(copying: normalized.utf8)
    }

    /// Creates a password from bytes, from a file for example.
    ///
    /// - Parameter bytes: The password in UTF-8; one line end at its end is dropped.
    /// - Throws: ``CryptographyError/Code/invalidPassword`` if it isn't UTF-8, or if ``init(_:)`` refuses it.
    public init(utf8 bytes: some Sequence<UInt8>) throws(CryptographyError) {
        if let password = bytes.withContiguousStorageIfAvailable(Self.ascii) ?? nil {
            self = try password.get()
            return
        }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw CryptographyError(.invalidPassword, "The password isn't UTF-8. Save it as UTF-8.")
        }
        try self.init(text)
    }

    /// Creates a password from ASCII, which needs no normalization, without another copy in memory.
    ///
    /// - Parameter bytes: The password; one line end at its end is dropped.
    /// - Returns: The password, or why it's refused; `nil` if the bytes aren't ASCII.
    private static func ascii(_ bytes: UnsafeBufferPointer<UInt8>) -> Result<Password, CryptographyError>? {
        guard bytes.allSatisfy({ $0 < 0x80 }) else { return nil }
        var line = bytes[...]
        if line.last == UInt8(ascii: "\n") {
            line.removeLast()
            if line.last == UInt8(ascii: "\r") { line.removeLast() }
        }
        guard !line.isEmpty else { return .failure(.emptyPassword) }
        guard line.count <= maximumBytes else { return .failure(.tooLongPassword) }
        return .success(Password(bytes: SecretBytes(copying: line)))
    }

    private init(bytes: SecretBytes) { self.bytes = bytes }
}

extension Password {
    /// The password in the clear, for a message that has to contain it.
    package var revealed: String { bytes.withBytes { String(decoding: $0, as: UTF8.self) } }
}

extension CryptographyError {
    fileprivate static let emptyPassword = CryptographyError(
        .invalidPassword,
        "The password is empty. Enter at least one character."
    )

    fileprivate static let tooLongPassword = CryptographyError(
        .invalidPassword,
        "The password has more than \(Password.maximumBytes) bytes. Make sure that it's the right file."
    )
}

extension Password: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// A placeholder, which reveals not even the password's length.
    public var description: String { "<a password>" }

    /// The same placeholder as ``description``.
    public var debugDescription: String { description }

    /// Has no children: `dump` shows nothing.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
