import StoreChanges

// MARK: Rule 5, UNIQUE

extension FoldScenarios {
    static let identities: [FoldScenario] = [
        FoldScenario(
            title: "Of two rows to which one set gave the same values, the one with the greater name is taken back",
            schema: "CREATE TABLE cell (id INTEGER PRIMARY KEY, x INT, y TEXT, UNIQUE (x, y));",
            sets: [
                first(.insert("cell", "A#1", ["x": 1, "y": "1"]), .insert("cell", "A#2", ["x": 2, "y": "2"])),
                .by(
                    "B",
                    1,
                    at: 2,
                    seeing: ["A": 1],
                    .update("cell", "A#1", ["x": .from(1, to: 3)]),
                    .update("cell", "A#2", ["y": .from("2", to: "5")])
                ),
                .by(
                    "C",
                    1,
                    at: 3,
                    seeing: ["A": 1],
                    .update("cell", "A#1", ["y": .from("1", to: "5")]),
                    .update("cell", "A#2", ["x": .from(2, to: 3)])
                ),
            ],
            rows: ["cell A#1 x=3 y='5'", "cell A#2 x=2 y='5'"],
            conflicts: ["takenBack cell A#2"]
        ),
        FoldScenario(
            title: "Two inserted rows with the same unique values are merged; the image of the later one is logged",
            schema: tags,
            sets: twoTags,
            rows: ["tag A#1 color='red' name='x'"],
            aliases: ["tag id=→B#1 → A#1"],
            conflicts: ["merged tag B#1"],
            lost: [.merged: "color='blue' name='x' / color='red' name='x'"]
        ),
        FoldScenario(
            title: "An update to the unique value of another row is taken back, its other columns stay",
            schema: tags,
            sets: [
                first(
                    .insert("tag", "A#1", ["name": "x", "color": "red"]),
                    .insert("tag", "A#2", ["name": "y", "color": "blue"])
                ),
                .by("B", 1, at: 2, seeing: ["A": 1], .update("tag", "A#1", ["name": .from("x", to: "z")])),
                .by(
                    "C",
                    1,
                    at: 3,
                    seeing: ["A": 1],
                    .update("tag", "A#2", ["name": .from("y", to: "z"), "color": .from("blue", to: "green")])
                ),
            ],
            rows: ["tag A#1 color='red' name='z'", "tag A#2 color='green' name='y'"],
            conflicts: ["takenBack tag A#2"],
            lost: [.takenBack: "name='z' / name='y'"]
        ),
        FoldScenario(
            title: "An update that is taken back to a value that another row of the set took sets that one back too",
            schema: tags,
            sets: [
                first(
                    .insert("tag", "A#1", ["name": "x", "color": "red"]),
                    .insert("tag", "A#2", ["name": "y", "color": "blue"])
                ),
                .by("B", 1, at: 2, seeing: ["A": 1], .insert("tag", "B#1", ["name": "z", "color": "b"])),
                .by(
                    "C",
                    1,
                    at: 3,
                    seeing: ["A": 1],
                    .update("tag", "A#1", ["name": .from("x", to: "z")]),
                    .update("tag", "A#2", ["name": .from("y", to: "x")])
                ),
            ],
            rows: ["tag A#1 color='red' name='x'", "tag A#2 color='blue' name='y'", "tag B#1 color='b' name='z'"],
            conflicts: ["takenBack tag A#1", "takenBack tag A#2"]
        ),
        FoldScenario(
            title: "A merge renames rows whose key contains the merged row, and merges rows that meet",
            schema: tags + labels,
            sets: [
                .by(
                    "A",
                    1,
                    at: 1,
                    .insert("tag", "A#1", ["name": "x", "color": "red"]),
                    .insert("label", ["en", .to("A#1")], ["title": "a"])
                ),
                .by(
                    "B",
                    1,
                    at: 2,
                    .insert("tag", "B#1", ["name": "x", "color": "blue"]),
                    .insert("label", ["de", .to("B#1")], ["title": "b"]),
                    .insert("label", ["en", .to("B#1")], ["title": "c"])
                ),
                .by("B", 2, at: 3, .update("label", ["de", .to("B#1")], ["title": .from("b", to: "d")])),
            ],
            rows: [
                "label ('de', →A#1) title='d'", "label ('en', →A#1) title='a'", "tag A#1 color='red' name='x'",
            ],
            aliases: [
                "label lang='de' tag=→B#1 → ('de', →A#1)", "label lang='en' tag=→B#1 → ('en', →A#1)",
                "tag id=→B#1 → A#1",
            ],
            conflicts: ["merged label ('en', →B#1)", "merged tag B#1"]
        ),
        FoldScenario(
            title: "✱ A row that moves to the name of an inserted one stays, and no alias leads back to it",
            schema: "CREATE TABLE shop (id INTEGER PRIMARY KEY, code TEXT UNIQUE);"
                + "CREATE TABLE price (shop TEXT REFERENCES shop (code), day INT, cents INT, PRIMARY KEY (shop, day));",
            sets: [
                first(.insert("shop", "A#1", ["code": "a"])),
                .by("C", 1, at: 2, seeing: ["A": 1], .insert("price", [1, "a"], ["cents": 10])),
                .by(
                    "B",
                    1,
                    at: 3,
                    seeing: ["A": 1],
                    .update("shop", "A#1", ["code": .from("a", to: "b")]),
                    .insert("price", [1, "b"], ["cents": 20])
                ),
                .by("C", 2, at: 4, .update("price", [1, "a"], ["cents": .from(10, to: 11)])),
            ],
            rows: ["price (1, 'b') cents=11", "shop A#1 code='b'"],
            aliases: ["price day=1 shop='a' → (1, 'b')", "shop code='a' → A#1"],
            conflicts: ["merged price (1, 'b')"],
            lost: [.merged: "cents=20 / cents=10"]
        ),
        FoldScenario(
            title: "A partial index counts the rows that satisfy it, and an update into it is taken back",
            schema: "CREATE TABLE task (id INTEGER PRIMARY KEY, name TEXT, active INT);"
                + "CREATE UNIQUE INDEX i ON task (name) WHERE active = 1;",
            indexKey: { _, _, cells in
                cells["active"] == .value(.integer(1)) ? [cells["name"] ?? .value(.null)] : nil
            },
            sets: [
                first(
                    .insert("task", "A#1", ["name": "x", "active": 0]),
                    .insert("task", "A#2", ["name": "x", "active": 0])
                ),
                .by("B", 1, at: 2, seeing: ["A": 1], .update("task", "A#1", ["active": .from(0, to: 1)])),
                .by("C", 1, at: 3, seeing: ["A": 1], .update("task", "A#2", ["active": .from(0, to: 1)])),
            ],
            rows: ["task A#1 active=1 name='x'", "task A#2 active=0 name='x'"],
            conflicts: ["takenBack task A#2"]
        ),
        FoldScenario(
            title: "Uniques compare as SQLite does: without regard to case, and 1 equals 1.0",
            schema: "CREATE TABLE user (id INTEGER PRIMARY KEY, name TEXT UNIQUE COLLATE NOCASE, n UNIQUE);",
            sets: [
                .by("A", 1, at: 1, .insert("user", "A#1", ["name": "Ann", "n": 1])),
                .by("B", 1, at: 2, .insert("user", "B#1", ["name": "ANN", "n": 2])),
                .by("C", 1, at: 3, .insert("user", "C#1", ["name": "Cid", "n": .real(1)])),
            ],
            rows: ["user A#1 n=1 name='Ann'"],
            conflicts: ["merged user B#1", "merged user C#1"]
        ),
        FoldScenario(
            title: "A natural key that differs only in case is the same row",
            schema: "CREATE TABLE user (name TEXT NOT NULL PRIMARY KEY COLLATE NOCASE, age INT);"
                + "CREATE TABLE post (id INTEGER PRIMARY KEY, user TEXT REFERENCES user);",
            sets: [
                .by("A", 1, at: 1, .insert("user", ["Ann"], ["age": 1])),
                .by(
                    "B",
                    1,
                    at: 2,
                    .insert("user", ["ANN"], ["age": 2]),
                    .insert("post", "B#1", ["user": "ann"])
                ),
                .by("B", 2, at: 3, .update("user", ["ANN"], ["age": .from(1, to: 3)])),
            ],
            rows: ["post B#1 user='ann'", "user ('Ann') age=3"],
            aliases: ["user name='ANN' → ('Ann')"],
            conflicts: ["merged user ('ANN')"]
        ),
        FoldScenario(
            title: "Rows that clash with a row that is merged because of another index are merged too",
            schema: "CREATE TABLE user (name TEXT NOT NULL PRIMARY KEY, mail TEXT UNIQUE, phone TEXT UNIQUE);",
            sets: [
                .by("A", 1, at: 1, .insert("user", ["b"], ["mail": "m", "phone": "1"])),
                .by(
                    "B",
                    1,
                    at: 2,
                    .insert("user", ["a"], ["mail": "m", "phone": "1"]),
                    .insert("user", ["c"], ["mail": "n", "phone": "1"])
                ),
            ],
            rows: ["user ('b') mail='m' phone='1'"],
            conflicts: ["merged user ('a')", "merged user ('c')"]
        ),
        FoldScenario(
            title: "NULLs never clash",
            schema: tags,
            sets: [
                .by("A", 1, at: 1, .insert("tag", "A#1", ["name": nil, "color": "red"])),
                .by("B", 1, at: 2, .insert("tag", "B#1", ["name": nil, "color": "blue"])),
            ],
            rows: ["tag A#1 color='red' name=NULL", "tag B#1 color='blue' name=NULL"]
        ),
        FoldScenario(
            title: "Inserters move with a merge: who hadn't seen the merged row can't delete the row that stays",
            schema: tags,
            sets: twoTags + [
                .by(
                    "C",
                    1,
                    at: 3,
                    seeing: ["A": 1],
                    .delete("tag", "A#1", knowing: ["name": "x", "color": "red"])
                )
            ],
            rows: ["tag A#1 color='red' name='x'"],
            conflicts: ["deleteRefused tag A#1", "merged tag B#1"]
        ),
        FoldScenario(
            title: "References and former values of a merged row lead to the row that stays",
            schema: "CREATE TABLE shop (id INTEGER PRIMARY KEY, code TEXT UNIQUE, phone TEXT UNIQUE);"
                + "CREATE TABLE sale (id INTEGER PRIMARY KEY, shop TEXT REFERENCES shop (code));",
            sets: [
                .by("A", 1, at: 1, .insert("shop", "A#1", ["code": "a", "phone": "1"])),
                .by(
                    "B",
                    1,
                    at: 2,
                    .insert("shop", "B#1", ["code": "b", "phone": "1"]),
                    .insert("sale", "B#2", ["shop": "b"])
                ),
                .by("B", 2, at: 3, .insert("sale", "B#3", ["shop": "b"])),
            ],
            rows: ["sale B#2 shop='a'", "sale B#3 shop='a'", "shop A#1 code='a' phone='1'"],
            aliases: ["shop code='b' → A#1", "shop id=→B#1 → A#1"],
            conflicts: ["merged shop B#1"]
        ),
        FoldScenario(
            title: "A former value that another row takes leads no longer to the row that had it",
            schema: "CREATE TABLE shop (id INTEGER PRIMARY KEY, code TEXT UNIQUE, phone TEXT UNIQUE);"
                + "CREATE TABLE sale (id INTEGER PRIMARY KEY, shop TEXT REFERENCES shop (code));",
            sets: [
                first(.insert("shop", "A#1", ["code": "a", "phone": "1"])),
                .by("B", 1, at: 2, seeing: ["A": 1], .update("shop", "A#1", ["code": .from("a", to: "b")])),
                .by("C", 1, at: 3, .insert("shop", "C#1", ["code": "a", "phone": "2"])),
                .by("C", 2, at: 4, .update("shop", "C#1", ["code": .from("a", to: "c")])),
                .by(
                    "B",
                    2,
                    at: 5,
                    .update("shop", "A#1", ["code": .from("b", to: "a")])
                ),
            ],
            rows: ["shop A#1 code='a' phone='1'", "shop C#1 code='c' phone='2'"],
            aliases: ["shop code='b' → A#1"]
        ),
    ]

    static let positions: [FoldScenario] = {
        let schema = """
            CREATE TABLE list (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
            CREATE TABLE entry (id INTEGER PRIMARY KEY, list INTEGER REFERENCES list, place INT, UNIQUE (list, place));
            """
        let start = first(
            .insert("list", "A#1", ["name": "l"]),
            .insert("entry", "A#2", ["list": .to("A#1"), "place": 1])
        )
        return [
            FoldScenario(
                title: "Rows that want the same position move to the end together, in their order",
                schema: schema,
                sets: [
                    start,
                    .by(
                        "B",
                        1,
                        at: 2,
                        seeing: ["A": 1],
                        .insert("entry", "B#1", ["list": .to("A#1"), "place": 2]),
                        .insert("entry", "B#2", ["list": .to("A#1"), "place": 3])
                    ),
                    .by(
                        "C",
                        1,
                        at: 3,
                        seeing: ["A": 1],
                        .insert("entry", "C#1", ["list": .to("A#1"), "place": 3]),
                        .insert("entry", "C#2", ["list": .to("A#1"), "place": 2])
                    ),
                ],
                rows: [
                    "entry A#2 list=→A#1 place=1", "entry B#1 list=→A#1 place=2", "entry B#2 list=→A#1 place=3",
                    "entry C#1 list=→A#1 place=5", "entry C#2 list=→A#1 place=4", "list A#1 name='l'",
                ],
                conflicts: ["moved entry C#1", "moved entry C#2"]
            ),
            FoldScenario(
                title: "The rows of two lists that are merged follow each other",
                schema: schema,
                sets: [
                    start,
                    .by(
                        "B",
                        1,
                        at: 2,
                        .insert("list", "B#1", ["name": "l"]),
                        .insert("entry", "B#2", ["list": .to("B#1"), "place": 1]),
                        .insert("entry", "B#3", ["list": .to("B#1"), "place": 2])
                    ),
                ],
                rows: [
                    "entry A#2 list=→A#1 place=1", "entry B#2 list=→A#1 place=3", "entry B#3 list=→A#1 place=4",
                    "list A#1 name='l'",
                ],
                conflicts: ["merged list B#1", "moved entry B#2", "moved entry B#3"]
            ),
            FoldScenario(
                title: "Where there is no higher position, rows of one position are merged",
                schema: schema,
                sets: [
                    first(
                        .insert("list", "A#1", ["name": "l"]),
                        .insert("entry", "A#2", ["list": .to("A#1"), "place": .cell(.value(.integer(.max)))])
                    ),
                    .by(
                        "B",
                        1,
                        at: 2,
                        seeing: ["A": 1],
                        .insert("entry", "B#1", ["list": .to("A#1"), "place": .cell(.value(.integer(.max)))])
                    ),
                ],
                rows: ["entry A#2 list=→A#1 place=\(Int64.max)", "list A#1 name='l'"],
                conflicts: ["merged entry B#1"]
            ),
            FoldScenario(
                title: "By a partial index the rows move that it has, behind the last of them",
                schema: """
                    CREATE TABLE list (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
                    CREATE TABLE entry (id INTEGER PRIMARY KEY, list INTEGER REFERENCES list, place INT, hidden INT);
                    CREATE UNIQUE INDEX places ON entry (list, place) WHERE hidden = 0;
                    """,
                indexKey: { index, _, cells in
                    guard index.condition == nil || cells["hidden"] == .value(.integer(0)) else { return nil }
                    return index.columns?.map { cells[$0] ?? .value(.null) }
                },
                sets: [
                    first(
                        .insert("list", "A#1", ["name": "l"]),
                        .insert("entry", "A#2", ["list": .to("A#1"), "place": 7, "hidden": 1])
                    ),
                    .by(
                        "B",
                        1,
                        at: 2,
                        seeing: ["A": 1],
                        .insert("entry", "B#1", ["list": .to("A#1"), "place": 2, "hidden": 0])
                    ),
                    .by(
                        "C",
                        1,
                        at: 3,
                        seeing: ["A": 1],
                        .insert("entry", "C#1", ["list": .to("A#1"), "place": 2, "hidden": 0]),
                        .insert("entry", "C#2", ["list": .to("A#1"), "place": 2, "hidden": 1])
                    ),
                    .by("C", 2, at: 4, .update("entry", "C#2", ["hidden": .from(1, to: 0)])),
                ],
                rows: [
                    "entry A#2 hidden=1 list=→A#1 place=7", "entry B#1 hidden=0 list=→A#1 place=2",
                    "entry C#1 hidden=0 list=→A#1 place=3", "entry C#2 hidden=0 list=→A#1 place=4", "list A#1 name='l'",
                ],
                conflicts: ["moved entry C#1", "moved entry C#2"]
            ),
            FoldScenario(
                title: "A row whose key has its position moves to the end under a new name, and later edits find it",
                schema: """
                    CREATE TABLE list (id INTEGER PRIMARY KEY, name TEXT);
                    CREATE TABLE entry (
                        list INT REFERENCES list, word TEXT, place INT, note TEXT,
                        PRIMARY KEY (list, word, place), UNIQUE (list, place)
                    );
                    """,
                sets: [
                    first(
                        .insert("list", "A#1", ["name": "l"]),
                        .insert("entry", [.to("A#1"), 1, "x"], ["note": "a"])
                    ),
                    .by("B", 1, at: 2, seeing: ["A": 1], .insert("entry", [.to("A#1"), 2, "y"], ["note": "b"])),
                    .by(
                        "C",
                        1,
                        at: 3,
                        seeing: ["A": 1],
                        .insert("entry", [.to("A#1"), 2, "z"], ["note": "c"]),
                        .insert("entry", [.to("A#1"), 3, "w"], ["note": "d"])
                    ),
                    .by("C", 2, at: 4, .update("entry", [.to("A#1"), 2, "z"], ["note": .from("c", to: "e")])),
                ],
                rows: [
                    "entry (→A#1, 1, 'x') note='a'", "entry (→A#1, 2, 'y') note='b'", "entry (→A#1, 4, 'z') note='e'",
                    "entry (→A#1, 5, 'w') note='d'", "list A#1 name='l'",
                ],
                conflicts: ["moved entry (→A#1, 4, 'z')", "moved entry (→A#1, 5, 'w')"]
            ),
            FoldScenario(
                title: "A row moves past a position at which a row of another list has its name",
                schema: """
                    CREATE TABLE list (id INTEGER PRIMARY KEY, name TEXT);
                    CREATE TABLE entry (
                        list INT REFERENCES list, word TEXT, place INT, PRIMARY KEY (word, place), UNIQUE (list, place)
                    );
                    """,
                sets: [
                    first(
                        .insert("list", "A#1", ["name": "l"]),
                        .insert("list", "A#2", ["name": "m"]),
                        .insert("entry", [3, "z"], ["list": .to("A#2")])
                    ),
                    .by("B", 1, at: 2, seeing: ["A": 1], .insert("entry", [2, "y"], ["list": .to("A#1")])),
                    .by("C", 1, at: 3, seeing: ["A": 1], .insert("entry", [2, "z"], ["list": .to("A#1")])),
                ],
                rows: [
                    "entry (2, 'y') list=→A#1", "entry (3, 'z') list=→A#2", "entry (4, 'z') list=→A#1",
                    "list A#1 name='l'", "list A#2 name='m'",
                ],
                conflicts: ["moved entry (4, 'z')"]
            ),
            FoldScenario(
                title: "By a rule, a table is one list where a single column is the position",
                schema: "CREATE TABLE task (id INTEGER PRIMARY KEY, place INTEGER UNIQUE);",
                rules: SyncRules(uniques: [.init(table: "task", columns: ["place"], kind: .position)]),
                sets: [
                    first(.insert("task", "A#1", ["place": 1])),
                    .by("B", 1, at: 2, seeing: ["A": 1], .insert("task", "B#1", ["place": 2])),
                    .by(
                        "C",
                        1,
                        at: 3,
                        seeing: ["A": 1],
                        .insert("task", "C#1", ["place": 2]),
                        .insert("task", "C#2", ["place": 3])
                    ),
                ],
                rows: ["task A#1 place=1", "task B#1 place=2", "task C#1 place=4", "task C#2 place=5"],
                conflicts: ["moved task C#1", "moved task C#2"]
            ),
        ]
    }()
}

// MARK: Rule 5, references

extension FoldScenarios {
    /// A folder that one device deletes while another one, which doesn't know it, adds a file.
    private static func folders(_ action: String, _ column: String = "INTEGER") -> String {
        "CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT);"
            + "CREATE TABLE file (id INTEGER PRIMARY KEY, folder \(column) REFERENCES folder \(action), name TEXT);"
    }

    private static let deleteThenInsert: [SyncChangeSet] = [
        first(.insert("folder", "A#1", ["name": "f"])),
        .by("B", 1, at: 2, seeing: ["A": 1], .delete("folder", "A#1", knowing: ["name": "f"])),
        .by("C", 1, at: 3, seeing: ["A": 1], .insert("file", "C#1", ["folder": .to("A#1"), "name": "n"])),
    ]

    private static let insertThenDelete: [SyncChangeSet] = [
        first(.insert("folder", "A#1", ["name": "f"])),
        .by("C", 1, at: 2, seeing: ["A": 1], .insert("file", "C#1", ["folder": .to("A#1"), "name": "n"])),
        .by("B", 1, at: 3, seeing: ["A": 1], .delete("folder", "A#1", knowing: ["name": "f"])),
    ]

    static let references: [FoldScenario] =
        [(deleteThenInsert, "an earlier"), (insertThenDelete, "a later")].flatMap { sets, which in
            [
                FoldScenario(
                    title: "CASCADE takes a row out whose parent goes by \(which) delete",
                    schema: folders("ON DELETE CASCADE"),
                    sets: sets,
                    rows: [],
                    tombs: ["file C#1", "folder A#1"],
                    conflicts: ["deletedWithParent file C#1"],
                    lost: [.deletedWithParent: "folder=→A#1 name='n' / "]
                ),
                FoldScenario(
                    title: "SET NULL clears a reference whose parent goes by \(which) delete",
                    schema: folders("ON DELETE SET NULL"),
                    sets: sets,
                    rows: ["file C#1 folder=NULL name='n'"],
                    tombs: ["folder A#1"],
                    conflicts: ["referenceCleared file C#1"],
                    lost: [.referenceCleared: "folder=→A#1 / folder=NULL"]
                ),
                FoldScenario(
                    title: "SET NULL brings the parent back from \(which) delete where the column is NOT NULL",
                    schema: folders("ON DELETE SET NULL", "INTEGER NOT NULL"),
                    sets: sets,
                    rows: ["file C#1 folder=→A#1 name='n'", "folder A#1 name='f'"],
                    conflicts: ["broughtBack folder A#1"]
                ),
                FoldScenario(
                    title: "SET NULL brings the parent back from \(which) delete where a CHECK names the column",
                    schema: folders("ON DELETE SET NULL", "INTEGER CHECK (folder > 0)"),
                    sets: sets,
                    rows: ["file C#1 folder=→A#1 name='n'", "folder A#1 name='f'"],
                    conflicts: ["broughtBack folder A#1"]
                ),
                FoldScenario(
                    title: "RESTRICT brings the parent back from \(which) delete",
                    schema: folders("ON DELETE RESTRICT"),
                    sets: sets,
                    rows: ["file C#1 folder=→A#1 name='n'", "folder A#1 name='f'"],
                    conflicts: ["broughtBack folder A#1"]
                ),
                FoldScenario(
                    title: "SET DEFAULT brings the parent back from \(which) delete",
                    schema: folders("ON DELETE SET DEFAULT"),
                    sets: sets,
                    rows: ["file C#1 folder=→A#1 name='n'", "folder A#1 name='f'"],
                    conflicts: ["broughtBack folder A#1"]
                ),
                FoldScenario(
                    title: "Without an action, the parent comes back from \(which) delete",
                    schema: folders(""),
                    sets: sets,
                    rows: ["file C#1 folder=→A#1 name='n'", "folder A#1 name='f'"],
                    conflicts: ["broughtBack folder A#1"]
                ),
            ]
        }
}
