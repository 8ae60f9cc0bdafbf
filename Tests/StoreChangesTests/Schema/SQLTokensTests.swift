import GRDB
import Testing

@testable import StoreChanges

@Suite("The tokens of an SQL statement")
struct SQLTokensTests {
    @Test("A combining accent is a token's own scalar, and belongs to no quote or sign before it")
    func combiningAccents() {
        let tokens = SQLTokens("\"\u{301}a\"\u{301}b '\u{301}' [\u{301}] (\u{301}) --\u{301}\n/*\u{301}*/ <\u{338}c")
        #expect(
            tokens.tokens == [
                .quoted("\u{301}a"), .word("\u{301}b"), .text("\u{301}"), .quoted("\u{301}"), .symbol("("),
                .word("\u{301}"), .symbol(")"), .symbol("<"), .word("\u{338}c"),
            ]
        )
        #expect(tokens.text(0..<1).unicodeScalars.elementsEqual("\"\u{301}a\"".unicodeScalars))
    }

    @Test("White space, ends of lines and keywords are SQLite's own, and no other script's")
    func otherScripts() {
        let tokens = SQLTokens("a\u{A0}b\u{2028}c --\rCHECK\r\nchec\u{212A} \u{37E}").tokens
        #expect(tokens == [.word("a\u{A0}b\u{2028}c"), .word("chec\u{212A}"), .word("\u{37E}")])
        #expect(!tokens.contains { $0.isKeyword("CHECK") })
        #expect(SQLTokens("cHeck").tokens.first?.isKeyword("CHECK") == true)
    }

    @Test("A quote is doubled in quotes, also where a combining accent follows")
    func quoting() {
        let name = "a\"\u{301}"
        #expect(name.quotedName.unicodeScalars.elementsEqual("\"a\"\"\u{301}\"".unicodeScalars))
        #expect(SQLTokens(name.quotedName).tokens == [.quoted(name)])
        let text = SQLTokens.Token.text("'\u{301}").description
        #expect(text.unicodeScalars.elementsEqual("'''\u{301}'".unicodeScalars))
    }

    @Test("Names and text that begin with a combining accent are found in constraints and indexes")
    func schema() throws {
        let schema = try DatabaseQueue().write { db in
            try db.execute(
                sql: """
                    CREATE TABLE t (
                        id INTEGER PRIMARY KEY, "\u{301}a" INT CHECK ("\u{301}a" > 0), b TEXT CHECK (b <> '\u{301}(')
                    );
                    CREATE UNIQUE INDEX i ON t (lower("\u{301}a"), b) WHERE b <> '\u{301}';
                    """
            )
            return try StoreSchema(db)
        }
        let table = try #require(schema.table("t"))
        #expect(table.checks.map(\.columns) == [["\u{301}a"], ["b"]])
        #expect(table.uniques.map(\.condition) == ["b <> '\u{301}'"])
        #expect(table.uniques.first?.terms.map(\.expression) == ["lower(\"\u{301}a\")", "\"b\""])
    }
}
