import Foundation
import TestSupport

/// The app's edits of its stores. Each device has the app in one of its versions.
extension SynchronizationHistory {
    /// What each version of the app changes in the store of its predecessor.
    private static let migrations = [
        """
        CREATE TABLE list (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, mark TEXT);
        CREATE TABLE note (
            id INTEGER PRIMARY KEY, list INTEGER REFERENCES list ON DELETE CASCADE, title TEXT, body TEXT, bytes BLOB
        );
        CREATE TABLE tag (name TEXT PRIMARY KEY, color TEXT);
        INSERT INTO list (name, mark) VALUES ('inbox', 'the first list')
        """,
        "ALTER TABLE note ADD COLUMN extra TEXT",
        "CREATE TABLE draft (id INTEGER PRIMARY KEY, text TEXT NOT NULL); ALTER TABLE tag ADD COLUMN size INTEGER DEFAULT 7",
        // Devices with older versions wait until they have this one.
        "ALTER TABLE list RENAME COLUMN mark TO label",
    ]
    static let lastVersion = migrations.count

    /// The version of the app that wrote a device's store.
    func version(_ member: Member) throws -> Int {
        try member.device.query("PRAGMA user_version").first.flatMap { Int($0) } ?? 0
    }

    /// Opens a device's store in a version of the app.
    func migrate(_ member: Member, to version: Int) throws {
        for next in try self.version(member)..<max(version, self.version(member)) {
            try member.device.execute(Self.migrations[next] + "; PRAGMA user_version = \(next + 1)")
        }
    }

    /// A statement, and what becomes of values by it.
    private struct Edit {
        var sql: String
        /// What it writes.
        var written: [String] = []
        /// What it overwrites, and knows.
        var overwritten: [String] = []
        /// The titles of the rows that it deletes.
        var deleted: [String] = []
    }

    /// Executes a random statement on a device's store.
    func edit(_ member: Member) throws {
        values += 1
        guard let edit = try randomEdit(member, writing: "\(member.device.name) \(values)") else { return }
        try member.device.execute(edit.sql)
        member.unpublished.formUnion(edit.written + edit.deleted)
        ledger.note(written: edit.written, overwritten: edit.overwritten, deleted: edit.deleted)
        log.append("\(member.device.name): \(edit.sql)")
    }

    /// Chooses a statement; `nil` if it does nothing, or if the app can't execute it in its version.
    private func randomEdit(_ member: Member, writing value: String) throws -> Edit? {
        let (version, device) = (try version(member), member.device)
        let statement = Int.random(in: 0..<13, using: &random)
        let choice = Int.random(in: 0..<1000, using: &random)
        let offset = "\(choice) % max(1, (SELECT count(*) FROM note))"
        let note = "(SELECT id FROM note ORDER BY title, id LIMIT 1 OFFSET \(offset))"
        let list = "(SELECT id FROM list ORDER BY name LIMIT 1 OFFSET \(choice) % (SELECT count(*) FROM list))"
        switch statement {
        case 0...2: return Edit(sql: "INSERT INTO note (list, title) VALUES (\(list), '\(value)')", written: [value])
        case 3:
            let columns = "INSERT INTO note (list, title, bytes)"
            return Edit(sql: "\(columns) VALUES (\(list), '\(value)', zeroblob(70000))", written: [value])
        case 4, 5: return try update("body", of: note, on: device, to: value)
        case 6: return Edit(sql: "UPDATE note SET list = \(list) WHERE id = \(note)")
        case 7:
            let name = "list \(choice % 3)"
            guard try device.query("SELECT id FROM list WHERE name = '\(name)'").isEmpty else { return nil }
            let sql = "INSERT INTO list (name, \(mark(version))) VALUES ('\(name)', '\(value)')"
            return Edit(sql: sql, written: [value])
        case 8:
            let name = "tag \(choice % 3)"
            return Edit(
                sql: "INSERT OR REPLACE INTO tag (name, color) VALUES ('\(name)', '\(value)')",
                written: [value],
                overwritten: try device.query("SELECT color FROM tag WHERE name = '\(name)'")
            )
        case 9, 10: return try deletion(where: choice % 5 > 0 ? "id = \(note)" : "list = \(list)", member)
        case 11 where version >= 2:
            let edit = try update("extra", of: note, on: device, to: value)
            for title in try device.query("SELECT title FROM note WHERE id = \(note)") where edit != nil {
                extras[title, default: []].append(value)
            }
            return edit
        case 12 where version >= 3: return Edit(sql: "INSERT INTO draft (text) VALUES ('\(value)')", written: [value])
        default: return nil
        }
    }

    private func update(_ column: String, of note: String, on device: Device, to value: String) throws -> Edit? {
        guard try !device.query("SELECT id FROM note").isEmpty else { return nil }
        return Edit(
            sql: "UPDATE note SET \(column) = '\(value)' WHERE id = \(note)",
            written: [value],
            overwritten: try device.query("SELECT \(column) FROM note WHERE id = \(note) AND \(column) NOT NULL")
        )
    }

    private func deletion(where condition: String, _ member: Member) throws -> Edit {
        let titles = try member.device.query("SELECT title FROM note WHERE \(condition)")
        let bodies = try member.device.query("SELECT body FROM note WHERE \(condition) AND body NOT NULL")
        let unseen = try version(member) < 2 ? titles.flatMap { extras[$0] ?? [] } : []
        let extra =
            try version(member) < 2
            ? [] : member.device.query("SELECT extra FROM note WHERE \(condition) AND extra NOT NULL")
        return Edit(
            sql: "DELETE FROM note WHERE \(condition)",
            overwritten: titles + bodies + extra + unseen,
            deleted: titles
        )
    }

    private func mark(_ version: Int) -> String { version < 4 ? "mark" : "label" }

    // MARK: Contents

    /// Everything but the local numbers of rows.
    func content(_ member: Member) throws -> [String] {
        let version = try version(member)
        let (extra, size) = (version < 2 ? "''" : "ifnull(extra, '-')", version < 3 ? "''" : "ifnull(size, '-')")
        let sql = """
            SELECT 'note ' || title || ifnull(body, '-') || ifnull(length(bytes), 0) || ifnull(name, '-') || \(extra)
            FROM note LEFT JOIN list ON list.id = list
            UNION ALL SELECT 'list ' || name || \(mark(version)) FROM list UNION ALL SELECT name || color || \(size) FROM tag
            """
        return try member.device.query(sql + (version < 3 ? "" : " UNION ALL SELECT text FROM draft") + " ORDER BY 1")
    }

    /// The values of edits, with repetitions.
    func texts(_ member: Member) throws -> [String] {
        let version = try version(member)
        let sql = """
            SELECT title FROM note UNION ALL SELECT body FROM note WHERE body NOT NULL
            UNION ALL SELECT \(mark(version)) FROM list UNION ALL SELECT color FROM tag
            """
        return try member.device.query(
            sql + (version < 2 ? "" : " UNION ALL SELECT extra FROM note WHERE extra NOT NULL")
                + (version < 3 ? "" : " UNION ALL SELECT text FROM draft")
        )
    }
}
