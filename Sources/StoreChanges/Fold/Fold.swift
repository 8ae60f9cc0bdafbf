/// Applies change sets to a state, one after another in the total order.
///
/// The state that results is the same on every device, whatever the order in which the sets arrived: a set that belongs
/// further back is applied after the later ones were undone.
package struct Fold {
    private let schema: FoldSchema

    package init(_ schema: FoldSchema) { self.schema = schema }

    /// Applies a set.
    ///
    /// A set is applied whole: deletes, then updates, then inserts, each in the order of tables and names; then what
    /// violates a constraint is repaired.
    ///
    /// - Parameters:
    ///   - set: The set, greater in the total order than all that the state contains.
    ///   - base: The state.
    ///   - schemas: The schemas of the set and of those before it.
    /// - Returns: What changes in the state, and what was overwritten or left out.
    /// - Throws: ``StoreChangesError``, and what `base` throws.
    package func apply(
        _ set: SyncChangeSet,
        to base: some StateReader,
        schemas: FoldedSchemas = FoldedSchemas()
    ) throws -> (StateDelta, [Conflict]) {
        let migrations = schemas.migrations
        var fold = SetFold(set.header, FoldWorkspace(base, schema))
        fold.author = schemas.author
        fold.unseenRowColumns = schemas.unseen.map { RowColumns($0) }
        fold.constraints = FoldConstraints(of: schemas.greatest, in: schema)
        let adapted = fold.adapt(fold.withoutRepeatedCounts(set.changes, migrations))
        fold.reserveCapacity(adapted.count)
        // A set has its changes in the order of the store, in which the base is read faster than in any other.
        for change in adapted { _ = try fold.work.row(RowReference(change.table, change.row)) }
        let changes = try fold.resolve(adapted)
        try fold.delete(changes)
        try fold.update(changes)
        try fold.insert(changes)
        try fold.followChangedValues()
        try fold.mergeMigratedRows(changes, migrations)
        try fold.repair(after: FoldConstraints(of: schemas.greatestBefore, in: schema))
        try fold.endTakenAliases()
        return (fold.work.delta, fold.conflicts)
    }
}

/// The schemas of a set and of the sets before it.
package struct FoldedSchemas {
    /// The schema that the set was captured in; `nil` if it's the present one.
    package var author: SchemaDescription?
    /// The schemas of earlier migrations that the author hadn't seen; empty unless ``author`` is given.
    package var unseen: [SchemaDescription] = []
    /// If the set was captured together with a change of the schema: the earlier sets that were captured together with a
    /// change to the same schema.
    package var migrations: [SyncChangeSet] = []
    /// The greatest schema among the sets before this one; `nil` stands for the present one.
    package var greatestBefore: SetDigest?
    /// The greatest schema among these sets and this one; `nil` stands for the present one.
    package var greatest: SetDigest?

    package init() {}
}
