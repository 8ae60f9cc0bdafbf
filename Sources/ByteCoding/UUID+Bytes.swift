package import Foundation

extension UUID {
    /// The 16 bytes.
    package var bytes: [UInt8] { withUnsafeBytes(of: uuid) { Array($0) } }

    /// Creates an identifier from 16 bytes.
    package init(bytes: some Collection<UInt8>) {
        precondition(bytes.count == 16, "an identifier has 16 bytes, not \(bytes.count)")
        var uuid: uuid_t = (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
        withUnsafeMutableBytes(of: &uuid) { $0.copyBytes(from: bytes) }
        self.init(uuid: uuid)
    }
}
