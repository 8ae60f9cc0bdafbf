"""An app that edits its store at random, and the list of all its edits."""

import collections
import contextlib
import random
import sqlite3
import threading
import time

SCHEMA = """
CREATE TABLE list (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, mark TEXT);
CREATE TABLE note (
    id INTEGER PRIMARY KEY, list INTEGER NOT NULL REFERENCES list ON DELETE CASCADE, title TEXT NOT NULL, body TEXT,
    done INTEGER NOT NULL DEFAULT 0 CHECK (done IN (0, 1))
);
CREATE TABLE item (
    id INTEGER PRIMARY KEY, note INTEGER NOT NULL REFERENCES note ON DELETE CASCADE, position INTEGER NOT NULL, mark TEXT,
    UNIQUE (note, position)
);
CREATE TABLE photo (id INTEGER PRIMARY KEY, name TEXT NOT NULL, caption TEXT, pixels BLOB NOT NULL);
CREATE TABLE tag (name TEXT PRIMARY KEY NOT NULL, color TEXT) WITHOUT ROWID;
CREATE VIRTUAL TABLE note_text USING fts5 (title, body, content='note', content_rowid='id');
CREATE TRIGGER note_inserted AFTER INSERT ON note BEGIN
    INSERT INTO note_text (rowid, title, body) VALUES (new.id, new.title, new.body);
END;
CREATE TRIGGER note_deleted AFTER DELETE ON note BEGIN
    INSERT INTO note_text (note_text, rowid, title, body) VALUES ('delete', old.id, old.title, old.body);
END;
CREATE TRIGGER note_updated AFTER UPDATE ON note BEGIN
    INSERT INTO note_text (note_text, rowid, title, body) VALUES ('delete', old.id, old.title, old.body);
    INSERT INTO note_text (rowid, title, body) VALUES (new.id, new.title, new.body);
END;
INSERT INTO list (name, mark) VALUES ('inbox', 'the first list');
"""
# Everything but the local numbers of rows.
CONTENT = {
    "lists": "SELECT name, mark FROM list ORDER BY 1",
    "notes": "SELECT title, body, done, name FROM note JOIN list ON list.id = list ORDER BY 1",
    "items": "SELECT title, position, item.mark FROM item JOIN note ON note.id = note ORDER BY 1, 2",
    "photos": "SELECT name, caption FROM photo ORDER BY 1",
    "tags": "SELECT name, color FROM tag ORDER BY 1",
}


def fill(db, megabytes):
    """Inserts photos of that many MiB."""
    db.execute("""
        WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < ?)
        INSERT INTO photo (name, pixels) SELECT 'photo ' || n, randomblob(4000) FROM number""", (256 * megabytes,))
    db.commit()


class Ledger:
    """Every value that an app wrote, and the values that later edits knew and overwrote."""

    def __init__(self):
        self.lock, self.edits = threading.Lock(), collections.Counter()
        self.written, self.overwritten, self.moves, self.deleted, self.failures = {}, set(), [], [], []

    def note(self, device, kind, written=(), overwritten=(), moved=None, deleted=()):
        with self.lock:
            self.edits[kind] += 1
            now = time.monotonic()
            for value in written: self.written[value] = (device, now)
            self.overwritten.update(value for value in overwritten if value is not None)
            if moved: self.moves.append(moved)
            self.deleted += deleted


class App(threading.Thread):
    """Edits a device's store at random until it's stopped."""

    def __init__(self, device, ledger, seed, pause):
        super().__init__()
        self.device, self.ledger, self.pause, self.random = device, ledger, pause, random.Random(seed)
        self.stopped, self.count = threading.Event(), 0

    def run(self):
        while not self.device.has_store():
            if self.stopped.wait(0.1): return
        self.db = sqlite3.connect(self.device.store, timeout=5, isolation_level=None)
        self.db.execute("PRAGMA foreign_keys = ON")
        while not self.stopped.wait(self.random.uniform(0, 2 * self.pause)):
            # Now and then an app writes much at once.
            for _ in range(20 if self.random.random() < 0.02 else 1):
                try:
                    self.edit()
                except sqlite3.OperationalError as error:
                    self.ledger.failures.append(f"{self.device.name}: {error}")
                    with contextlib.suppress(sqlite3.OperationalError): self.db.execute("ROLLBACK")
        self.db.close()

    def value(self):
        self.count += 1
        return f"{self.device.name} {self.count}"

    def edit(self):
        edits = {self.insert_note: 8, self.change_body: 8, self.move: 3, self.finish: 2, self.insert_item: 5, self.set_tag: 3,
                 self.insert_list: 2, self.insert_photo: 2, self.change_caption: 3, self.delete_note: 3, self.delete_list: 0.3}
        edit = self.random.choices(list(edits), list(edits.values()))[0]
        self.db.execute("BEGIN IMMEDIATE")
        noted = edit()
        self.db.execute("COMMIT")
        if noted is not None: self.ledger.note(self.device.name, edit.__name__.replace("_", " "), **noted)

    def one(self, query, *values): return self.db.execute(query + " ORDER BY random() LIMIT 1", values).fetchone()

    def insert_note(self):
        title = self.value()
        self.db.execute("INSERT INTO note (list, title) SELECT id, ? FROM list ORDER BY random() LIMIT 1", (title,))
        return {"written": [title]} if self.db.execute("SELECT changes()").fetchone()[0] else None

    def change_body(self):
        row = self.one("SELECT id, body FROM note")
        if row is None: return None
        body = self.value()
        self.db.execute("UPDATE note SET body = ? WHERE id = ?", (body, row[0]))
        return {"written": [body], "overwritten": [row[1]]}

    def insert_photo(self):
        name = self.value()
        self.db.execute("INSERT INTO photo (name, pixels) VALUES (?, randomblob(4000))", (name,))
        return {"written": [name]}

    def change_caption(self):
        row = self.one("SELECT id, caption FROM photo")
        if row is None: return None
        caption = self.value()
        self.db.execute("UPDATE photo SET caption = ? WHERE id = ?", (caption, row[0]))
        return {"written": [caption], "overwritten": [row[1]]}

    def finish(self):
        self.db.execute("UPDATE note SET done = 1 - done WHERE id = (SELECT id FROM note ORDER BY random() LIMIT 1)")
        return {}

    def move(self):
        row = self.one("SELECT note.id, title, mark FROM note JOIN list ON list.id = list")
        target = self.one("SELECT id, mark FROM list")
        if row is None or target[1] == row[2]: return None
        self.db.execute("UPDATE note SET list = ? WHERE id = ?", (target[0], row[0]))
        return {"moved": (row[1], target[1], row[2])}

    def insert_item(self):
        row = self.one("SELECT id FROM note")
        if row is None: return None
        mark = self.value()
        self.db.execute(
            "INSERT INTO item (note, position, mark) SELECT ?, ifnull(max(position), 0) + 1, ? FROM item WHERE note = ?",
            (row[0], mark, row[0]))
        return {"written": [mark]}

    def set_tag(self):
        name, color = f"tag {self.random.randrange(20)}", self.value()
        former = [row[0] for row in self.db.execute("SELECT color FROM tag WHERE name = ?", (name,))]
        self.db.execute("INSERT OR REPLACE INTO tag VALUES (?, ?)", (name, color))
        return {"written": [color], "overwritten": former}

    def insert_list(self):
        mark = self.value()
        # Another device may insert the same name.
        name = f"list {self.random.randrange(100)}"
        if self.db.execute("SELECT 1 FROM list WHERE name = ?", (name,)).fetchone(): return None
        self.db.execute("INSERT INTO list (name, mark) VALUES (?, ?)", (name, mark))
        return {"written": [mark]}

    def forget(self, note):
        """The values that go with a note."""
        values = list(self.db.execute("SELECT title, body FROM note WHERE id = ?", (note,)).fetchone())
        return values + [row[0] for row in self.db.execute("SELECT mark FROM item WHERE note = ?", (note,))]

    def delete_note(self):
        row = self.one("SELECT id, title FROM note")
        if row is None: return None
        values = self.forget(row[0])
        self.db.execute("DELETE FROM note WHERE id = ?", (row[0],))
        return {"overwritten": values, "deleted": [row[1]]}

    def delete_list(self):
        row = self.one("SELECT id, mark FROM list WHERE name <> 'inbox'")
        if row is None: return None
        notes = self.db.execute("SELECT id, title FROM note WHERE list = ?", (row[0],)).fetchall()
        values = [row[1]] + [value for note, _ in notes for value in self.forget(note)]
        self.db.execute("DELETE FROM list WHERE id = ?", (row[0],))
        return {"overwritten": values, "deleted": [row[1]] + [title for _, title in notes]}
