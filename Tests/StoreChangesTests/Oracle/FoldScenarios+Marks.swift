import StoreChanges

// MARK: Rule 2, references that a delete left

extension FoldScenarios {
    /// A tag, and an item that has it.
    private static let taggedItem = first(
        .insert("tag", "A#1", ["name": "x", "color": "red"]),
        .insert("item", "A#2", ["tag": .to("A#1")])
    )

    /// A client deletes the tag, and leaves the item.
    private static func deletesTag(_ client: String, at stamp: UInt64) -> SyncChangeSet {
        .by(
            client,
            1,
            at: stamp,
            seeing: ["A": 1],
            .delete("tag", "A#1", knowing: ["name": "x", "color": "red"], leaving: [("item", "A#2")])
        )
    }

    static let marks: [FoldScenario] = [
        FoldScenario(
            title: "A reference that its author's delete left stays, and so does the delete",
            schema: tags + items,
            sets: [taggedItem, deletesTag("B", at: 2)],
            rows: ["item A#2 tag=→A#1"],
            tombs: ["tag A#1"]
        ),
        FoldScenario(
            title: "A reference that a delete left isn't led back if another device has changed it",
            schema: tags + items,
            sets: [
                taggedItem,
                .by(
                    "C",
                    1,
                    at: 2,
                    seeing: ["A": 1],
                    .insert("tag", "C#1", ["name": "y", "color": "blue"]),
                    .update("item", "A#2", ["tag": .from(.to("A#1"), to: .to("C#1"))])
                ),
                deletesTag("B", at: 3),
            ],
            rows: ["item A#2 tag=→C#1", "tag C#1 color='blue' name='y'"],
            tombs: ["tag A#1"]
        ),
        FoldScenario(
            title: "Nothing is lost with a row whose reference another delete left",
            schema: tags + items,
            sets: [
                taggedItem,
                .by("C", 1, at: 2, seeing: ["A": 1], .delete("item", "A#2", knowing: ["tag": .to("A#1")])),
                deletesTag("B", at: 3),
            ],
            rows: [],
            tombs: ["item A#2", "tag A#1"]
        ),
        FoldScenario(
            title: "A row comes back for a reference that its deleter didn't know, also if that one left others",
            schema: tags + items,
            sets: [
                taggedItem,
                .by("C", 1, at: 2, seeing: ["A": 1], .insert("item", "C#1", ["tag": .to("A#1")])),
                deletesTag("B", at: 3),
            ],
            rows: ["item A#2 tag=→A#1", "item C#1 tag=→A#1", "tag A#1 color='red' name='x'"],
            conflicts: ["broughtBack tag A#1"]
        ),
        FoldScenario(
            title: "A reference in a key that its author's delete left stays",
            schema: tags + labels,
            sets: [
                first(
                    .insert("tag", "A#1", ["name": "x", "color": "red"]),
                    .insert("label", ["en", .to("A#1")], ["title": "t"])
                ),
                .by(
                    "B",
                    1,
                    at: 2,
                    seeing: ["A": 1],
                    .delete(
                        "tag",
                        "A#1",
                        knowing: ["name": "x", "color": "red"],
                        leaving: [("label", ["en", .to("A#1")])]
                    )
                ),
            ],
            rows: ["label ('en', →A#1) title='t'"],
            tombs: ["tag A#1"]
        ),
        FoldScenario(
            title: "A reference of a row without a key that its author's delete left stays",
            schema: tags + "CREATE TABLE use (tag INTEGER REFERENCES tag ON DELETE CASCADE);",
            sets: [
                first(
                    .insert("tag", "A#1", ["name": "x", "color": "red"]),
                    .insert("use", [.to("A#1")])
                ),
                .by(
                    "B",
                    1,
                    at: 2,
                    seeing: ["A": 1],
                    .delete("tag", "A#1", knowing: ["name": "x", "color": "red"], leaving: [("use", [.to("A#1")])])
                ),
            ],
            rows: ["use (→A#1) ×1"],
            tombs: ["tag A#1"]
        ),
    ]
}
