import ByteCoding

/// The encoding of names in the paths and queries of URLs.
package enum PercentEncoding {
    /// Encodes everything but RFC 3986's unreserved characters.
    ///
    /// - Parameters:
    ///   - bytes: A name, or several names separated by slashes.
    ///   - keepsSlashes: Whether slashes aren't encoded.
    /// - Returns: The encoded name.
    package static func encode(_ bytes: some Sequence<UInt8>, keepingSlashes keepsSlashes: Bool = false) -> String {
        var encoded: [UInt8] = []
        for byte in bytes {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
                UInt8(ascii: "~"):
                encoded.append(byte)
            case UInt8(ascii: "/") where keepsSlashes: encoded.append(byte)
            default: encoded += Array("%\([byte].hexadecimal.uppercased())".utf8)
            }
        }
        return String(decoding: encoded, as: UTF8.self)
    }
}
