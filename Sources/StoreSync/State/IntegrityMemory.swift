import GRDB

/// The integrity keys that this device remembers of the documents of a name.
struct IntegrityMemory: Hashable, Sendable {
    /// The key of the document that this device has registered with last.
    var current: String?
    /// The keys of former documents, none of which becomes valid again.
    var former: [String]

    /// Whether a document on the remote is neither the document that this device knows nor its successor.
    ///
    /// - Parameters:
    ///   - info: The document's info.
    ///   - key: The document's integrity key.
    ///   - isEncrypted: Whether the application is encrypted.
    /// - Returns: Whether it's another document.
    func isStranger(_ info: DocumentInfo, _ key: String, isEncrypted: Bool) -> Bool {
        guard let current, current != key else { return false }
        return former.contains(key) || isEncrypted && !info.predecessors.contains(current)
    }

    /// The memory after this device has registered with a document, which isn't a former one.
    func registered(_ key: String, after predecessors: [String]) -> IntegrityMemory {
        let next = (predecessors + [current].compactMap(\.self)).reduce(into: former) {
            if $1 != key, !$0.contains($1) { $0.append($1) }
        }
        return IntegrityMemory(current: key, former: next)
    }
}

extension StateSchema {
    static func fetchIntegrityMemory(_ db: Database, _ key: DocumentKey) throws -> IntegrityMemory {
        IntegrityMemory(
            current: try fetch(String.self, db, "integrityKey", key),
            former: try fetch([String].self, db, "formerIntegrityKeys", key) ?? []
        )
    }
}

extension StateDirectory {
    /// What this device remembers of a document's integrity keys.
    func integrityMemory(for key: DocumentKey) throws -> IntegrityMemory {
        try read { try StateSchema.fetchIntegrityMemory($0, key) }
    }
}
