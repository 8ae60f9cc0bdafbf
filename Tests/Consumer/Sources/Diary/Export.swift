package import Foundation
package import Operations

/// The protocol of the `Operations` module, not Foundation's class of the same name.
package typealias Operation = Operations.Operation

/// Writes the entries of a diary into a text file, and returns the file.
package actor Export: Operation {
    private let entries: [String]
    private let file: URL

    package init(_ entries: [String], to file: URL) {
        self.entries = entries
        self.file = file
    }

    package func main(_ context: OperationContext) async throws -> URL {
        var text = ""
        for (index, entry) in entries.enumerated() {
            try Task.checkCancellation()
            text += "\(entry)\n"
            context.reportProgress(Double(index + 1) / Double(entries.count))
        }
        try await context.blocking { [text, file] in try Data(text.utf8).write(to: file, options: .atomic) }
        return file
    }
}
