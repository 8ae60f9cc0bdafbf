import StoreChanges
import Testing

@testable import StoreSync

/// Every edit of a history of devices, and what became of it.
///
/// A value is written once, so it tells where the edit is. In the end it's in the stores, or was overwritten by an edit that
/// knew it, or is in a conflict log.
struct EditLedger {
    private var written: Set<String> = []
    private var overwritten: Set<String> = []
    private var deleted: Set<String> = []
    /// Values whose edit a user gave up, by restoring a backup or by taking the document's side.
    private var givenUp: Set<String> = []
    /// Values that two copies of a device had before either published them.
    private var copied: Set<String> = []

    /// Notes an edit: what it writes, and what it knows and overwrites.
    mutating func note(written values: [String], overwritten former: [String], deleted titles: [String]) {
        written.formUnion(values)
        overwritten.formUnion(former)
        deleted.formUnion(titles)
    }

    mutating func giveUp(_ values: Set<String>) { givenUp.formUnion(values) }

    /// Notes that edits exist twice before they are published.
    mutating func copy(_ values: Set<String>) { copied.formUnion(values) }

    /// Compares the edits with what the devices have in the end.
    ///
    /// - Parameters:
    ///   - present: The values in the stores, with repetitions.
    ///   - lost: The values that the conflict logs have as lost.
    ///   - touched: The titles of rows that the conflict logs name.
    /// - Returns: What is wrong.
    func problems(present: [String], lost: Set<String>, touched: Set<String>) -> [String] {
        let counts = Dictionary(present.map { ($0, 1) }, uniquingKeysWith: +)
        let missing = written.subtracting(givenUp).subtracting(overwritten).subtracting(lost)
            .filter { counts[$0] == nil }
        let twice = written.subtracting(copied).filter { counts[$0] ?? 0 > 1 }
        let undead = deleted.subtracting(givenUp).subtracting(copied).subtracting(touched)
            .filter { counts[$0] != nil }
        return missing.sorted().map { "\($0) is lost" } + twice.sorted().map { "\($0) is there twice" }
            + undead.sorted().map { "\($0) was deleted, and is there" }
    }
}
