import ArgumentParser
import Foundation
import RemoteStorage
import StoreChanges
import StoreSync

/// `storesync conflicts`: what merging overwrote or left out.
struct Conflicts: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "conflicts",
        abstract: "Lists what merging overwrote or left out in a store, or restores one entry."
    )

    @Argument(help: "The store: an SQLite database that was synchronized on this device.")
    var store: String

    @Option(help: ArgumentHelp("The document's identifier, if the store belongs to several.", valueName: "id"))
    var document: String?

    @Option(help: ArgumentHelp("Put back into the store what this entry lost.", valueName: "number"))
    var restore: Int64?

    @OptionGroup var options: CommonOptions

    private struct Result: Encodable {
        struct Author: Encodable {
            let client: RemoteIdentifier?
            let time: Date

            init(_ author: ChangeAuthor) { (client, time) = (author.client, author.date) }
        }

        struct Entry: Encodable {
            let number: Int64
            let table: String
            let key: String
            let rule: String
            let lost: [String: StoredCell]
            let kept: [String: StoredCell]
            let authors: [Author]
            let time: Date
            let restored: Bool

            init(_ entry: ConflictLog.Entry) {
                number = entry.number
                table = entry.conflict.row.table
                key = entry.key
                rule = entry.conflict.rule.rawValue
                lost = entry.conflict.lost.mapValues(StoredCell.init)
                kept = entry.conflict.kept.mapValues(StoredCell.init)
                let author = Author(entry.author)
                authors = [author] + [entry.other.map(Author.init)].compactMap(\.self)
                time = author.time
                restored = entry.isRestored
            }
        }

        var command = "conflicts"
        let conflicts: [Entry]
        let restored: Int64?
    }

    func run() async throws {
        try await Session.run(options.output) { _ in
            let log = try ConflictLog(
                ofStoreAt: URL(storeAt: store),
                state: options.stateDirectory(),
                document: document.map { try RemoteIdentifier($0) }
            )
            if let restore { try await log.restore(restore) }
            let entries = try await log.entries()
            try Report(options.output).result(
                Result(conflicts: entries.map(Result.Entry.init), restored: restore),
                lines: restore.map { ["Restored conflict \($0): synchronize the store to publish it."] }
                    ?? (entries.isEmpty ? ["Merging has overwritten nothing."] : entries.flatMap(lines))
            )
        }
    }

    private func lines(_ entry: ConflictLog.Entry) -> [String] {
        let conflict = entry.conflict
        let key = entry.key.count <= 60 ? entry.key : "\(entry.key.prefix(60))…"
        let head =
            "\(entry.number)  \(conflict.row.table) \(key): \(conflict.summary)"
            + (entry.isRestored ? " (restored)" : entry.canBeRestored ? "" : " (nothing to restore)")
        let lost = conflict.overwritten.sorted { $0.key < $1.key }.map { column, cell in
            "    \(column): \(cell)" + (conflict.kept[column].map { ", now \($0)" } ?? "")
        }
        return [head] + lost
    }
}

/// A cell in JSON: text and numbers as they are, and an object with one key for what JSON has no form of.
///
/// The key is `blob` for bytes in Base64, `row` for the name of a row that the cell refers to, and `real` for an infinity.
private struct StoredCell: Encodable {
    private let cell: Cell

    init(_ cell: Cell) { self.cell = cell }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch cell {
        case .value(.null): try container.encodeNil()
        case .value(.integer(let value)): try container.encode(value)
        case .value(.real(let bits)):
            let value = Double(bitPattern: bits)
            if value.isFinite { try container.encode(value) } else { try container.encode(["real": "\(value)"]) }
        case .value(.text(let bytes)): try container.encode(String(decoding: bytes, as: UTF8.self))
        case .value(.blob(let bytes)): try container.encode(["blob": Data(bytes).base64EncodedString()])
        case .row(let name): try container.encode(["row": name.literal])
        }
    }
}
