import StoreChanges

// MARK: Rule 8

extension FoldScenarios {
    static let migrations: [FoldScenario] = [
        FoldScenario(
            title: "A change together with a change of the schema is written only where the old value is still there",
            schema: words,
            sets: [
                first(.insert("word", ["a"], ["meaning": "m", "hint": "h"])),
                .by("B", 1, at: 2, seeing: ["A": 1], .update("word", ["a"], ["meaning": .from("m", to: "n")])),
                .by(
                    "A",
                    2,
                    at: 3,
                    .update("word", ["a"], ["meaning": .from("m", to: "M"), "hint": .from("h", to: "H")])
                ).migrating,
            ],
            rows: ["word ('a') hint='H' meaning='n'"],
            conflicts: ["migratedValue word ('a')"],
            lost: [.migratedValue: "meaning='M' / meaning='n'"]
        ),
        FoldScenario(
            title: "Equal rows that one update of the app inserts on two devices become one row each",
            schema: "CREATE TABLE kind (id INTEGER PRIMARY KEY, name TEXT, up INTEGER REFERENCES kind);"
                + "CREATE TABLE thing (id INTEGER PRIMARY KEY, kind INTEGER REFERENCES kind);",
            sets: [
                .by("A", 2, at: 2, .insert("kind", "A#1", ["name": "x", "up": nil]))
                    .adding(.insert("kind", "A#2", ["name": "y", "up": .to("A#1")])).migrating,
                .by("B", 2, at: 3, .insert("kind", "B#1", ["name": "y", "up": .to("B#2")]))
                    .adding(.insert("kind", "B#2", ["name": "x", "up": nil]))
                    .adding(.insert("kind", "B#3", ["name": "x", "up": nil]))
                    .adding(.insert("kind", "B#4", ["name": "z", "up": nil]))
                    .adding(.insert("thing", "B#5", ["kind": .to("B#1")])).migrating,
            ],
            rows: [
                "kind A#1 name='x' up=NULL", "kind A#2 name='y' up=→A#1", "kind B#3 name='x' up=NULL",
                "kind B#4 name='z' up=NULL", "thing B#5 kind=→A#2",
            ],
            aliases: ["kind id=→B#1 → A#2", "kind id=→B#2 → A#1"]
        ),
        FoldScenario(
            title:
                "References to rows that one update of the app inserts on two devices lose nothing, unless changed since",
            schema: "CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT);"
                + "CREATE TABLE note (id INTEGER PRIMARY KEY, person INTEGER REFERENCES person);"
                + "CREATE TABLE member (person INTEGER REFERENCES person, team TEXT, role TEXT, PRIMARY KEY (person, team));",
            sets: [
                first(.insert("note", "A#8", ["person": nil]), .insert("note", "A#9", ["person": nil])),
                .by("A", 2, at: 2, .insert("person", "A#1", ["name": "x"]))
                    .adding(.insert("person", "A#2", ["name": "y"]))
                    .adding(.update("note", "A#8", ["person": .from(nil, to: .to("A#1"))]))
                    .adding(.update("note", "A#9", ["person": .from(nil, to: .to("A#1"))]))
                    .adding(.insert("member", [.to("A#1"), "s"], ["role": "r"]))
                    .adding(.insert("member", [.to("A#1"), "t"], ["role": "r"])).migrating,
                .by(
                    "C",
                    1,
                    at: 3,
                    seeing: ["A": 2],
                    .update("note", "A#8", ["person": .from(.to("A#1"), to: .to("A#2"))]),
                    .update("member", [.to("A#1"), "s"], ["role": .from("r", to: "q")])
                ),
                .by("B", 1, at: 4, seeing: ["A": 1], .insert("person", "B#1", ["name": "x"]))
                    .adding(.insert("person", "B#2", ["name": "y"]))
                    .adding(.update("note", "A#8", ["person": .from(nil, to: .to("B#1"))]))
                    .adding(.update("note", "A#9", ["person": .from(nil, to: .to("B#1"))]))
                    .adding(.insert("member", [.to("B#1"), "s"], ["role": "r"]))
                    .adding(.insert("member", [.to("B#1"), "t"], ["role": "r"])).migrating,
            ],
            rows: [
                "member (→A#1, 's') role='q'", "member (→A#1, 't') role='r'", "note A#8 person=→A#2",
                "note A#9 person=→A#1", "person A#1 name='x'", "person A#2 name='y'",
            ],
            conflicts: ["merged member (→B#1, 's')", "migratedValue note A#8"],
            lost: [.merged: "role='r' / role='q'", .migratedValue: "person=→B#1 / person=→A#2"]
        ),
    ]
}
