/// Schemas of all kinds that apps have.
enum SimulatedSchemas {
    /// What updates of apps add; `{}` stands for a table's name.
    static let additions = [
        "ALTER TABLE {} ADD COLUMN extra TEXT",
        "ALTER TABLE {} ADD COLUMN extra TEXT NOT NULL DEFAULT 'a'",
        "ALTER TABLE {} ADD COLUMN \"0\" INT DEFAULT 2",
        "CREATE TABLE extra (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO extra VALUES (1, 'a'), (2, 'b'), (3, 'a')",
        "CREATE TABLE extra (id INTEGER PRIMARY KEY, name TEXT UNIQUE, other INT REFERENCES extra ON DELETE CASCADE)",
    ]

    static let all: [String] = [
        "CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT, body TEXT)",
        "CREATE TABLE tag (name TEXT PRIMARY KEY NOT NULL, color TEXT, rank INT)",
        "CREATE TABLE tag (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, color TEXT)",
        "CREATE TABLE line (a TEXT, b INT)",
        """
        CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE note (id INTEGER PRIMARY KEY, folder INT REFERENCES folder ON DELETE CASCADE, title TEXT);
        """,
        """
        CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE note (id INTEGER PRIMARY KEY, folder INT REFERENCES folder ON DELETE SET NULL, title TEXT);
        """,
        """
        CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE note (id INTEGER PRIMARY KEY, folder INT NOT NULL REFERENCES folder ON DELETE RESTRICT, title TEXT);
        """,
        """
        CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT);
        CREATE TABLE tag (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
        CREATE TABLE note_tag (
            note INT NOT NULL REFERENCES note ON DELETE CASCADE, tag INT NOT NULL REFERENCES tag ON DELETE CASCADE,
            weight INT, PRIMARY KEY (note, tag)
        ) WITHOUT ROWID;
        """,
        """
        CREATE TABLE country (code TEXT PRIMARY KEY NOT NULL COLLATE NOCASE, name TEXT UNIQUE);
        CREATE TABLE city (
            id INTEGER PRIMARY KEY, country TEXT REFERENCES country, name TEXT, UNIQUE (country, name)
        );
        """,
        "CREATE TABLE node (id INTEGER PRIMARY KEY, parent INT REFERENCES node ON DELETE CASCADE, label TEXT)",
        "CREATE TABLE node (id INTEGER PRIMARY KEY, parent INT REFERENCES node, label TEXT UNIQUE)",
        """
        CREATE TABLE album (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE song (
            id INTEGER PRIMARY KEY, album INT NOT NULL REFERENCES album ON DELETE CASCADE, track INT NOT NULL,
            title TEXT, UNIQUE (album, track)
        );
        """,
        """
        CREATE TABLE user (id INTEGER PRIMARY KEY, mail TEXT NOT NULL UNIQUE, name TEXT);
        CREATE TABLE message (
            id INTEGER PRIMARY KEY, sender TEXT REFERENCES user (mail) ON UPDATE CASCADE ON DELETE SET NULL, body TEXT
        );
        """,
        """
        CREATE TABLE a (id INTEGER PRIMARY KEY, b INT REFERENCES b DEFERRABLE INITIALLY DEFERRED, x TEXT UNIQUE);
        CREATE TABLE b (id INTEGER PRIMARY KEY, a INT REFERENCES a DEFERRABLE INITIALLY DEFERRED, x TEXT);
        """,
        """
        CREATE TABLE parent (x INT, y INT, label TEXT, PRIMARY KEY (x, y));
        CREATE TABLE child (
            id INTEGER PRIMARY KEY, x INT, y INT, FOREIGN KEY (x, y) REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE
        );
        """,
        """
        CREATE TABLE task (id INTEGER PRIMARY KEY, list INT REFERENCES list ON DELETE SET NULL, rank INT, done INT, title TEXT);
        CREATE TABLE list (id INTEGER PRIMARY KEY, name TEXT);
        CREATE UNIQUE INDEX open_title ON task (lower(title), list) WHERE done = 1;
        """,
        """
        CREATE TABLE span (
            id INTEGER PRIMARY KEY, first INT NOT NULL, last INT NOT NULL, length INT AS (last - first), label TEXT UNIQUE,
            CHECK (first <= last)
        );
        """,
        """
        CREATE TABLE shelf (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE book (
            id INTEGER PRIMARY KEY, shelf INT REFERENCES shelf ON DELETE SET NULL, slot INT CHECK (slot < 7),
            UNIQUE (shelf, slot)
        );
        """,
        """
        CREATE TABLE tag (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, color TEXT);
        CREATE TABLE detail (id INTEGER PRIMARY KEY REFERENCES tag ON DELETE CASCADE, body TEXT);
        CREATE TABLE use (detail INT REFERENCES detail ON DELETE CASCADE, times INT);
        """,
        """
        CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT UNIQUE, body TEXT, edits INT NOT NULL DEFAULT 0);
        CREATE TABLE total (name TEXT PRIMARY KEY NOT NULL, count INT);
        CREATE VIRTUAL TABLE search USING fts5(title, body, content='note', content_rowid='id');
        CREATE TRIGGER note_insert AFTER INSERT ON note BEGIN
            INSERT INTO search (rowid, title, body) VALUES (new.id, new.title, new.body);
        END;
        CREATE TRIGGER note_delete AFTER DELETE ON note BEGIN
            INSERT INTO search (search, rowid, title, body) VALUES ('delete', old.id, old.title, old.body);
        END;
        CREATE TRIGGER note_update AFTER UPDATE OF id, title, body ON note BEGIN
            INSERT INTO search (search, rowid, title, body) VALUES ('delete', old.id, old.title, old.body);
            INSERT INTO search (rowid, title, body) VALUES (new.id, new.title, new.body);
        END;
        CREATE TRIGGER note_edited AFTER UPDATE OF body ON note BEGIN
            UPDATE note SET edits = edits + 1 WHERE id = new.id;
            INSERT OR REPLACE INTO total VALUES ('edits', (SELECT sum(edits) FROM note));
        END;
        """,
        "CREATE TABLE tag (id INTEGER PRIMARY KEY, name TEXT UNIQUE ON CONFLICT REPLACE, color TEXT)",
        "CREATE TABLE fact (a, b)",
        "CREATE TABLE pair (a TEXT, b TEXT, c TEXT, PRIMARY KEY (a, b))",
        """
        CREATE TABLE note (id INTEGER PRIMARY KEY, title TEXT);
        CREATE TABLE line (note INT REFERENCES note ON DELETE CASCADE, text TEXT);
        """,
    ]
}
