import StoreChanges

/// The histories that every implementation of the fold is tested with, by the rules that they show.
enum FoldScenarios {
    static let all =
        resolving + updates + deletes + inserts + identities + positions + references + parents + marks + leavingOut
        + counts + migrations

    static let tags = "CREATE TABLE tag (id INTEGER PRIMARY KEY, name TEXT UNIQUE, color TEXT);"
    static let notes = """
        CREATE TABLE note (id INTEGER PRIMARY KEY, tag INTEGER REFERENCES tag ON DELETE SET NULL, body TEXT);
        """
    static let items = "CREATE TABLE item (id INTEGER PRIMARY KEY, tag INTEGER NOT NULL REFERENCES tag);"
    static let labels = """
        CREATE TABLE label (tag INTEGER REFERENCES tag, lang TEXT, title TEXT, PRIMARY KEY (tag, lang));
        """
    static let words = "CREATE TABLE word (word TEXT NOT NULL PRIMARY KEY, meaning TEXT, hint TEXT);"

    /// A client's first set, which every other one has seen.
    static func first(_ changes: Change...) -> SyncChangeSet {
        var set = SyncChangeSet.by("A", 1, at: 1)
        set.changes = changes
        return set
    }

    /// Two tags of one name that two devices insert, and which the fold merges.
    static let twoTags: [SyncChangeSet] = [
        .by("A", 1, at: 1, .insert("tag", "A#1", ["name": "x", "color": "red"])),
        .by("B", 1, at: 2, .insert("tag", "B#1", ["name": "x", "color": "blue"])),
    ]
}

// MARK: Rule 0

extension FoldScenarios {
    static let resolving: [FoldScenario] = [
        FoldScenario(
            title: "A reference that led nowhere in its author's store isn't led to another row",
            schema: tags + notes,
            sets: twoTags + [
                .by("A", 2, at: 3, .insert("note", "A#2", ["tag": nil, "body": "t"])),
                .by(
                    "C",
                    1,
                    at: 4,
                    seeing: ["A": 2],
                    .update("note", "A#2", ["tag": .from(nil, to: .to("B#1"), dangling: true)])
                ),
            ],
            rows: ["note A#2 body='t' tag=→B#1", "tag A#1 color='red' name='x'"],
            conflicts: ["merged tag B#1"]
        ),
        FoldScenario(
            title: "An update under the former name of a merged row reaches the row that stays",
            schema: tags,
            sets: twoTags + [
                .by("B", 2, at: 3, .update("tag", "B#1", ["color": .from("blue", to: "green")]))
            ],
            rows: ["tag A#1 color='green' name='x'"],
            aliases: ["tag id=→B#1 → A#1"],
            conflicts: ["merged tag B#1", "overwritten tag A#1"],
            lost: [.overwritten: "color='red' / color='green'"]
        ),
        FoldScenario(
            title: "A reference to a merged row is led to the row that stays",
            schema: tags + notes,
            sets: twoTags + [.by("B", 2, at: 3, .insert("note", "B#1", ["tag": .to("B#1"), "body": "n"]))],
            rows: ["note B#1 body='n' tag=→A#1", "tag A#1 color='red' name='x'"],
            conflicts: ["merged tag B#1"]
        ),
        FoldScenario(
            title: "A key that contains a reference is led through the reference's alias",
            schema: tags + labels,
            sets: twoTags + [
                .by("B", 2, at: 3, .insert("label", ["en", .to("B#1")], ["title": "t"]))
            ],
            rows: ["label ('en', →A#1) title='t'", "tag A#1 color='red' name='x'"],
            aliases: ["tag id=→B#1 → A#1"],
            conflicts: ["merged tag B#1"]
        ),
        FoldScenario(
            title: "An alias leads straight to a row: it is re-pointed when that row is merged",
            schema: tags + items,
            sets: twoTags + [
                .by(
                    "C",
                    1,
                    at: 3,
                    seeing: ["A": 1, "B": 1],
                    .delete("tag", "A#1", knowing: ["name": "x", "color": "red"])
                ),
                .by("D", 1, at: 4, .insert("tag", "D#1", ["name": "x", "color": "black"])),
                .by("E", 1, at: 5, seeing: ["A": 1, "B": 1], .insert("item", "E#1", ["tag": .to("A#1")])),
                .by("F", 1, at: 6, seeing: ["B": 1], .update("tag", "B#1", ["color": .from("black", to: "f")])),
            ],
            rows: ["item E#1 tag=→D#1", "tag D#1 color='f' name='x'"],
            aliases: ["tag id=→A#1 → D#1", "tag id=→B#1 → D#1"],
            conflicts: ["broughtBack tag A#1", "merged tag A#1", "merged tag B#1"]
        ),
        FoldScenario(
            title: "✱ An insert under an alias by an author who knew the merge ends the alias",
            schema: tags + notes,
            sets: twoTags + [
                .by(
                    "B",
                    2,
                    at: 3,
                    seeing: ["A": 1],
                    .insert("tag", "B#1", ["name": "y", "color": "new"]),
                    .insert("note", "B#2", ["tag": .to("B#1"), "body": "n"])
                )
            ],
            rows: [
                "note B#2 body='n' tag=→B#1", "tag A#1 color='red' name='x'", "tag B#1 color='new' name='y'",
            ],
            aliases: [],
            conflicts: ["merged tag B#1"]
        ),
        FoldScenario(
            title: "An insert under an alias by an author who didn't know the merge reaches the row",
            schema: words + "CREATE UNIQUE INDEX m ON word (meaning);",
            sets: [
                .by("A", 1, at: 1, .insert("word", ["a"], ["meaning": "m", "hint": nil])),
                .by("B", 1, at: 2, .insert("word", ["b"], ["meaning": "m", "hint": nil])),
                .by("C", 1, at: 3, .insert("word", ["b"], ["meaning": "n", "hint": nil])),
            ],
            rows: ["word ('a') hint=NULL meaning='n'"],
            aliases: ["word word='b' → ('a')"],
            conflicts: ["merged word ('b')", "overwritten word ('a')"]
        ),
        FoldScenario(
            title: "✱ Of two changes of one set that reach one row and write one cell, the first counts",
            schema: tags,
            sets: twoTags + [
                .by(
                    "C",
                    1,
                    at: 1,
                    .insert("tag", "C#1", ["name": "c", "color": "c"])
                ),
                .by(
                    "B",
                    2,
                    at: 4,
                    .update("tag", "B#1", ["color": .from("blue", to: "second")]),
                    .update("tag", "A#1", ["color": .from("red", to: "first")])
                ),
            ],
            rows: ["tag A#1 color='first' name='x'", "tag C#1 color='c' name='c'"],
            conflicts: ["merged tag B#1", "sameCellTwice tag A#1"],
            lost: [.sameCellTwice: "color='second' / color='first'"]
        ),
        FoldScenario(
            title: "An edit and a delete of one set that meet in one row: the delete is dropped",
            schema: tags,
            sets: twoTags + [
                .by(
                    "C",
                    1,
                    at: 3,
                    seeing: ["A": 1, "B": 1],
                    .delete("tag", "A#1", knowing: ["name": "x", "color": "red"]),
                    .update("tag", "B#1", ["color": .from("red", to: "green")])
                )
            ],
            rows: ["tag A#1 color='green' name='x'"],
            conflicts: ["editedAndDeleted tag A#1", "merged tag B#1"]
        ),
    ]
}
