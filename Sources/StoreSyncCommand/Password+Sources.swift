import Foundation
import StoreSync
import SyncCryptography

extension Password {
    /// The password in a file if the user names one, else in an environment variable; `nil` if neither is given.
    static func given(inFile file: String?, orIn variable: String) throws -> Password? {
        if let file { return try Password(file: file) }
        return try Environment.bytes(of: variable).map { try Password($0, from: variable) }
    }

    /// Reads a password from a file, which may be a pipe.
    init(file path: String) throws {
        guard !path.isEmpty else { throw UsageError("The name of the password file is empty. Name a file.") }
        guard let data = try Data(ofFile: path, upTo: Self.maximumBytes + 1) else {
            throw UsageError("The password file \(path) can't be read. Check the path and its permissions.")
        }
        try self.init(data, from: "The password file \(path)")
    }

    /// Creates a password from data; error messages name its `source`.
    init(_ data: Data, from source: String) throws {
        do {
            try self.init(utf8: data)
        } catch {
            throw UsageError("\(source) holds no password that can be used. \(error.message)")
        }
    }
}
