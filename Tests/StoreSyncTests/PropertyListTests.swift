import Foundation
import OperationsTesting
import Testing

@testable import StoreSync

@Suite("Untrusted property lists")
struct PropertyListTests {
    private func xml(_ body: String) -> [UInt8] {
        Array("<?xml version=\"1.0\"?><plist version=\"1.0\">\(body)</plist>".utf8)
    }

    @Test("A property list's value is read back, and booleans stay different from one and zero")
    func roundTrip() throws {
        let value = PropertyListValue.dictionary([
            "text": .string("ä & < >"), "one": .integer(1), "zero": .integer(0), "yes": .boolean(true),
            "no": .boolean(false), "half": .real(0.5), "then": .date(Date(timeIntervalSince1970: 1_000_000_000)),
            "bytes": .data(Data([0, 255])), "list": .array([.integer(-7), .dictionary([:])]),
        ])
        #expect(try PropertyListValue(xml: value.xml) == value)
    }

    @Test(
        "An invalid property list is malformed, and never a crash",
        arguments: [
            "", "<?xml", "bplist00", "<plist>", "<dict><key>a</key></dict>", "<integer>99999999999999999999</integer>",
            "<date>yesterday</date>", "<dict><key>a</key><real>x</real></dict>",
        ]
    )
    func malformed(body: String) {
        #expect(throws: PropertyListValue.Malformed.self) { try PropertyListValue(xml: xml(body)) }
        #expect(throws: PropertyListValue.Malformed.self) { try PropertyListValue(xml: Array(body.utf8)) }
    }

    @Test(
        "A property list whose nesting would exhaust the parser's stack is refused before the parser sees it",
        arguments: ["", " ", " x=\"1\""]
    )
    func deep(attribute: String) {
        let count = 100_000
        let body =
            String(repeating: "<array\(attribute)>", count: count) + String(repeating: "</array>", count: count)
        #expect(throws: PropertyListValue.Malformed.self) { try PropertyListValue(xml: xml(body)) }
    }

    /// Elements, repeated a hundred thousand times, that hide their nesting from a tag counter or aren't containers.
    private static let hiddenNesting = [
        "<array><!-- </array> -->", "<array><![CDATA[</array>]]>", "<array><?x </array>?>",
        "<array x=\"/\"><array y=/>",
        "<array/ >", "<plist>", "<key>", "<!DOCTYPE plist \"</array>\"><array>", "<array>",
    ]

    @Test("A property list whose nesting is hidden from a tag counter is refused too", arguments: hiddenNesting)
    func hidden(step: String) {
        let body = String(repeating: step, count: 100_000)
        #expect(throws: PropertyListValue.Malformed.self) { try PropertyListValue(xml: xml(body)) }
    }

    @Test(
        "A property list in an encoding in which tags look different, or in another syntax, is refused",
        arguments: ["UTF-7", "utf-16", "UTF-32", "IBM037", "ISO-8859-1"]
    )
    func encodings(encoding: String) {
        let body = "<plist version=\"1.0\"><dict/></plist>"
        for quote in ["\"", "'"] {
            let declaration = "<?xml version=\"1.0\" encoding=\(quote)\(encoding)\(quote)?>"
            #expect(throws: PropertyListValue.Malformed.self) {
                try PropertyListValue(xml: Array((declaration + body).utf8))
            }
        }
        #expect(throws: PropertyListValue.Malformed.self) {
            try PropertyListValue(
                xml: Array("<?xml version=\"1.0\"?><00>\(String(repeating: "(", count: 100_000))".utf8)
            )
        }
        #expect(throws: Never.self) {
            try PropertyListValue(xml: Array("<?xml version='1.0' encoding='utf-8'?>\n\(body)".utf8))
        }
    }

    @Test("A property list's megabytes of unclosed tags, elements or text are scanned only once")
    func large() {
        let megabyte = 1 << 20
        for body in [
            String(repeating: "<", count: megabyte), String(repeating: "<a", count: megabyte),
            "<array>" + String(repeating: "<true/>", count: 300_000) + "</array>",
            "<string>" + String(repeating: "x", count: 5 * megabyte) + "</string>",
        ] {
            #expect(throws: PropertyListValue.Malformed.self) { try PropertyListValue(xml: xml(body)) }
        }
    }

    @Test("A property list with so many keys that collisions in Foundation's hash would be slow is refused")
    func keys() throws {
        func dictionary(_ count: Int) -> [UInt8] {
            let (start, end) = (String(repeating: "a", count: 40), String(repeating: "a", count: 80))
            let pairs = (0..<count).map { "<key>\(start)\($0)\(end)</key><true/>" }
            return xml("<dict>\(pairs.joined())</dict>")
        }
        #expect(try PropertyListValue(xml: dictionary(2_048)).dictionary?.count == 2_048)
        #expect(throws: PropertyListValue.Malformed.self) { try PropertyListValue(xml: dictionary(2_049)) }
    }

    @Test("A manifest cut anywhere or with a flipped bit in any byte is an error or unharmed, never a crash")
    func damagedManifest() throws {
        let fixture = try Fixture()
        let hierarchy = fixture.hierarchy.document(fixture.document)
        let name = UploadName(client: fixture.document, generation: 3, upload: UUID().uuidString)
        let root = try #require(ContentRootFixture.root)
        var manifest = StoreManifest(
            name: name,
            created: Date(timeIntervalSince1970: 1_000_000_000),
            files: WholeStoreFile.allCases.map { .init(file: $0, size: 5, storedSize: 5, contentRoot: root) },
            includes: [UploadName(client: fixture.document, generation: 2, upload: UUID().uuidString)]
        )
        manifest.otherHeads = [UploadName(client: fixture.application, generation: 1, upload: UUID().uuidString)]
        let bytes = manifest.xml
        let path = hierarchy.manifest(name)
        #expect(try StoreManifest(bytes, named: name, at: path) == manifest)
        for length in 0..<bytes.count {
            _ = try? StoreManifest(Array(bytes.prefix(length)), named: name, at: path)
        }
        var generator = SplitMix64(seed: 1)
        for index in bytes.indices {
            var damaged = bytes
            damaged[index] ^= UInt8(1 << Int.random(in: 0..<8, using: &generator))
            _ = try? StoreManifest(damaged, named: name, at: path)
        }
    }
}
