/// Something that merging overwrote or left out, with what is needed to restore it.
public struct Conflict: Hashable, Sendable {
    /// The rule of the fold that decided.
    public enum Rule: String, Hashable, Sendable, CaseIterable {
        /// Two changes of one set wrote one cell differently: the first counts.
        case sameCellTwice
        /// A set changed and deleted one row: the change counts.
        case editedAndDeleted
        /// A cell was overwritten by an edit that didn't know its value, or that puts a former value back.
        case overwritten
        /// A row was deleted by a device that didn't know its last edit.
        case deletedEdited
        /// A delete didn't know of an insert of the row, so the row stays.
        case deleteRefused
        /// A cascading delete was refused: the delete of the parent was refused, or the row no longer had that parent.
        case consequenceRefused
        /// An edit of a row that is deleted.
        case editOfDeleted
        /// Two rows with the same unique values were merged.
        case merged
        /// An edit gave a row values that another one has, and was taken back.
        case takenBack
        /// Two rows wanted the same position, and one moved to the end.
        case moved
        /// A deleted row came back because another row refers to it.
        case broughtBack
        /// A reference to a deleted row was set to NULL.
        case referenceCleared
        /// A row was deleted because the row was deleted to which it refers.
        case deletedWithParent
        /// A change was left out because its reference leads nowhere, or because it violates a constraint.
        case leftOut
        /// A row was deleted because it violates a constraint in every form.
        case takenOut
        /// A change was captured together with a change of the schema, and another device changed the value meanwhile.
        case migratedValue
        /// A change of a table, column or key that the schema doesn't have any more. A delete that is left out lost nothing.
        case schemaChanged
        /// A row of a table without a key was deleted more often than it was there.
        case countBelowZero
        /// The edit's device was removed, and the device that noted that hadn't seen the edit.
        case clientRemoved
        /// The edit's set doesn't count any more: its device was copied or restored from a backup, and published another set
        /// of the same number, or other devices had settled the order of edits before the set arrived.
        case setVoid
        /// The user said that the store counts or that the document does, and the other side's value or row was given up.
        case otherSideTaken
        /// The user restored what another entry lost, in place of a later value.
        case replacedByRestoring

        /// The rules that log what was lost with a whole set.
        static let ofVoidSets: [Rule] = [.clientRemoved, .setVoid]

        /// What happened, in a few words.
        public var summary: String {
            switch self {
            case .sameCellTwice: "changed twice in one synchronization"
            case .editedAndDeleted: "changed and deleted in one synchronization"
            case .overwritten: "overwritten by a device that didn't know this value"
            case .deletedEdited: "deleted by a device that didn't know the last change"
            case .deleteRefused: "not deleted, because another device had inserted it too"
            case .consequenceRefused: "not deleted, because the row that it belongs to wasn't"
            case .editOfDeleted: "changed by a device that didn't know that it was deleted"
            case .merged: "merged with a row of the same unique values"
            case .takenBack: "taken back, because another row has these unique values"
            case .moved: "moved to the end, because another row has this position"
            case .broughtBack: "brought back, because another row refers to it"
            case .referenceCleared: "separated from a row that another device deleted"
            case .deletedWithParent: "deleted with the row that it belongs to"
            case .leftOut: "left out, because it violates a constraint"
            case .takenOut: "deleted, because it violates a constraint in every form"
            case .migratedValue: "not changed by an update of the app, because another device had changed it"
            case .schemaChanged: "left out, because an update of the app removed its column or table"
            case .countBelowZero: "deleted on two devices"
            case .clientRemoved: "given up with the removed device that had made this edit"
            case .setVoid: "given up, because its device was copied, restored from a backup, or late"
            case .otherSideTaken: "given up, because the user took the other side"
            case .replacedByRestoring: "replaced when another entry was restored"
            }
        }
    }

    /// The rule that decided.
    public var rule: Rule
    /// The row.
    public var row: RowReference
    /// What was lost, by column; for a deleted row all of its cells.
    public var lost: [String: Cell]
    /// What stays in its place, by column; empty if there is no row.
    public var kept: [String: Cell]
    /// The set that was integrated when the rule decided.
    public var set: SetID

    /// Creates an entry.
    public init(_ rule: Rule, _ row: RowReference, lost: [String: Cell], kept: [String: Cell], by set: SetID) {
        self.rule = rule
        self.row = row
        self.lost = lost
        self.kept = kept
        self.set = set
    }

    /// What happened, in a few words.
    public var summary: String {
        rule == .schemaChanged && lost.isEmpty && !kept.isEmpty
            ? "not deleted, because an update of the app changed its columns or removed its table" : rule.summary
    }

    /// Whether anything was lost that can be put back: cells, or a row that has no cells outside its key.
    package var hasLoss: Bool {
        switch rule {
        case .deletedWithParent, .leftOut, .takenOut, .schemaChanged, .clientRemoved, .setVoid, .otherSideTaken:
            kept.isEmpty || !lost.isEmpty
        default: !lost.isEmpty
        }
    }

    /// The lost cells in whose place the row holds something else.
    public var overwritten: [String: Cell] { lost.filter { kept[$0.key] != $0.value } }
}

/// The device that made a change, and when.
public struct ChangeAuthor: Hashable, Sendable {
    /// The set with the change.
    public var set: SetID
    /// When the device captured it, by its clock or later: an edit that knew another one always has the later time.
    public var time: Stamp

    /// Creates an author.
    public init(_ set: SetID, at time: Stamp) {
        self.set = set
        self.time = time
    }
}

/// An entry of a replica's conflict log.
///
/// It says what was lost (``Conflict/lost``) and what stays (``Conflict/kept``), why (``Conflict/rule``), by whom and when:
///
/// ```swift
/// for entry in try store.conflicts() {
///     print(entry.conflict.summary, entry.author.set.client, entry.other?.set.client ?? "an earlier device")
/// }
/// ```
public struct LoggedConflict: Hashable, Sendable {
    /// The entry's number on this device, by which it can be restored.
    public var number: Int64
    /// What happened.
    public var conflict: Conflict
    /// The device whose change was integrated when the rule decided.
    public var author: ChangeAuthor
    /// The device that last changed the row before; `nil` if its change is so old that every device had seen it.
    public var other: ChangeAuthor?
    /// Whether the user has put back what was lost.
    public var isRestored = false
}
