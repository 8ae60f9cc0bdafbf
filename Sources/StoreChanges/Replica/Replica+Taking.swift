import GRDB

/// Taking a store that isn't the replica's: a copy, a restored backup, or a different store.
extension Replica {
    /// Captures a store that isn't the replica's; from then on it is.
    ///
    /// - Parameters:
    ///   - store: The store, in a read transaction.
    ///   - side: What counts.
    ///   - time: When the store was last written, in milliseconds since 1970.
    ///   - allowsDeletions: Whether more than half of a table's rows may be gone.
    /// - Returns: The sets of what is new in the store; none if nothing is.
    /// - Throws: `DatabaseError`, ``MissingSets`` and ``StoreChangesError``.
    func capture(
        _ store: Database,
        taking side: TakenSide,
        at time: UInt64,
        allowsDeletions: Bool
    ) throws -> [OwnSet] {
        let connection = SQLConnection(store)
        try keepStoreSeen()
        // What the former store lacked says nothing about this one.
        for table in ["pending", "pending_counts", "refusals"] { try db.execute("DELETE FROM \(table)") }
        if side != .remote {
            // If the store counts, its rows still have the numbers by which the replica knows them.
            var rows = EqualRows(in: connection, state, keepsNumbers: side == .local)
            try rows.match()
        }
        try PageMemory(state).write(nil)
        let isMigration = try endsMigration()
        let captured = CapturedChanges(state, isMigration: isMigration, limits)
        var capture = try Capture(of: connection, state, by: client, into: captured) { [self] change in
            switch side {
            case .remote: return false
            case .local:
                guard try !deletesUnknownRow(change) else { return false }
                try logReplaced(by: change, at: time)
                return true
            case .both:
                try logGivenUp(change, at: time)
                guard case .insert = change.edit else { return false }
                return true
            }
        }
        let changes = try capture.run(at: time, allowsDeletions: allowsDeletions || side != .local)
        // By now the replica knows all that the store has, and what has to be written into it.
        try ReplicaFact.token.write(try StoreToken.read(connection, origin: origin)?.bytes, db)
        guard try !changes.isEmpty || announcesSchema(isMigration) else { return [] }
        // The user has decided knowing both.
        let header = try nextHeader(seen: try log.integrated(), at: time, isMigration: isMigration)
        try log.judgement().refuseMissingSets(header)
        return try add(header, changes)
    }

    /// Whether a change deletes a row that another device has inserted, which the store may never have had.
    ///
    /// Nothing tells who inserted a row without a key.
    private func deletesUnknownRow(_ change: Change) throws -> Bool {
        guard case .delete = change.edit else { return false }
        let row = change.reference
        if state.schema.isCounted(row) { return true }
        let inserters = try state.row(row)?.inserters ?? []
        return inserters.contains { $0.client != client }
    }

    /// Puts what the document has of a row into the conflict log, if the store's values replace it.
    private func logReplaced(by change: Change, at time: UInt64) throws {
        let row = change.reference
        guard let present = try state.row(row)?.cells else { return }
        switch change.edit {
        case .insert: return
        case .delete: try logDecision(.otherSideTaken, on: row, lost: present, kept: [:], at: time)
        case .update(let cells):
            // A value that puts back what the last synchronization had replaced is logged when its set is integrated.
            let kept = cells.filter { !$0.value.putsBack && $0.value.new != present[$0.key] }.mapValues(\.new)
            guard !kept.isEmpty else { return }
            let lost = present.filter { kept[$0.key] != nil }
            try logDecision(.otherSideTaken, on: row, lost: lost, kept: kept, at: time)
        }
    }

    /// Puts the store's values of a row into the conflict log, if the document's stay.
    private func logGivenUp(_ change: Change, at time: UInt64) throws {
        guard case .update(let cells) = change.edit else { return }
        let row = change.reference
        let present = try state.row(row)?.cells ?? [:]
        let kept = present.filter { cells[$0.key] != nil }
        try logDecision(.otherSideTaken, on: row, lost: cells.mapValues(\.new), kept: kept, at: time)
    }

    /// Refuses a store that has another schema and isn't the store that the replica wrote last.
    ///
    /// It would be mistaken for an update of the app, by which the replica forgets what the schema no longer has. If the
    /// user has said what counts, a schema is taken that lacks no table or column and isn't known to be older: so a device can
    /// join with the newest app.
    static func refuseOtherSchema(
        _ schema: StoreSchema,
        ofStoreWith token: StoreToken?,
        in db: SQLConnection,
        unlessTaken isTaken: Bool
    ) throws {
        let description = SchemaDescription(schema)
        guard try exists(in: db), let layout = try ReplicaFact.layout.read(db), layout != description.encoded,
            try !isOwn(token?.bytes, in: db)
        else { return }
        let former = try SchemaDescription(decoding: layout)
        let isUpdate = try description.hasNames(of: former) && !ReplicaVersions(db, description).isOlder(than: former)
        guard !(isTaken && isUpdate) else { return }
        throw StoreChangesError(
            .storeReplaced,
            """
            \(isUpdate ? mayBeTaken : mustBeUpdated) Or move this store away: synchronizing with --take remote then \
            creates the store from what is published, without edits that this device hadn't published.
            """
        )
    }

    private static let mayBeTaken = """
        This device last synchronized another store, and this one has a different schema. Put back the store that was \
        synchronized; or say what counts: --take remote, local or both.
        """

    private static let mustBeUpdated = """
        This isn't the store that this device last synchronized, and its schema lacks tables or columns of the document, or is \
        older. Put back the store that was synchronized, if there was one. Or let the newest version of the app open this one, \
        and say what counts: --take remote, local or both. If it has: update the app on another device of the document, edit \
        there, run storesync vacuum there, and then synchronize here with --take.
        """
}
