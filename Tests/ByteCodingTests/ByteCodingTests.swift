import ByteCoding
import Foundation
import Testing

@Suite("Hexadecimal digits")
struct HexadecimalTests {
    @Test("Hexadecimal digits are written in lower case, two for each byte, and read in either case")
    func roundTrip() {
        let bytes = Array(UInt8.min...UInt8.max)
        #expect(([0, 0x0F, 0xA0, 0xFF] as [UInt8]).hexadecimal == "000fa0ff")
        #expect([UInt8](hexadecimal: bytes.hexadecimal.utf8) == bytes)
        #expect([UInt8](hexadecimal: bytes.hexadecimal.uppercased().utf8) == bytes)
        #expect([UInt8](hexadecimal: "".utf8) == [])
    }

    @Test(
        "Bytes aren't read from text that isn't pairs of hexadecimal digits",
        arguments: ["0", "+1", "0x", "0g", " 00", "000", "\u{FF}\u{FF}", "１２"]
    )
    func refused(text: String) {
        #expect([UInt8](hexadecimal: text.utf8) == nil)
    }
}

@Suite("Fields of a format")
struct FieldTests {
    @Test("A format's fields are read in order, numbers with the least significant byte first")
    func fields() throws {
        let identifier = UUID()
        let bytes = UInt16(0x0102).littleEndianBytes + Int64(-2).littleEndianBytes + identifier.bytes + [7, 8]
        #expect(bytes.prefix(2) == [2, 1])
        var fields = FieldReader(bytes[...])
        #expect(fields.integer(UInt16.self) == 0x0102)
        #expect(fields.integer(Int64.self) == -2)
        #expect(UUID(bytes: fields.slice(16)) == identifier)
        #expect(fields.remaining == 2)
        #expect(fields.bytes(2) == [7, 8])
        #expect(fields.remaining == 0)
    }
}
