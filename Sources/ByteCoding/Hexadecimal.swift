extension Sequence<UInt8> {
    /// The bytes as lower-case hexadecimal digits.
    package var hexadecimal: String {
        let digits = Array("0123456789abcdef".utf8)
        return String(decoding: flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }
}

extension [UInt8] {
    /// Reads bytes from pairs of hexadecimal digits in ASCII; `nil` if there is anything else.
    package init?(hexadecimal digits: some Sequence<UInt8>) {
        self.init()
        var high: Int?
        for digit in digits {
            guard let value = Character(Unicode.Scalar(digit)).hexDigitValue else { return nil }
            if let first = high.take() { append(UInt8(first << 4 | value)) } else { high = value }
        }
        guard high == nil else { return nil }
    }
}
