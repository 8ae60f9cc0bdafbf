import Foundation
import StoreChanges

extension SyncRules {
    /// Reads the file that a user names, which may be a pipe.
    ///
    /// - Throws: ``UsageError`` that says what is wrong with it.
    init(readingFileAt path: String) throws {
        guard let data = try Data(ofFile: path, upTo: 16 << 20) else {
            let isThere = FileManager.default.fileExists(atPath: path)
            throw UsageError(
                isThere
                    ? "The rules in \(path) can't be read. Name a file, and check its permissions."
                    : "There is no file \(path) with rules. Check the path."
            )
        }
        do {
            self = try JSONDecoder().decode(SyncRules.self, from: data)
        } catch let error as DecodingError {
            throw UsageError("The rules in \(path) can't be used. \(error.problem)")
        }
    }
}

extension DecodingError {
    /// What is wrong, as far as it can be told to a person.
    fileprivate var problem: String {
        switch self {
        case .dataCorrupted(let context), .keyNotFound(_, let context), .typeMismatch(_, let context),
            .valueNotFound(_, let context):
            let path = context.codingPath.map(\.stringValue).joined(separator: ".")
            return path.isEmpty ? context.debugDescription : "\(path): \(context.debugDescription)"
        @unknown default: return "\(self)"
        }
    }
}
