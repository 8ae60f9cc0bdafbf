import Foundation

/// Prints the output of a command: one JSON object, or sentences.
struct Report: Sendable {
    let isJSON: Bool
    let isQuiet: Bool
}

extension Report {
    init(_ options: OutputOptions) {
        self.init(isJSON: options.json, isQuiet: options.quiet)
    }

    /// Prints the result: an object for scripts, or lines for people.
    ///
    /// - Throws: What ``StandardOutput`` throws.
    func result(_ object: some Encodable, lines: @autoclosure () -> [String]) throws {
        if isJSON {
            try print(object)
        } else if !isQuiet {
            try StandardOutput.write(lines().map(\.withoutControls))
        }
    }

    /// Prints a step of the work: to standard error, if an object is to follow on standard output.
    ///
    /// - Throws: What ``StandardOutput`` throws.
    func step(_ line: String) throws {
        guard !isQuiet else { return }
        if isJSON { return Self.standardError(line) }
        try StandardOutput.write([line.withoutControls])
    }

    /// Prints a warning to standard error, so that it never mixes with JSON.
    func warning(_ line: String) {
        if !isQuiet { problem(line) }
    }

    /// Prints a warning as ``warning(_:)`` does, also if only errors are wanted.
    func problem(_ line: String) { Self.standardError("warning: \(line)") }

    /// Prints an error: as an object, or to standard error, also if there is no other way.
    func failure(code: String, message: String) {
        if isJSON, (try? print(["error": ["code": code, "message": message]])) != nil { return }
        Self.standardError("storesync: \(message) [\(code)]")
    }

    private func print(_ object: some Encodable) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        encoder.dateEncodingStrategy = .iso8601
        // What is printed always encodes: infinite numbers, which JSON lacks, are strings or objects.
        guard let data = try? encoder.encode(object) else { preconditionFailure("a result could not be encoded") }
        try StandardOutput.write([String(decoding: data, as: UTF8.self).jsonWithoutControls])
    }

    static func standardError(_ line: String) {
        Terminal.show(line.withoutControls + "\n")
    }
}
