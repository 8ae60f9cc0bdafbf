// Readings of the rules:
//
// Resolving
//
// 1. A name resolves to the row of that name; else to the row of the name led through the references in it; else to
//    the target of an alias of the led name, then of the name as it is; else it stays led.
// 2. A reference is led only if no present row, and no row that this set inserts or updates, has the values to
//    which it refers.
// 3. A `.row` inside a compound reference is led through the parent's own references if no alias names the whole
//    value.
// 4. Marked references, and references that find a parent, are never led.
// 5. An update that writes a former value ends that value's alias like an insert does, if its author had seen the
//    alias's maker.
// 6. An alias that no knowing insert ends is dropped when the set is through, repairs included, if a row has its
//    value then; until then a present row goes before an alias.
// 7. Names of rows are compared by their bytes, values of unique columns as SQLite compares them, wherever an alias
//    ends or is looked up.
// 8. An alias that an insert ended stays ended when that insert is left out.
// 9. An alias may lead to a deleted row: updates are logged as edits of it, deletes are refused, and an insert
//    makes a new row under the alias's target.
// 10. A later alias of the same former value replaces the older one; a re-pointed alias keeps its maker.
// 11. The first of two writes to one cell is decided as changes are applied (updates before inserts, by the
//    author's names), so an update of a row that is out writes nothing that counts as first.
// 12. Edits and deletes meet after resolution, before any delete is judged, also where the row is out.
//
// Edits
//
// 13. The old value of an update matches if it is the present cell, or leads to it through aliases; an old value
//    given by its digest is compared as it is.
// 14. Nothing is logged where the cell already holds the new value, even if the change is marked as putting back.
// 15. One entry is logged for each change, with all columns that it overwrites.
// 16. An insert of a present row has no old values, so each differing value that goes is logged.
// 17. References of other rows follow a changed value after all edits of the set, and only references with the
//    former value and lead nowhere now.
// 18. References in tombs follow merges and changed values as rows do; of two tombs that get one name the row that
//    didn't move stays, with the deleters and inserters of both; a tomb that gets a row's name goes. A tomb of which
//    the author had seen a deleter counts as absent when it meets another one.
// 19. The digest of a deleted row covers its cells outside the key, encoded one after the other in ascending order
//    of the columns; a re-pointed reference makes it differ, which logs an edit too much rather than one too few.
// 20. A delete through an alias of its own name is refused and logged even if the target is out already, and
//    doesn't join the deleters.
// 21. A delete of a row that is out joins the deleters whether or not its author had seen all inserters; a delete
//    of a row without a tomb does nothing.
// 22. A parent's delete held if it held in this set, or if this set's author joined the deleters of that parent's
//    tomb.
// 23. The insert of an absent row has only its own set as inserter; the tomb's inserters don't come back with it.
//
// Uniques
//
// 24. Uniques are ordered by all columns that they name, also in expressions and conditions, in ascending order, then by
//    their condition; equal ones by their description. References are ordered by their columns in ascending order,
//    then by their parent, also where a row that comes back brings its parents.
// 25. A cell counts as changed by the set's updates if an update, or a repair other than following an alias, wrote
//    it and it differs from the (led) value before the set; the columns of an index include columns that its
//    expressions and its condition name.
// 26. Only the index's own columns are taken back, not the other columns of their CHECK: if a CHECK is violated
//    then, the row is left out.
// 27. Each merge joins the two lowest rows of a clash; the entry names the row that goes, with its cells and those
//    of the row that stays.
// 28. A row that moves to a name that a row has is merged with it at once, by the same order of rank and name; if
//    the row that moves is the lower, its cells stay under that name, and the entry has that name.
// 29. References don't follow a merge into columns where the row that stays has NULL; they have lost their parent.
// 30. The row of (row, constraint) is the row that the repair changes: the row taken back or moved, the child of a
//    reference; merging counts for none.
// 31. The group of a position is the whole list, as far as the index has it; following an alias counts as writing, so
//    the rows of a list that is merged into another go to its end.
// 32. The highest position includes that of the rows that move.
// 33. If the list holds a position that isn't an integer, or there aren't enough higher ones, the clash is one of
//    identity.
//
// References
//
// 34. A reference has lost its parent by the set if it leads nowhere now and a row before the set had its values.
// 35. Of several tombs that a reference fits, row that the set made goes before an older one, then the lesser name.
// 36. An author's own delete isn't a deleter that the author had seen.
// 37. A reference that the set wrote, but which was the same before the set and led nowhere then, was marked and is
//    left alone.
// 38. SET NULL writes all columns of the reference, or, if one of them doesn't allow it, none.
// 39. A row that is brought back brings all its missing parents that have tombs, whatever the action of its
//    references; other references of it that lead nowhere leave it out again.
// 40. What CASCADE took out because of a parent, and this set's consequences of that parent's delete, come back
//    with it recursively; one entry is logged for each row that comes back.
// 41. A row that was brought back and is left out gets its tomb back as it was.
// 42. An insert whose reference can't be taken back is left out.
// 43. Left out with nothing to lose logs nothing; the inserters of rows that were merged into it stay.
// 44. A reference of a column that holds names is left alone if its value is an integer of 0 or less.
//
// Rows without a key
//
// 45. Entries of counted rows are logged once for each of the equal rows.
// 46. Of counted rows that clash, the row with the greatest name of which the set made more goes first; else the
//    other row that the set wrote; else the greatest.
// 47. A counted row can be a parent, but it has no tomb, so it can't come back.
// 48. A row whose CHECK was violated before the set already isn't left out for it. A row whose name or references are led
//    elsewhere than its author's is checked like a row that a repair wrote.

import StoreChanges

/// A plain fold, written from the rules alone.
///
/// It keeps everything in memory and searches all rows whenever it needs one, so that each function shows its rule.
struct Oracle {
    /// Whether a row, given with the cells of its key, violates a `CHECK` of its table.
    typealias CheckViolation = (RowReference, [String: Cell]) -> Bool
    /// What an index of a table has for a row; `nil` if it doesn't have the row.
    typealias IndexKey = (UniqueIndex, _ table: String, [String: Cell]) -> [Cell]?

    let schema: OracleSchema
    let violatesCheck: CheckViolation
    let indexKey: IndexKey
    let imageDigest: ([String: Cell]) -> SetDigest

    /// Creates a fold.
    ///
    /// - Parameters:
    ///   - schema: The tables.
    ///   - violatesCheck: Evaluates the `CHECK` constraints.
    ///   - indexKey: Evaluates partial and expression indexes; without it every index is taken for one of plain columns.
    ///   - imageDigest: The digest that a delete has of the cells outside the key.
    init(
        schema: StoreSchema,
        violatesCheck: @escaping CheckViolation = { _, _ in false },
        indexKey: @escaping IndexKey = { unique, _, cells in
            unique.terms.map { cells[$0.column ?? ""] ?? .value(.null) }
        },
        imageDigest: @escaping ([String: Cell]) -> SetDigest = Oracle.digest
    ) {
        self.schema = OracleSchema(schema)
        self.violatesCheck = violatesCheck
        self.indexKey = indexKey
        self.imageDigest = imageDigest
    }

    /// Folds sets, given in any order, over a state in the total order (stamp, client, sequence).
    func fold(
        _ sets: [SyncChangeSet],
        over content: StateContent
    ) throws -> (content: StateContent, conflicts: [Conflict]) {
        var content = content
        var conflicts: [Conflict] = []
        for set in sets.sorted(by: { $0.header.position < $1.header.position }) {
            var integration = Integration(self, set, over: content)
            integration.migrations = sets.filter { other in
                other.header.isMigration && other.header.position < set.header.position
                    && other.header.schema.digest == set.header.schema.digest
                    && !set.header.hasSeen(other.header.id)
            }
            try integration.run()
            content = integration.content
            conflicts += integration.conflicts
        }
        return (content, conflicts)
    }

    /// The digest of a row: of its cells outside the key, in ascending order of the columns.
    static func digest(of cells: [String: Cell]) -> SetDigest {
        SetDigest(of: cells.keys.sorted(by: bytewise).flatMap { cells[$0]?.encoded ?? [] })
    }
}

/// Why the oracle gave up.
enum OracleError: Error, Equatable {
    case unknownTable(String)
    case repairsDoNotEnd(SetID)
}

/// Compares names by their bytes, which is the same on every platform.
func bytewise(_ first: String, _ second: String) -> Bool { first.utf8.lexicographicallyPrecedes(second.utf8) }
