import StoreChanges

// MARK: Rules 1, 2, 3 and 4

extension FoldScenarios {
    static let updates: [FoldScenario] = [
        FoldScenario(
            title: "Updates of different columns are both in the result",
            schema: words,
            sets: [
                first(.insert("word", ["a"], ["meaning": "m", "hint": "h"])),
                .by("B", 1, at: 2, seeing: ["A": 1], .update("word", ["a"], ["meaning": .from("m", to: "n")])),
                .by("C", 1, at: 3, seeing: ["A": 1], .update("word", ["a"], ["hint": .from("h", to: "i")])),
            ],
            rows: ["word ('a') hint='i' meaning='n'"]
        ),
        FoldScenario(
            title: "An update that didn't know the value that goes is logged with both values",
            schema: words,
            sets: [
                first(.insert("word", ["a"], ["meaning": "m", "hint": "h"])),
                .by("B", 1, at: 2, seeing: ["A": 1], .update("word", ["a"], ["meaning": .from("m", to: "n")])),
                .by("C", 1, at: 3, seeing: ["A": 1], .update("word", ["a"], ["meaning": .from("m", to: "o")])),
            ],
            rows: ["word ('a') hint='h' meaning='o'"],
            conflicts: ["overwritten word ('a')"],
            lost: [.overwritten: "meaning='n' / meaning='o'"]
        ),
        FoldScenario(
            title: "An update that knew the value that goes isn't logged, nor is one to the same value",
            schema: words,
            sets: [
                first(.insert("word", ["a"], ["meaning": "m", "hint": "h"])),
                .by("B", 1, at: 2, seeing: ["A": 1], .update("word", ["a"], ["meaning": .from("m", to: "n")])),
                .by("C", 1, at: 3, seeing: ["B": 1], .update("word", ["a"], ["meaning": .from("n", to: "o")])),
                .by("D", 1, at: 4, seeing: ["A": 1], .update("word", ["a"], ["meaning": .from("m", to: "o")])),
            ],
            rows: ["word ('a') hint='h' meaning='o'"]
        ),
        FoldScenario(
            title: "A long old value is known by its digest",
            schema: words,
            sets: [
                first(.insert("word", ["a"], ["meaning": "a text that has more than thirty-two bytes", "hint": "h"])),
                .by(
                    "B",
                    1,
                    at: 2,
                    seeing: ["A": 1],
                    .update(
                        "word",
                        ["a"],
                        ["meaning": .from("a text that has more than thirty-two bytes", to: "short")]
                    )
                ),
            ],
            rows: ["word ('a') hint='h' meaning='short'"]
        ),
        FoldScenario(
            title: "A value that puts back what the last synchronization replaced is logged",
            schema: words,
            sets: [
                first(.insert("word", ["a"], ["meaning": "m", "hint": "h"])),
                .by("B", 1, at: 2, seeing: ["A": 1], .update("word", ["a"], ["meaning": .from("m", to: "n")])),
                .by(
                    "C",
                    1,
                    at: 3,
                    seeing: ["B": 1],
                    .update("word", ["a"], ["meaning": .from("n", to: "m", puttingBack: true)])
                ),
            ],
            rows: ["word ('a') hint='h' meaning='m'"],
            conflicts: ["overwritten word ('a')"],
            lost: [.overwritten: "meaning='n' / meaning='m'"]
        ),
        FoldScenario(
            title: "Columns of one CHECK come whole from one author",
            schema: "CREATE TABLE span (id INTEGER PRIMARY KEY, low INT, high INT, CHECK (low <= high));",
            sets: [
                first(.insert("span", "A#1", ["low": 0, "high": 9])),
                .by(
                    "B",
                    1,
                    at: 2,
                    seeing: ["A": 1],
                    .update("span", "A#1", ["low": .from(0, to: 8), "high": .from(9, to: 9)])
                ),
                .by(
                    "C",
                    1,
                    at: 3,
                    seeing: ["A": 1],
                    .update("span", "A#1", ["low": .from(0, to: 0), "high": .from(9, to: 5)])
                ),
            ],
            rows: ["span A#1 high=5 low=0"],
            conflicts: ["overwritten span A#1"],
            lost: [.overwritten: "low=8 / low=0"]
        ),
        FoldScenario(
            title: "References follow a changed value of a column that they name",
            schema: "CREATE TABLE shop (id INTEGER PRIMARY KEY, code TEXT UNIQUE);"
                + "CREATE TABLE sale (id INTEGER PRIMARY KEY, shop TEXT REFERENCES shop (code));",
            sets: [
                first(.insert("shop", "A#1", ["code": "a"]), .insert("sale", "A#2", ["shop": "a"])),
                .by(
                    "B",
                    1,
                    at: 2,
                    seeing: ["A": 1],
                    .update("shop", "A#1", ["code": .from("a", to: "b")]),
                    .update("sale", "A#2", ["shop": .from("a", to: "b")])
                ),
                .by("C", 1, at: 3, seeing: ["A": 1], .insert("sale", "C#1", ["shop": "a"])),
            ],
            rows: ["sale A#2 shop='b'", "sale C#1 shop='b'", "shop A#1 code='b'"],
            aliases: ["shop code='a' → A#1"]
        ),
        FoldScenario(
            title: "References that the author of a changed value didn't know follow it too",
            schema: "CREATE TABLE shop (id INTEGER PRIMARY KEY, code TEXT UNIQUE);"
                + "CREATE TABLE sale (id INTEGER PRIMARY KEY, shop TEXT REFERENCES shop (code));",
            sets: [
                first(.insert("shop", "A#1", ["code": "a"])),
                .by("C", 1, at: 2, seeing: ["A": 1], .insert("sale", "C#1", ["shop": "a"])),
                .by("B", 1, at: 3, seeing: ["A": 1], .update("shop", "A#1", ["code": .from("a", to: "b")])),
            ],
            rows: ["sale C#1 shop='b'", "shop A#1 code='b'"],
            aliases: ["shop code='a' → A#1"]
        ),
        FoldScenario(
            title: "Rows that exchange their values keep the references to the values",
            schema: "CREATE TABLE shop (id INTEGER PRIMARY KEY, code TEXT UNIQUE);"
                + "CREATE TABLE sale (id INTEGER PRIMARY KEY, shop TEXT REFERENCES shop (code));",
            sets: [
                first(
                    .insert("shop", "A#1", ["code": "a"]),
                    .insert("shop", "A#2", ["code": "b"]),
                    .insert("sale", "A#3", ["shop": "a"])
                ),
                .by(
                    "B",
                    1,
                    at: 2,
                    seeing: ["A": 1],
                    .update("shop", "A#1", ["code": .from("a", to: "b")]),
                    .update("shop", "A#2", ["code": .from("b", to: "a")])
                ),
            ],
            rows: ["sale A#3 shop='a'", "shop A#1 code='b'", "shop A#2 code='a'"],
            aliases: []
        ),
        FoldScenario(
            title: "An edit of a deleted row is logged",
            schema: words,
            sets: [
                first(.insert("word", ["a"], ["meaning": "m", "hint": "h"])),
                .by("B", 1, at: 2, seeing: ["A": 1], .delete("word", ["a"], knowing: ["meaning": "m", "hint": "h"])),
                .by("C", 1, at: 3, seeing: ["A": 1], .update("word", ["a"], ["meaning": .from("m", to: "o")])),
            ],
            rows: [],
            tombs: ["word ('a')"],
            conflicts: ["editOfDeleted word ('a')"],
            lost: [.editOfDeleted: "meaning='o' / "]
        ),
    ]

    static let deletes: [FoldScenario] = [
        FoldScenario(
            title: "A delete that didn't know the row's last edit is logged with the row",
            schema: words,
            sets: [
                first(.insert("word", ["a"], ["meaning": "m", "hint": "h"])),
                .by("B", 1, at: 2, seeing: ["A": 1], .update("word", ["a"], ["meaning": .from("m", to: "n")])),
                .by("C", 1, at: 3, seeing: ["A": 1], .delete("word", ["a"], knowing: ["meaning": "m", "hint": "h"])),
            ],
            rows: [],
            tombs: ["word ('a')"],
            conflicts: ["deletedEdited word ('a')"],
            lost: [.deletedEdited: "hint='h' meaning='n' / "]
        ),
        FoldScenario(
            title: "✱ A delete that didn't know all inserters deletes nothing",
            schema: words,
            sets: [
                first(.insert("word", ["a"], ["meaning": "m", "hint": "h"])),
                .by("B", 1, at: 2, .insert("word", ["a"], ["meaning": "m", "hint": "h"])),
                .by("C", 1, at: 3, seeing: ["A": 1], .delete("word", ["a"], knowing: ["meaning": "m", "hint": "h"])),
            ],
            rows: ["word ('a') hint='h' meaning='m'"],
            conflicts: ["deleteRefused word ('a')"]
        ),
        FoldScenario(
            title: "✱ A delete through an alias of its own name deletes nothing, though it knew all inserters",
            schema: tags,
            sets: twoTags + [
                .by(
                    "C",
                    1,
                    at: 3,
                    seeing: ["A": 1, "B": 1],
                    .delete("tag", "B#1", knowing: ["name": "x", "color": "blue"])
                )
            ],
            rows: ["tag A#1 color='red' name='x'"],
            conflicts: ["deleteRefused tag A#1", "merged tag B#1"]
        ),
        FoldScenario(
            title: "A delete whose key follows a merged parent is a consequence, not a delete by a former name",
            schema: tags + "CREATE TABLE detail (id INTEGER PRIMARY KEY REFERENCES tag ON DELETE CASCADE, body TEXT);",
            sets: [
                first(.insert("tag", "A#1", ["name": "x", "color": nil])),
                .by("B", 1, at: 2, .insert("tag", "B#1", ["name": "x", "color": nil]))
                    .adding(.insert("detail", "B#1", ["body": "b"])),
                .by("B", 2, at: 3, .delete("tag", "B#1", knowing: ["name": "x", "color": nil]))
                    .adding(.delete("detail", "B#1", knowing: ["body": "b"], with: [("tag", "B#1")])),
            ],
            rows: ["detail A#1 body='b'", "tag A#1 color=NULL name='x'"],
            conflicts: ["consequenceRefused detail A#1", "deleteRefused tag A#1", "merged tag B#1"]
        ),
        FoldScenario(
            title: "✱ A delete that is led only by the reference in its key deletes",
            schema: tags + labels,
            sets: [
                .by("A", 1, at: 1, .insert("tag", "A#1", ["name": "x", "color": "red"])),
                .by(
                    "B",
                    1,
                    at: 2,
                    .insert("tag", "B#1", ["name": "x", "color": "blue"]),
                    .insert("label", ["en", .to("B#1")], ["title": "t"])
                ),
                .by("B", 2, at: 3, .delete("label", ["en", .to("B#1")], knowing: ["title": "t"])),
            ],
            rows: ["tag A#1 color='red' name='x'"],
            tombs: ["label ('en', →A#1)"],
            conflicts: ["merged tag B#1"]
        ),
        FoldScenario(
            title:
                "✱ A device that deletes a row that is out joins its deleters: its later reference doesn't bring it back",
            schema: tags + items,
            sets: [
                first(.insert("tag", "A#1", ["name": "x", "color": "red"])),
                .by("B", 1, at: 2, seeing: ["A": 1], .delete("tag", "A#1", knowing: ["name": "x", "color": "red"])),
                .by("C", 1, at: 3, seeing: ["A": 1], .delete("tag", "A#1", knowing: ["name": "x", "color": "red"])),
                .by("C", 2, at: 4, seeing: ["A": 1], .insert("item", "C#1", ["tag": .to("A#1")])),
            ],
            rows: [],
            tombs: ["tag A#1"],
            conflicts: ["leftOut item C#1"]
        ),
        FoldScenario(
            title: "A consequence of a CASCADE holds though an earlier delete left the row without its parent",
            schema: trees,
            sets: [
                first(
                    .insert("folder", "A#1", ["up": nil, "name": "f"]),
                    .insert("file", "A#2", ["folder": .to("A#1"), "name": "n"])
                ),
                .by(
                    "B",
                    1,
                    at: 2,
                    seeing: ["A": 1],
                    .delete("folder", "A#1", knowing: ["up": nil, "name": "f"], leaving: [("file", "A#2")])
                ),
                .by(
                    "C",
                    1,
                    at: 3,
                    seeing: ["A": 1],
                    .delete("folder", "A#1", knowing: ["up": nil, "name": "f"]),
                    .delete("file", "A#2", knowing: ["folder": .to("A#1"), "name": "n"], with: [("folder", "A#1")])
                ),
            ],
            rows: [],
            tombs: ["file A#2", "folder A#1"]
        ),
        FoldScenario(
            title: "A consequence of a CASCADE doesn't hold when the row refers to another parent now",
            schema: trees,
            sets: [
                first(
                    .insert("folder", "A#1", ["up": nil, "name": "f"]),
                    .insert("folder", "A#2", ["up": nil, "name": "g"]),
                    .insert("file", "A#3", ["folder": .to("A#1"), "name": "n"])
                ),
                .by(
                    "B",
                    1,
                    at: 2,
                    seeing: ["A": 1],
                    .update("file", "A#3", ["folder": .from(.to("A#1"), to: .to("A#2"))])
                ),
                .by(
                    "C",
                    1,
                    at: 3,
                    seeing: ["A": 1],
                    .delete("folder", "A#1", knowing: ["up": nil, "name": "f"]),
                    .delete("file", "A#3", knowing: ["folder": .to("A#1"), "name": "n"], with: [("folder", "A#1")])
                ),
            ],
            rows: ["file A#3 folder=→A#2 name='n'", "folder A#2 name='g' up=NULL"],
            tombs: ["folder A#1"],
            conflicts: ["consequenceRefused file A#3"]
        ),
        FoldScenario(
            title: "A consequence of a delete that is refused is struck out, and so is what follows from it",
            schema: "CREATE TABLE root (name TEXT NOT NULL PRIMARY KEY, x);"
                + "CREATE TABLE branch (id INTEGER PRIMARY KEY, root TEXT REFERENCES root ON DELETE CASCADE);"
                + "CREATE TABLE leaf (id INTEGER PRIMARY KEY, branch INTEGER REFERENCES branch ON DELETE CASCADE);",
            sets: [
                first(
                    .insert("root", ["r"], ["x": 1]),
                    .insert("branch", "A#1", ["root": "r"]),
                    .insert("leaf", "A#2", ["branch": .to("A#1")])
                ),
                .by("B", 1, at: 2, .insert("root", ["r"], ["x": 1])),
                .by(
                    "C",
                    1,
                    at: 3,
                    seeing: ["A": 1],
                    .delete("root", ["r"], knowing: ["x": 1]),
                    .delete("branch", "A#1", knowing: ["root": "r"], with: [("root", ["r"])]),
                    .delete("leaf", "A#2", knowing: ["branch": .to("A#1")], with: [("branch", "A#1")])
                ),
            ],
            rows: ["branch A#1 root='r'", "leaf A#2 branch=→A#1", "root ('r') x=1"],
            conflicts: ["consequenceRefused branch A#1", "consequenceRefused leaf A#2", "deleteRefused root ('r')"]
        ),
        FoldScenario(
            title: "Consequences that refer to each other hold with a parent that holds",
            schema: trees,
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
            ],
            rows: [],
            tombs: ["file A#3", "folder A#1", "folder A#2"]
        ),
    ]

    static let trees = """
        CREATE TABLE folder (id INTEGER PRIMARY KEY, up INTEGER REFERENCES folder ON DELETE CASCADE, name TEXT);
        CREATE TABLE file (id INTEGER PRIMARY KEY, folder INTEGER REFERENCES folder ON DELETE CASCADE, name TEXT);
        """

    static let inserts: [FoldScenario] = [
        FoldScenario(
            title: "A row whose number has a meaning is the same row on every device",
            schema: "CREATE TABLE settings (id INTEGER PRIMARY KEY CHECK (id = 1), theme TEXT, size INT);",
            sets: [
                .by("A", 1, at: 1, .insert("settings", [1], ["theme": "dark", "size": 1])),
                .by("B", 1, at: 2, .insert("settings", [1], ["theme": "light", "size": 1])),
            ],
            rows: ["settings (1) size=1 theme='light'"],
            conflicts: ["overwritten settings (1)"],
            lost: [.overwritten: "theme='dark' / theme='light'"]
        ),
        FoldScenario(
            title: "An insert of a row that is present writes its cells and logs what goes",
            schema: words,
            sets: [
                first(.insert("word", ["a"], ["meaning": "m", "hint": "h"])),
                .by("B", 1, at: 2, .insert("word", ["a"], ["meaning": "n", "hint": "h"])),
            ],
            rows: ["word ('a') hint='h' meaning='n'"],
            conflicts: ["overwritten word ('a')"],
            lost: [.overwritten: "meaning='m' / meaning='n'"]
        ),
        FoldScenario(
            title: "An insert of a deleted row makes a new row, and its tomb goes",
            schema: words,
            sets: [
                first(.insert("word", ["a"], ["meaning": "m", "hint": "h"])),
                .by("B", 1, at: 2, seeing: ["A": 1], .delete("word", ["a"], knowing: ["meaning": "m", "hint": "h"])),
                .by("C", 1, at: 3, .insert("word", ["a"], ["meaning": "n", "hint": "i"])),
            ],
            rows: ["word ('a') hint='i' meaning='n'"]
        ),
    ]
}
