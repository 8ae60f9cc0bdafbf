import StoreChanges

extension FoldScenarios {
    static let leavingOut: [FoldScenario] = [
        FoldScenario(
            title: "An insert whose reference leads nowhere is left out",
            schema: tags + items,
            sets: [first(.insert("item", "A#1", ["tag": .to("A#9")]))],
            rows: [],
            conflicts: ["leftOut item A#1"],
            lost: [.leftOut: "tag=→A#9 / "]
        ),
        FoldScenario(
            title: "An update whose reference leads nowhere is left out, with all of its columns",
            schema: tags + notes,
            sets: [
                first(
                    .insert("tag", "A#1", ["name": "x", "color": "red"]),
                    .insert("note", "A#2", ["tag": .to("A#1"), "body": "n"])
                ),
                .by(
                    "B",
                    1,
                    at: 2,
                    seeing: ["A": 1],
                    .update("note", "A#2", ["tag": .from(.to("A#1"), to: .to("B#7")), "body": .from("n", to: "o")])
                ),
            ],
            rows: ["note A#2 body='n' tag=→A#1", "tag A#1 color='red' name='x'"],
            conflicts: ["leftOut note A#2"],
            lost: [.leftOut: "body='o' tag=→B#7 / body='n' tag=→A#1"]
        ),
        FoldScenario(
            title: "A re-inserted row that is left out leaves its former tomb",
            schema: "CREATE TABLE tag (id INTEGER PRIMARY KEY, name TEXT);"
                + "CREATE TABLE pair (name TEXT NOT NULL PRIMARY KEY, tag INTEGER REFERENCES tag);",
            sets: [
                first(.insert("pair", ["p"], ["tag": nil])),
                .by("B", 1, at: 2, seeing: ["A": 1], .delete("pair", ["p"], knowing: ["tag": nil])),
                .by("C", 1, at: 3, seeing: ["A": 1, "B": 1], .insert("pair", ["p"], ["tag": .to("C#8")])),
            ],
            rows: [],
            tombs: ["pair ('p')"],
            conflicts: ["leftOut pair ('p')"]
        ),
        FoldScenario(
            title: "A row that a repair makes violate a CHECK is left out",
            schema:
                "CREATE TABLE tag (id INTEGER PRIMARY KEY, name TEXT UNIQUE, size INT, CHECK (name <> 'x' OR size = 1));",
            violations: ["tag": { $0["name"] == .value(.text("x")) && $0["size"] != .value(.integer(1)) }],
            sets: [
                first(
                    .insert("tag", "A#1", ["name": "x", "size": 1]),
                    .insert("tag", "A#2", ["name": "y", "size": 1])
                ),
                .by("B", 1, at: 2, seeing: ["A": 1], .insert("tag", "B#1", ["name": "z", "size": 1])),
                .by(
                    "C",
                    1,
                    at: 3,
                    seeing: ["A": 1],
                    .update("tag", "A#1", ["name": .from("x", to: "z"), "size": .from(1, to: 5)])
                ),
            ],
            rows: ["tag A#1 name='x' size=1", "tag A#2 name='y' size=1", "tag B#1 name='z' size=1"],
            conflicts: ["leftOut tag A#1", "takenBack tag A#1"]
        ),
        FoldScenario(
            title: "An update to a reference whose parent its author had deleted is left out",
            schema: tags + items,
            sets: [
                first(
                    .insert("tag", "A#1", ["name": "x", "color": "red"]),
                    .insert("tag", "A#2", ["name": "y", "color": "blue"]),
                    .insert("item", "A#3", ["tag": .to("A#2")])
                ),
                .by("B", 1, at: 2, seeing: ["A": 1], .delete("tag", "A#1", knowing: ["name": "x", "color": "red"])),
                .by(
                    "B",
                    2,
                    at: 3,
                    seeing: ["A": 1],
                    .update("item", "A#3", ["tag": .from(.to("A#2"), to: .to("A#1"))])
                ),
            ],
            rows: ["item A#3 tag=→A#2", "tag A#2 color='blue' name='y'"],
            tombs: ["tag A#1"],
            conflicts: ["leftOut item A#3"]
        ),
        FoldScenario(
            title: "A reference to a value that was meant for a deleted row is taken back, or the new row is left out",
            schema: "CREATE TABLE code (id INTEGER PRIMARY KEY, name TEXT UNIQUE);"
                + "CREATE TABLE shop (id INTEGER PRIMARY KEY, code TEXT REFERENCES code (name), note TEXT);"
                + "CREATE TABLE visit (code TEXT REFERENCES code (name), day INT);",
            sets: [
                first(
                    .insert("code", "A#1", ["name": "x"]),
                    .insert("code", "A#2", ["name": nil]),
                    .insert("shop", "A#3", ["code": nil, "note": "n"])
                ),
                .by("B", 1, at: 2, seeing: ["A": 1], .delete("code", "A#2", knowing: ["name": nil])),
                .by(
                    "C",
                    1,
                    at: 3,
                    seeing: ["A": 1],
                    .update("code", "A#1", ["name": .from("x", to: nil)]),
                    .update("code", "A#2", ["name": .from(nil, to: "x")]),
                    .update("shop", "A#3", ["code": .from(nil, to: "x"), "note": .from("n", to: "o")]),
                    .insert("shop", "C#1", ["code": "x", "note": "p"]),
                    .insert("visit", ["x", 1])
                ),
            ],
            rows: ["code A#1 name=NULL", "shop A#3 code=NULL note='o'"],
            tombs: ["code A#2"],
            conflicts: ["editOfDeleted code A#2", "leftOut shop C#1", "leftOut visit ('x', 1)", "takenBack shop A#3"],
            lost: [.takenBack: "code='x' / code=NULL"]
        ),
        FoldScenario(
            title: "A row that came back and whose parent can't come back is a deleted row again",
            schema: """
                CREATE TABLE code (code TEXT UNIQUE, x);
                CREATE TABLE file (id INTEGER PRIMARY KEY, code TEXT REFERENCES code (code) ON DELETE CASCADE);
                CREATE TABLE page (id INTEGER PRIMARY KEY, file INTEGER NOT NULL REFERENCES file);
                """,
            sets: [
                first(.insert("code", ["a", 1])),
                .by(
                    "B",
                    1,
                    at: 2,
                    seeing: ["A": 1],
                    .insert("file", "B#1", ["code": "a"]),
                    .insert("page", "B#2", ["file": .to("B#1")])
                ),
                .by("C", 1, at: 3, seeing: ["A": 1], .delete("code", ["a", 1])),
            ],
            rows: [],
            tombs: ["file B#1", "page B#2"],
            conflicts: [
                "broughtBack file B#1", "deletedWithParent file B#1", "leftOut file B#1", "takenOut page B#2",
            ]
        ),
        FoldScenario(
            title: "A row with a key that takes the value of a row without one is left out",
            schema: "CREATE TABLE seat (a TEXT, b TEXT, guest TEXT UNIQUE, note TEXT, PRIMARY KEY (a, b));",
            sets: [
                first(
                    .insert("seat", ["x", nil, "g", nil]),
                    .insert("seat", ["x", "y"], ["guest": "h", "note": "n"])
                ),
                .by(
                    "B",
                    1,
                    at: 2,
                    seeing: ["A": 1],
                    .update("seat", ["x", "y"], ["guest": .from("h", to: "g"), "note": .from("n", to: "o")]),
                    .insert("seat", ["x", "z"], ["guest": "g", "note": "p"])
                ),
            ],
            rows: ["seat ('x', 'y') guest='h' note='n'", "seat ('x', NULL, 'g', NULL) ×1"],
            conflicts: ["leftOut seat ('x', 'y')", "leftOut seat ('x', 'z')"]
        ),
    ]
}

// MARK: Rule 6

extension FoldScenarios {
    static let logs = "CREATE TABLE log (line TEXT, note INTEGER REFERENCES tag ON DELETE SET NULL);" + tags

    static let counts: [FoldScenario] = [
        FoldScenario(
            title: "Two devices that insert the same row without a key make two, and a delete removes one",
            schema: logs,
            sets: [
                .by("A", 1, at: 1, .insert("log", ["x", nil])),
                .by("B", 1, at: 2, .insert("log", ["x", nil]), .insert("log", ["x", nil])),
                .by("C", 1, at: 3, seeing: ["A": 1], .delete("log", ["x", nil])),
            ],
            rows: ["log ('x', NULL) ×2"]
        ),
        FoldScenario(
            title: "A count never falls below zero",
            schema: logs,
            sets: [
                first(.insert("log", ["x", nil])),
                .by("B", 1, at: 2, seeing: ["A": 1], .delete("log", ["x", nil])),
                .by("C", 1, at: 3, seeing: ["A": 1], .delete("log", ["x", nil])),
            ],
            rows: [],
            conflicts: ["countBelowZero log ('x', NULL)"]
        ),
        FoldScenario(
            title: "References of rows without a key follow a merge, and equal rows add up",
            schema: logs,
            sets: [
                .by(
                    "A",
                    1,
                    at: 1,
                    .insert("tag", "A#1", ["name": "x", "color": "r"]),
                    .insert("log", ["l", .to("A#1")])
                ),
                .by(
                    "B",
                    1,
                    at: 2,
                    .insert("tag", "B#1", ["name": "x", "color": "r"]),
                    .insert("log", ["l", .to("B#1")])
                ),
                .by("B", 2, at: 3, .insert("log", ["l", .to("B#1")])),
            ],
            rows: ["log ('l', →A#1) ×3", "tag A#1 color='r' name='x'"],
            conflicts: ["merged tag B#1"]
        ),
        FoldScenario(
            title: "A reference of a row without a key is cleared with its parent",
            schema: logs,
            sets: [
                first(.insert("tag", "A#1", ["name": "x", "color": "r"])),
                .by("B", 1, at: 2, seeing: ["A": 1], .insert("log", ["l", .to("A#1")])),
                .by("C", 1, at: 3, seeing: ["A": 1], .delete("tag", "A#1", knowing: ["name": "x", "color": "r"])),
            ],
            rows: ["log ('l', NULL) ×1"],
            tombs: ["tag A#1"],
            conflicts: ["referenceCleared log ('l', →A#1)"]
        ),
        FoldScenario(
            title: "Of rows without a key that clash, the later one is left out",
            schema: "CREATE TABLE seat (number INT UNIQUE, name TEXT);",
            sets: [
                .by("A", 1, at: 1, .insert("seat", ["a", 1])), .by("B", 1, at: 2, .insert("seat", ["b", 1])),
                .by("C", 1, at: 3, .insert("seat", ["a", 1])),
            ],
            rows: ["seat ('a', 1) ×1"],
            conflicts: ["leftOut seat ('a', 1)", "leftOut seat ('b', 1)"]
        ),
        FoldScenario(
            title: "Rows with NULL in their key are counted",
            schema: "CREATE TABLE pair (a TEXT, b TEXT, c TEXT, PRIMARY KEY (a, b));",
            sets: [
                .by("A", 1, at: 1, .insert("pair", ["x", nil, "c"])),
                .by("B", 1, at: 2, .insert("pair", ["x", nil, "c"])),
                .by("C", 1, at: 3, .insert("pair", ["x", "y"], ["c": "c"])),
            ],
            rows: ["pair ('x', 'y') c='c'", "pair ('x', NULL, 'c') ×2"]
        ),
    ]
}
