import OperationsTesting
import StoreChanges
import TestSupport

extension RandomNumberGenerator {
    mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &self) < percent }

    mutating func storedValue() -> StoredValue {
        switch Int.random(in: 0..<6, using: &self) {
        case 0: .null
        case 1: .integer(Int64.random(in: -3...3, using: &self))
        case 2: .integer([.min, .max, 0, 1 << 40, -1 << 20].randomElement(using: &self) ?? 0)
        case 3:
            .real([0, -0.0, 1, 1.5, .infinity, -.infinity, .leastNonzeroMagnitude].randomElement(using: &self) ?? 0)
        case 4: .text(["", "a", "A", "é", String(repeating: "x", count: 40)].randomElement(using: &self) ?? "")
        default: .blob(.noise(Int.random(in: 0..<50, using: &self), using: &self))
        }
    }

    mutating func rowName(depth: Int = 0) -> RowName {
        if chance(50) {
            return .numbered(
                client: ClientID(rawValue: ["A", "B", ""].randomElement(using: &self) ?? ""),
                number: Int64.random(in: -1...200, using: &self)
            )
        }
        return .key((0..<Int.random(in: 1...3, using: &self)).map { _ in cell(depth: depth) })
    }

    mutating func cell(depth: Int = 0) -> Cell {
        depth < 3 && chance(20) ? .row(rowName(depth: depth + 1)) : .value(storedValue())
    }

    mutating func digest() -> SetDigest { SetDigest(rawValue: .noise(SetDigest.byteCount, using: &self)) }

    mutating func header() -> SyncChangeSet.Header {
        var seen: [ClientID: SeenSet] = [:]
        for client in ["A", "B", "device-0001"] where chance(50) {
            seen[ClientID(rawValue: client)] = SeenSet(UInt64.random(in: 1...1 << 40, using: &self), digest())
        }
        return SyncChangeSet.Header(
            id: SetID(ClientID(rawValue: "A"), UInt64.random(in: 1...300, using: &self)),
            predecessor: digest(),
            stamp: Stamp(rawValue: UInt64.random(in: 0...Stamp.maximum.rawValue, using: &self)),
            seen: seen,
            schema: SchemaVersion(UInt64.random(in: 0...3, using: &self), digest())
        )
    }

    mutating func changeSet() -> SyncChangeSet {
        let tables = ["a", "b", "notes"].filter { _ in chance(60) }
        let changes = tables.flatMap { table in
            let columns = ["body", "title", "é"].filter { _ in chance(70) }
            return (0..<Int.random(in: 1...4, using: &self)).map { _ in
                Change(table, rowName(), edit(columns))
            }
        }
        return SyncChangeSet(header(), changes)
    }

    private mutating func edit(_ columns: [String]) -> Edit {
        switch Int.random(in: 0..<3, using: &self) {
        case 0:
            let cells = Dictionary(uniqueKeysWithValues: columns.map { ($0, cell()) })
            return .insert(
                InsertedRow(
                    cells: cells,
                    wish: chance(50) ? Int64.random(in: -5...500, using: &self) : nil,
                    dangling: Set(columns.filter { _ in chance(10) })
                )
            )
        case 1 where !columns.isEmpty:
            var changed = columns.filter { _ in chance(50) }
            if changed.isEmpty { changed = [columns[0]] }
            return .update(
                Dictionary(
                    uniqueKeysWithValues: changed.map { column in
                        (
                            column,
                            UpdatedCell(from: OldCell(cell()), to: cell(), isDangling: chance(10), putsBack: chance(10))
                        )
                    }
                )
            )
        default:
            let parents = (0..<(chance(30) ? 2 : 0)).map { _ in RowReference("notes", rowName()) }
            let left = (0..<(chance(30) ? 3 : 0)).map { _ in RowReference("lines", rowName()) }
            return .delete(DeletedRow(image: digest(), parents: Set(parents), left: Set(left)))
        }
    }
}
