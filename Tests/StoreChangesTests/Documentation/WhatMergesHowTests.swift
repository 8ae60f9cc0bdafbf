import Foundation
import GRDB
import StoreChanges
import Testing

@Suite("What merges how", .timeLimit(.minutes(60)))
struct WhatMergesHowTests {
    private static let article = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "Sources/StoreSync/StoreSync.docc/WhatMergesHow.md")

    private static let examples: [MergeExample] = {
        // A missing article gives no examples, and the last test fails.
        guard let text = try? String(contentsOf: article, encoding: .utf8) else { return [] }
        return MergeExample.all(in: text)
    }()

    @Test("Each table of the article is what the devices have, log and restore", arguments: examples)
    func example(_ example: MergeExample) throws {
        let devices = try MergingDevices(example.schema, try #require(example["Both have"]))
        for step in example.steps {
            try devices.execute(step.statements, on: step.device)
            try devices.capture(step.device)
        }
        let waiting = try devices.exchange()
        try check(devices, example, "Result")
        #expect(waiting.isEmpty || example["Result on the \(waiting[0])"] != nil)
        let log = try devices.conflicts("desktop")
        #expect(log == example["Conflict log"])
        let logged = try MergingDevices.names.map { try devices.open($0).conflicts().map(\.conflict) }
        #expect(logged[0] == logged[1], "both devices log the same")
        try restore(example, on: devices)
    }

    /// Restores all entries on the desktop, or as far as the article says that they can be.
    private func restore(_ example: MergeExample, on devices: MergingDevices) throws {
        guard let expected = example["Restored"] else { return }
        do {
            for entry in try devices.open("desktop").conflicts() { try devices.restore(entry.number, on: "desktop") }
        } catch let error as StoreChangesError {
            #expect([error.message] == expected)
            return
        }
        #expect(try devices.exchange().isEmpty)
        try check(devices, example, "Restored")
    }

    private func check(_ devices: MergingDevices, _ example: MergeExample, _ label: String) throws {
        for device in MergingDevices.names {
            let expected = try #require(example[label] ?? example["\(label) on the \(device)"])
            let rows = try devices.rows(device)
            #expect(rows == expected.sorted(), "\(device)")
            #expect(try devices.violations(device).isEmpty)
            #expect(try devices.open(device).recordSet() == nil, "what merging wrote isn't an edit")
        }
    }

    @Test("The article shows every rule that two devices of one schema can meet")
    func completeness() {
        let log = Self.examples.flatMap { $0["Conflict log"] ?? [] }
        for rule in Conflict.Rule.allCases where !Self.unshown.contains(rule) {
            #expect(log.contains { $0.hasSuffix(": \(rule.summary)") }, "\(rule)")
        }
    }

    /// Rules of which the article has no table.
    private static let unshown: Set<Conflict.Rule> = [
        // They take two rows that a former synchronization merged.
        .sameCellTwice, .editedAndDeleted,
        // They are the last resort, when no other rule leads to a row that satisfies the constraints.
        .leftOut, .takenOut,
        // The user decides it by removing a device.
        .clientRemoved,
        // It takes a device that was copied or restored from a backup.
        .setVoid,
        // The user decides it by `--take`.
        .otherSideTaken,
        // The user decides it by restoring a conflict.
        .replacedByRestoring,
    ]
}
