import Foundation

/// Prints the output of a command: one JSON object, or sentences.
struct Report: Sendable {
    let isJSON: Bool
    let isQuiet: Bool

    /// The report for errors that occur before the options are known.
    static let standard = Report(isJSON: true, isQuiet: false)

    init(isJSON: Bool, isQuiet: Bool) {
        self.isJSON = isJSON
        self.isQuiet = isQuiet
    }

    init(_ options: OutputOptions) {
        self.init(isJSON: options.json, isQuiet: options.quiet)
    }

    /// Prints the result: an object for scripts, or lines for people.
    func result(_ object: some Encodable, lines: @autoclosure () -> [String]) {
        if isJSON {
            print(object)
        } else if !isQuiet {
            for line in lines() { Swift.print(line) }
        }
    }

    /// Prints a step of the work, for people only.
    func step(_ line: String) {
        guard !isJSON, !isQuiet else { return }
        Swift.print(line)
        fflush(nil)
    }

    /// Prints a warning to standard error, so that it never mixes with JSON.
    func warning(_ line: String) {
        guard !isQuiet else { return }
        Self.standardError("warning: \(line)")
    }

    func failure(code: String, message: String) {
        if isJSON {
            print(["error": ["code": code, "message": message]])
        } else {
            Self.standardError("storesync: \(message) [\(code)]")
        }
    }

    private func print(_ object: some Encodable) {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        encoder.dateEncodingStrategy = .iso8601
        // Everything we print is strings, numbers and booleans, which always encode.
        guard let data = try? encoder.encode(object) else { preconditionFailure("a result could not be encoded") }
        FileHandle.standardOutput.write(data + Data("\n".utf8))
    }

    static func standardError(_ line: String) {
        // The terminal may be closed while the command goes on.
        try? FileHandle.standardError.write(contentsOf: Data((line + "\n").utf8))
    }
}
