import StoreChanges
import Testing

@Suite("Stores whose text is UTF-16", .timeLimit(.minutes(60)))
struct TextEncodingTests {
    @Test(
        "Text that UTF-8 can't hold is refused, and the error has a query that finds it; all other text travels",
        arguments: [
            ("UTF-16le", "00D8"), ("UTF-16be", "D800"), ("UTF-16le", "00D86100"), ("UTF-16be", "DC00"),
            ("UTF-16be", "0061D800D800"), ("UTF-16le", "FEFF"), ("UTF-16be", "FFFF"),
        ],
        ["name", "note"]
    )
    func lostText(store: (String, String), column: String) throws {
        let (encoding, text) = store
        let devices = try DevicePair(
            """
            PRAGMA encoding = '\(encoding)';
            CREATE TABLE tag (name TEXT PRIMARY KEY COLLATE NOCASE, note);
            """
        )
        #expect(try devices.laptop.rows("PRAGMA encoding") == ["\"\(encoding)\""])
        try devices.laptop.edit(
            "INSERT INTO tag VALUES ('é😀', 'a' || char(0, 65279, 65533)), ('', 5), (x'00D8', x'00D8'), ('x', NULL)"
        )
        try devices.exchange()
        let query = "SELECT hex(CAST(name AS BLOB)), typeof(note), hex(CAST(note AS BLOB)) FROM tag ORDER BY 1"
        #expect(try devices.phone.rows(query) == devices.laptop.rows(query))

        try devices.laptop.edit("UPDATE tag SET \(column) = CAST(x'\(text)' AS TEXT) WHERE name = 'x'")
        let error = #expect(throws: StoreChangesError.self) { try devices.laptop.capture() }
        #expect(error?.code == .unsupportedFormat)
        let message = error?.message ?? ""
        #expect(message.contains("\(column) of tag"), "\(message)")
        let search = try #require(message.split(separator: "“").last?.split(separator: "”").first)
        #expect(try devices.laptop.rows(String(search)).count == 1, "\(search)")

        try devices.laptop.edit("UPDATE tag SET \(column) = 'mended' WHERE rowid = 4")
        try devices.exchange()
        #expect(try devices.phone.rows(query) == devices.laptop.rows(query))
        #expect(try devices.phone.rows("SELECT count(*) FROM tag WHERE \(column) = 'mended'") == ["1"])
    }
}
