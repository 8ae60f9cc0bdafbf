"""Reads the change sets in Vectors/. Written only from the article “The format of change sets, byte by byte”.

Prints for each file a JSON object with its digest, its header and its changes; refuses what isn't in the one form.
"""

import hashlib
import json
import pathlib
import struct
import sys


class Refused(Exception):
    pass


class Reader:
    def __init__(self, content):
        self.content = content
        self.position = 0

    def require(self, condition, reason):
        if not condition:
            raise Refused(f"byte {self.position}: {reason}")

    def take(self, count):
        self.require(self.position + count <= len(self.content), "cut off")
        self.position += count
        return self.content[self.position - count : self.position]

    def byte(self):
        return self.take(1)[0]

    def number(self):
        result = shift = 0
        while True:
            byte = self.byte()
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                self.require(byte or shift == 0, "not the shortest form")
                self.require(result < 1 << 64, "more than 64 bits")
                return result
            shift += 7
            self.require(shift < 70, "more than 64 bits")

    def signed(self):
        number = self.number()
        return (number >> 1) ^ -(number & 1)

    def text(self, limit=4096):
        count = self.number()
        self.require(count <= limit, "too long")
        return self.take(count).decode("utf-8")

    def expression(self):
        return self.text(1 << 24)

    def digest(self):
        return self.take(32).hex()

    def items(self, read):
        return [read() for _ in range(self.number())]

    def ascending(self, read, key=lambda item: item.encode()):
        found = self.items(read)
        keys = [key(item) for item in found]
        self.require(all(a < b for a, b in zip(keys, keys[1:])), "not in ascending order")
        return found

    def cell(self):
        kind = self.byte()
        if kind == 0:
            return None
        if kind == 1:
            return self.signed()
        if kind == 2:
            return {"real": struct.unpack("<d", self.take(8))[0].hex()}
        if kind in (3, 4):
            return {"text" if kind == 3 else "blob": self.take(self.number()).hex()}
        self.require(kind == 5, "an unknown cell")
        return {"row": self.name()}

    def name(self):
        kind = self.byte()
        if kind == 1:
            return [self.text(), self.signed()]
        self.require(kind == 2, "an unknown name")
        return {"key": self.items(self.cell)}

    def encoded(self, read):
        start = self.position
        return read(), self.content[start : self.position]

    def texts(self):
        return self.items(self.text)

    def optional(self, read):
        return read() if self.byte() else None

    def column(self):
        return [self.text(), self.text(), self.byte(), self.optional(self.expression)]

    def unique(self):
        return {
            "kind": self.text(),
            "terms": self.items(lambda: [self.byte(), self.expression(), self.text()]),
            "condition": self.optional(self.expression),
        }

    def encoded_items(self, read):
        found = self.ascending(lambda: self.encoded(read), lambda item: item[1])
        return [item for item, _ in found]

    def table(self):
        return {
            "kind": self.byte(),
            "key": self.texts(),
            "columns": dict(self.ascending(lambda: (self.text(), self.column()), lambda column: column[0].encode())),
            "uniques": self.encoded_items(self.unique),
            "references": self.encoded_items(lambda: [self.texts(), self.text(), self.texts(), self.text()]),
            "checks": self.items(lambda: self.items(self.expression)),
        }

    def description(self):
        length = self.number()
        if length == 0:
            return None
        start = self.position
        tables = self.ascending(lambda: (self.text(), self.table()), lambda table: table[0].encode())
        self.require(self.position == start + length, "not the length of the schema")
        return dict(tables)

    def set(self):
        self.require(self.take(5) == b"SSCS\x01", "not a change set of version 1")
        result = {
            "client": self.text(),
            "sequence": self.number(),
            "predecessor": self.digest(),
            "stamp": self.number(),
            "seen": self.ascending(lambda: [self.text(), self.number(), self.digest()], lambda seen: seen[0].encode()),
            "schema": [self.number(), self.digest()],
            "migration": self.byte(),
            "description": self.description(),
            "tables": [],
        }
        self.require(result["client"] and result["sequence"], "no client or sequence")
        self.require(result["stamp"] <= 1 << 62, "the stamp is too great")
        while kind := self.byte():
            self.require(kind == 1, "not a table")
            table = {"name": self.text(), "columns": self.ascending(self.text), "changes": []}
            before = result["tables"][-1]["name"] if result["tables"] else None
            self.require(before is None or before.encode() < table["name"].encode(), "tables not in ascending order")
            while kind := self.byte():
                table["changes"].append(self.change(kind, table["columns"]))
            used = {cell["column"] for change in table["changes"] if change["kind"] == 2 for cell in change["cells"]}
            if any(change["kind"] == 1 for change in table["changes"]):
                used = set(range(len(table["columns"])))
            self.require(table["changes"] and len(used) == len(table["columns"]), "a column or table without a change")
            result["tables"].append(table)
        self.require(self.position == len(self.content), "bytes after the end")
        return result

    def change(self, kind, columns):
        self.require(kind <= 5, "an unknown change")
        change = {"kind": kind, "row": self.name()}
        if kind in (1, 4):
            if self.byte():
                change["wish"] = self.signed()
            change["dangling"] = self.ascending(self.text)
            change["cells"] = [self.cell() for _ in (columns if kind == 1 else [])]
        elif kind == 2:
            change["cells"] = self.ascending(self.changed_cell, lambda cell: cell["column"])
            self.require(change["cells"] and change["cells"][-1]["column"] < len(columns), "no such column")
        else:
            change["image"] = self.digest()
            for name in ["parents", "left"] if kind == 5 else ["parents"]:
                rows = self.ascending(self.row, lambda row: (row[0].encode(), row[2]))
                change[name] = [row[:2] for row in rows]
            self.require(kind == 3 or change["left"], "no row is left")
        return change

    def row(self):
        table = self.text()
        return [table, *self.encoded(self.name)]

    def changed_cell(self):
        cell = {"column": self.number(), "flags": self.byte(), "new": self.cell()}
        self.require(cell["flags"] < 8, "unknown flags")
        if cell["flags"] & 4:
            cell["old"] = {"digest": self.digest()}
        else:
            cell["old"], encoded = self.encoded(self.cell)
            isReference = encoded[:1] == b"\x05"
            self.require(isReference or len(encoded) <= 32, "a former value that should be given by its digest")
        return cell


def main():
    for path in map(pathlib.Path, sys.argv[1:]):
        content = path.read_bytes()
        result = Reader(content).set()
        result["digest"] = hashlib.blake2b(content, digest_size=32).hexdigest()
        print(json.dumps(result, ensure_ascii=False, sort_keys=True))


try:
    main()
except (Refused, UnicodeDecodeError) as error:
    sys.exit(f"refused: {error}")
