import Foundation
import StoreSync

extension Data {
    /// Reads the first bytes of a file that a user names, which may be a pipe.
    ///
    /// - Parameters:
    ///   - path: The path.
    ///   - count: The maximum number of bytes, since a device may never end.
    /// - Throws: An error of Foundation.
    init(ofFile path: String, upTo count: Int) throws {
        let handle = try FileHandle(forReadingFrom: URL(named: path))
        defer { try? handle.close() }
        self = try handle.read(upToCount: count) ?? Data()
    }
}
