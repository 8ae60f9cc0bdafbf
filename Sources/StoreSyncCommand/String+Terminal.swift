extension String {
    /// The text with its control characters escaped, for a terminal.
    ///
    /// Other devices choose their descriptions: an escape sequence in one would control the terminal, and a line break would
    /// forge a line.
    var withoutControls: String { escapingControls { $0.escaped(asASCII: true) } }

    /// The JSON text with its control characters escaped as JSON escapes them; its encoder leaves some.
    var jsonWithoutControls: String { escapingControls { "\\u" + String(0x10000 + $0.value, radix: 16).dropFirst() } }

    private func escapingControls(_ escape: (Unicode.Scalar) -> String) -> String {
        guard unicodeScalars.contains(where: \.isControl) else { return self }
        return unicodeScalars.map { $0.isControl ? escape($0) : String($0) }.joined()
    }
}

extension Unicode.Scalar {
    fileprivate var isControl: Bool {
        switch properties.generalCategory {
        case .control, .lineSeparator, .paragraphSeparator: true
        // What turns the direction of the rest of a line.
        case .format: (0x202A...0x202E).contains(value) || (0x2066...0x2069).contains(value)
        default: false
        }
    }
}
