import StoreChanges

// MARK: Rule 5, parents that come back, and what is left out

extension FoldScenarios {
    private static let codes = """
        CREATE TABLE code (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
        CREATE TABLE shop (id INTEGER PRIMARY KEY, code TEXT REFERENCES code (name));
        """

    static let parents: [FoldScenario] = [
        FoldScenario(
            title: "A parent comes back with its own missing parents, whatever their action",
            schema: trees + "CREATE TABLE page (id INTEGER PRIMARY KEY, file INTEGER NOT NULL REFERENCES file);",
            sets: [
                first(
                    .insert("folder", "A#1", ["up": nil, "name": "f"]),
                    .insert("folder", "A#2", ["up": .to("A#1"), "name": "g"]),
                    .insert("file", "A#3", ["folder": .to("A#2"), "name": "n"])
                ),
                .by(
                    "B",
                    1,
                    at: 2,
                    seeing: ["A": 1],
                    .delete("folder", "A#1", knowing: ["up": nil, "name": "f"]),
                    .delete("folder", "A#2", knowing: ["up": .to("A#1"), "name": "g"], with: [("folder", "A#1")]),
                    .delete("file", "A#3", knowing: ["folder": .to("A#2"), "name": "n"], with: [("folder", "A#2")])
                ),
                .by("C", 1, at: 3, seeing: ["A": 1], .insert("page", "C#1", ["file": .to("A#3")])),
            ],
            rows: [
                "file A#3 folder=→A#2 name='n'", "folder A#1 name='f' up=NULL", "folder A#2 name='g' up=→A#1",
                "page C#1 file=→A#3",
            ],
            conflicts: ["broughtBack file A#3", "broughtBack folder A#1", "broughtBack folder A#2"]
        ),
        FoldScenario(
            title: "Consequences of the set's delete come back with the parent",
            schema: trees + "CREATE TABLE pin (id INTEGER PRIMARY KEY, folder INTEGER NOT NULL REFERENCES folder);",
            sets: [
                first(
                    .insert("folder", "A#1", ["up": nil, "name": "f"]),
                    .insert("file", "A#2", ["folder": .to("A#1"), "name": "n"])
                ),
                .by("C", 1, at: 2, seeing: ["A": 1], .insert("pin", "C#1", ["folder": .to("A#1")])),
                .by(
                    "B",
                    1,
                    at: 3,
                    seeing: ["A": 1],
                    .delete("folder", "A#1", knowing: ["up": nil, "name": "f"]),
                    .delete("file", "A#2", knowing: ["folder": .to("A#1"), "name": "n"], with: [("folder", "A#1")])
                ),
            ],
            rows: ["file A#2 folder=→A#1 name='n'", "folder A#1 name='f' up=NULL", "pin C#1 folder=→A#1"],
            conflicts: ["broughtBack file A#2", "broughtBack folder A#1"]
        ),
        FoldScenario(
            title: "What CASCADE took out in the set comes back with the parent",
            schema: trees + "CREATE TABLE page (id INTEGER PRIMARY KEY, file INTEGER NOT NULL REFERENCES file);",
            sets: [
                first(.insert("folder", "A#1", ["up": nil, "name": "f"])),
                .by(
                    "C",
                    1,
                    at: 2,
                    seeing: ["A": 1],
                    .insert("file", "C#1", ["folder": .to("A#1"), "name": "n"]),
                    .insert("file", "C#2", ["folder": .to("A#1"), "name": "o"]),
                    .insert("page", "C#3", ["file": .to("C#2")])
                ),
                .by("B", 1, at: 3, seeing: ["A": 1], .delete("folder", "A#1", knowing: ["up": nil, "name": "f"])),
            ],
            rows: [
                "file C#1 folder=→A#1 name='n'", "file C#2 folder=→A#1 name='o'", "folder A#1 name='f' up=NULL",
                "page C#3 file=→C#2",
            ],
            conflicts: [
                "broughtBack file C#1", "broughtBack file C#2", "broughtBack folder A#1", "deletedWithParent file C#1",
                "deletedWithParent file C#2",
            ]
        ),
        FoldScenario(
            title: "A row whose deletion the author knew isn't taken for the parent with the same values",
            schema: codes,
            sets: [
                first(.insert("code", "A#1", ["name": "x"])),
                .by(
                    "A",
                    2,
                    at: 2,
                    .delete("code", "A#1", knowing: ["name": "x"]),
                    .insert("code", "A#2", ["name": "x"])
                ),
                .by("B", 1, at: 3, seeing: ["A": 2], .delete("code", "A#2", knowing: ["name": "x"])),
                .by("C", 1, at: 4, seeing: ["A": 2], .insert("shop", "C#1", ["code": "x"])),
            ],
            rows: ["code A#2 name='x'", "shop C#1 code='x'"],
            tombs: ["code A#1"],
            conflicts: ["broughtBack code A#2"]
        ),
        FoldScenario(
            title: "A row that comes back brings no parent whose deletion the author knew",
            schema: codes + "CREATE TABLE sale (id INTEGER PRIMARY KEY, shop INTEGER NOT NULL REFERENCES shop);",
            sets: [
                first(.insert("code", "A#1", ["name": "x"]), .insert("shop", "A#2", ["code": "x"])),
                .by(
                    "A",
                    2,
                    at: 2,
                    .delete("code", "A#1", knowing: ["name": "x"]),
                    .insert("code", "A#3", ["name": "x"])
                ),
                .by(
                    "B",
                    1,
                    at: 3,
                    seeing: ["A": 2],
                    .delete("code", "A#3", knowing: ["name": "x"]),
                    .delete("shop", "A#2", knowing: ["code": "x"])
                ),
                .by("C", 1, at: 4, seeing: ["A": 2], .insert("sale", "C#1", ["shop": .to("A#2")])),
            ],
            rows: ["code A#3 name='x'", "sale C#1 shop=→A#2", "shop A#2 code='x'"],
            tombs: ["code A#1"],
            conflicts: ["broughtBack code A#3", "broughtBack shop A#2"]
        ),
        FoldScenario(
            title: "Of two deleted rows with the referenced values, the one comes back that the set itself inserted",
            schema: """
                CREATE TABLE owner (id INTEGER PRIMARY KEY);
                CREATE TABLE code (id TEXT PRIMARY KEY, name TEXT UNIQUE,
                    owner INTEGER REFERENCES owner ON DELETE CASCADE);
                CREATE TABLE shop (id INTEGER PRIMARY KEY, code TEXT REFERENCES code (name));
                """,
            sets: [
                first(
                    .insert("owner", "A#1", [:]),
                    .insert("code", ["a"], ["name": "x", "owner": nil]),
                    .insert("code", ["b"], ["name": "y", "owner": nil])
                ),
                .by("A", 2, at: 2, .delete("code", ["b"], knowing: ["name": "y", "owner": nil])),
                .by("D", 1, at: 3, seeing: ["A": 2], .delete("code", ["a"], knowing: ["name": "x", "owner": nil])),
                .by("E", 1, at: 4, seeing: ["A": 2], .delete("owner", "A#1", knowing: [:])),
                .by(
                    "C",
                    1,
                    at: 5,
                    seeing: ["A": 2],
                    .delete("code", ["a"], knowing: ["name": "x", "owner": nil]),
                    .insert("code", ["b"], ["name": "x", "owner": .to("A#1")]),
                    .insert("shop", "C#1", ["code": "x"])
                ),
            ],
            rows: ["code ('b') name='x' owner=→A#1", "owner A#1", "shop C#1 code='x'"],
            tombs: ["code ('a')"],
            conflicts: ["deletedWithParent code ('b')", "broughtBack code ('b')", "broughtBack owner A#1"]
        ),
        FoldScenario(
            title: "A parent comes back although the row that refers to it by its key has got another name in the set",
            schema: """
                CREATE TABLE maker (id INTEGER PRIMARY KEY);
                CREATE TABLE code (id INTEGER PRIMARY KEY, name TEXT UNIQUE,
                    maker INTEGER REFERENCES maker ON DELETE CASCADE);
                CREATE TABLE price (code TEXT NOT NULL REFERENCES code (name), day INTEGER NOT NULL,
                    PRIMARY KEY (code, day));
                """,
            sets: [
                first(.insert("maker", "A#1", [:]), .insert("code", "A#2", ["name": "x", "maker": nil])),
                .by("B", 1, at: 2, seeing: ["A": 1], .insert("price", ["x", 1], [:])),
                .by("D", 1, at: 3, seeing: ["A": 1], .delete("maker", "A#1", knowing: [:])),
                .by(
                    "C",
                    1,
                    at: 4,
                    seeing: ["A": 1],
                    .update("code", "A#2", ["name": .from("x", to: "y"), "maker": .from(nil, to: .to("A#1"))])
                ),
            ],
            rows: ["code A#2 maker=→A#1 name='y'", "maker A#1", "price ('y', 1)"],
            conflicts: ["deletedWithParent code A#2", "broughtBack code A#2", "broughtBack maker A#1"]
        ),
        FoldScenario(
            title: "SET NULL clears the reference of a row that comes back without its parent",
            schema: """
                CREATE TABLE folder (id INTEGER PRIMARY KEY);
                CREATE TABLE note (id INTEGER PRIMARY KEY, folder INTEGER REFERENCES folder ON DELETE SET NULL);
                CREATE TABLE file (id INTEGER PRIMARY KEY, note INTEGER NOT NULL REFERENCES note);
                """,
            sets: [
                first(.insert("folder", "A#1", [:]), .insert("note", "A#2", ["folder": .to("A#1")])),
                .by("D", 1, at: 2, seeing: ["A": 1], .delete("note", "A#2", knowing: ["folder": .to("A#1")])),
                .by("A", 2, at: 3, .delete("folder", "A#1", knowing: [:])),
                .by("C", 1, at: 4, seeing: ["A": 2], .insert("file", "C#1", ["note": .to("A#2")])),
            ],
            rows: ["file C#1 note=→A#2", "note A#2 folder=NULL"],
            tombs: ["folder A#1"],
            conflicts: ["broughtBack note A#2", "referenceCleared note A#2"]
        ),
        FoldScenario(
            title: "A parent that comes back merges with the row that took its unique values",
            schema: tags + items,
            sets: [
                first(.insert("tag", "A#1", ["name": "x", "color": "red"])),
                .by("B", 1, at: 2, seeing: ["A": 1], .delete("tag", "A#1", knowing: ["name": "x", "color": "red"])),
                .by("B", 2, at: 3, seeing: ["A": 1], .insert("tag", "B#1", ["name": "x", "color": "new"])),
                .by("C", 1, at: 4, seeing: ["A": 1], .insert("item", "C#1", ["tag": .to("A#1")])),
            ],
            rows: ["item C#1 tag=→B#1", "tag B#1 color='new' name='x'"],
            aliases: ["tag id=→A#1 → B#1"],
            conflicts: ["broughtBack tag A#1", "merged tag A#1"]
        ),
        FoldScenario(
            title: "A row that came back keeps its inserters",
            schema: tags + items,
            sets: [
                first(.insert("tag", "A#1", ["name": "x", "color": "red"])),
                .by("B", 1, at: 2, seeing: ["A": 1], .delete("tag", "A#1", knowing: ["name": "x", "color": "red"])),
                .by("C", 1, at: 3, seeing: ["A": 1], .insert("item", "C#1", ["tag": .to("A#1")])),
                .by("C", 2, at: 4, seeing: ["A": 1], .delete("item", "C#1", knowing: ["tag": .to("A#1")])),
                .by("D", 1, at: 5, seeing: ["A": 1], .delete("tag", "A#1", knowing: ["name": "x", "color": "red"])),
            ],
            rows: [],
            tombs: ["item C#1", "tag A#1"],
            conflicts: ["broughtBack tag A#1"]
        ),
        FoldScenario(
            title: "A row goes out when its parent can't come back",
            schema: "CREATE TABLE code (code TEXT UNIQUE, x);"
                + "CREATE TABLE use (id INTEGER PRIMARY KEY, code TEXT REFERENCES code (code));",
            sets: [
                first(.insert("code", ["a", 1])),
                .by("B", 1, at: 2, seeing: ["A": 1], .insert("use", "B#1", ["code": "a"])),
                .by("C", 1, at: 3, seeing: ["A": 1], .delete("code", ["a", 1])),
            ],
            rows: [],
            tombs: ["use B#1"],
            conflicts: ["takenOut use B#1"]
        ),
        FoldScenario(
            title: "Marked references, and integers of 0 or less, travel as they are",
            schema: "CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT);"
                + "CREATE TABLE file (id INTEGER PRIMARY KEY, folder INTEGER REFERENCES folder);",
            sets: [
                first(
                    .insert("file", "A#1", ["folder": 7], dangling: ["folder"]),
                    .insert("file", "A#2", ["folder": 0]),
                    .insert("file", "A#3", ["folder": -1])
                )
            ],
            rows: ["file A#1 folder=7", "file A#2 folder=0", "file A#3 folder=-1"]
        ),
        FoldScenario(
            title: "A marked reference isn't repaired though its parent is deleted",
            schema: tags + items,
            sets: [
                first(.insert("tag", "A#1", ["name": "x", "color": "red"])),
                .by("B", 1, at: 2, seeing: ["A": 1], .delete("tag", "A#1", knowing: ["name": "x", "color": "red"])),
                .by(
                    "C",
                    1,
                    at: 3,
                    seeing: ["A": 1],
                    .insert("item", "C#1", ["tag": .to("A#1")], dangling: ["tag"])
                ),
            ],
            rows: ["item C#1 tag=→A#1"],
            tombs: ["tag A#1"]
        ),
        FoldScenario(
            title: "A parent is found with its column's collation and affinity",
            schema:
                "CREATE TABLE user (name TEXT NOT NULL PRIMARY KEY COLLATE NOCASE, n INT UNIQUE, r TEXT UNIQUE COLLATE RTRIM);"
                + "CREATE TABLE a (id INTEGER PRIMARY KEY, u REFERENCES user);"
                + "CREATE TABLE b (id INTEGER PRIMARY KEY, n TEXT REFERENCES user (n));"
                + "CREATE TABLE c (id INTEGER PRIMARY KEY, r REFERENCES user (r));",
            sets: [
                first(.insert("user", ["Ann"], ["n": 1, "r": "x"])),
                .by(
                    "B",
                    1,
                    at: 2,
                    seeing: ["A": 1],
                    .insert("a", "B#1", ["u": "ANN"]),
                    .insert("b", "B#2", ["n": "1"]),
                    .insert("b", "B#3", ["n": .real(1)]),
                    .insert("c", "B#4", ["r": "x  "])
                ),
            ],
            rows: ["a B#1 u='ANN'", "b B#2 n='1'", "b B#3 n=1.0", "c B#4 r='x  '", "user ('Ann') n=1 r='x'"]
        ),
        FoldScenario(
            title: "References to tables that aren't synchronized are left alone",
            schema: "CREATE TABLE cache (id INTEGER PRIMARY KEY);"
                + "CREATE TABLE file (id INTEGER PRIMARY KEY, cache INTEGER REFERENCES cache);",
            rules: SyncRules(excludedTables: ["cache"]),
            sets: [first(.insert("file", "A#1", ["cache": 5]))],
            rows: ["file A#1 cache=5"]
        ),
        FoldScenario(
            title: "A row that refers to itself is deleted and stays deleted",
            schema: trees,
            sets: [
                first(.insert("folder", "A#1", ["up": .to("A#1"), "name": "f"])),
                .by(
                    "B",
                    1,
                    at: 2,
                    seeing: ["A": 1],
                    .delete("folder", "A#1", knowing: ["up": .to("A#1"), "name": "f"])
                ),
            ],
            rows: [],
            tombs: ["folder A#1"]
        ),
        FoldScenario(
            title: "An integer key that is a reference takes its parent's name, and follows a merge",
            schema: tags + "CREATE TABLE detail (id INTEGER PRIMARY KEY REFERENCES tag, body TEXT);",
            sets: [
                .by("A", 1, at: 1, .insert("tag", "A#1", ["name": "x", "color": "red"])),
                .by(
                    "B",
                    1,
                    at: 2,
                    .insert("tag", "B#1", ["name": "x", "color": "blue"]),
                    .insert("detail", "B#1", ["body": "b"])
                ),
                .by("B", 2, at: 3, .update("detail", "B#1", ["body": .from("b", to: "c")])),
            ],
            rows: ["detail A#1 body='c'", "tag A#1 color='red' name='x'"],
            conflicts: ["merged tag B#1"]
        ),
        FoldScenario(
            title: "A reference that leads to another value than its author's doesn't make a row violate its CHECK",
            schema: codes + "CREATE TABLE pair (a TEXT REFERENCES code (name), b TEXT, c TEXT, PRIMARY KEY (a, b));",
            violations: [
                "shop": { $0["code"] == .value(.text("y")) },
                "pair": { $0["a"] == .value(.text("y")) && $0["b"] != .value(.text("fine")) },
            ],
            sets: [
                first(
                    .insert("code", "A#1", ["name": "x"]),
                    .insert("shop", "A#2", ["code": nil])
                ),
                .by("C", 1, at: 2, seeing: ["A": 1], .update("code", "A#1", ["name": .from("x", to: "y")])),
                .by(
                    "B",
                    1,
                    at: 3,
                    seeing: ["A": 1],
                    .insert("shop", "B#1", ["code": "x"]),
                    .update("shop", "A#2", ["code": .from(nil, to: "x")]),
                    .insert("pair", ["x", "p"], ["c": nil]),
                    .insert("pair", ["x", "fine"], ["c": nil])
                ),
            ],
            rows: ["code A#1 name='y'", "pair ('y', 'fine') c=NULL", "shop A#2 code=NULL"],
            conflicts: ["leftOut shop A#2", "leftOut shop B#1", "leftOut pair ('y', 'p')"]
        ),
        FoldScenario(
            title: "A deleted row that gets the name of a forgotten one comes back as itself",
            schema: """
                CREATE TABLE code (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
                CREATE TABLE price (code TEXT REFERENCES code (name), day INT, cents INT, PRIMARY KEY (code, day));
                CREATE TABLE offer (
                    id INTEGER PRIMARY KEY, code TEXT, day INT, FOREIGN KEY (code, day) REFERENCES price
                );
                """,
            sets: [
                first(
                    .insert("code", "A#1", ["name": "x"]),
                    .insert("code", "A#2", ["name": "y"]),
                    .insert("price", ["x", 1], ["cents": 7]),
                    .insert("price", ["y", 1], ["cents": 5])
                ),
                .by("A", 2, at: 2, .delete("price", ["y", 1], knowing: ["cents": 5])),
                .by("A", 3, at: 3, .delete("code", "A#2", knowing: ["name": "y"])),
                .by(
                    "C",
                    1,
                    at: 4,
                    seeing: ["A": 3],
                    .update("code", "A#1", ["name": .from("x", to: "y")]),
                    .delete("price", ["x", 1], knowing: ["cents": 7])
                ),
                .by("B", 1, at: 5, seeing: ["A": 3], .insert("offer", "B#1", ["code": "x", "day": 1])),
            ],
            rows: ["code A#1 name='y'", "offer B#1 code='y' day=1", "price ('y', 1) cents=7"],
            tombs: ["code A#2"],
            conflicts: ["broughtBack price ('y', 1)"]
        ),
        FoldScenario(
            title: "A set that renames one parent of a row and deletes its other parent brings that one back",
            schema: codes + """
                CREATE TABLE maker (id INTEGER PRIMARY KEY, name TEXT);
                CREATE TABLE price (
                    code TEXT REFERENCES code (name), day INT, maker INTEGER REFERENCES maker, PRIMARY KEY (code, day)
                );
                CREATE TABLE visit (code TEXT REFERENCES code (name), maker INTEGER REFERENCES maker);
                """,
            sets: [
                first(
                    .insert("code", "A#1", ["name": "x"]),
                    .insert("maker", "A#2", ["name": "m"]),
                    .insert("maker", "A#3", ["name": "n"])
                ),
                .by(
                    "B",
                    1,
                    at: 2,
                    seeing: ["A": 1],
                    .insert("price", ["x", 1], ["maker": .to("A#2")]),
                    .insert("visit", ["x", .to("A#3")])
                ),
                .by(
                    "C",
                    1,
                    at: 3,
                    seeing: ["A": 1],
                    .update("code", "A#1", ["name": .from("x", to: "y")]),
                    .delete("maker", "A#2", knowing: ["name": "m"]),
                    .delete("maker", "A#3", knowing: ["name": "n"])
                ),
            ],
            rows: [
                "code A#1 name='y'", "maker A#2 name='m'", "maker A#3 name='n'", "price ('y', 1) maker=→A#2",
                "visit ('y', →A#3) ×1",
            ],
            conflicts: ["broughtBack maker A#2", "broughtBack maker A#3"]
        ),
    ]
}
