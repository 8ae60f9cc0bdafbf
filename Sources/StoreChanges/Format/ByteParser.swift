import ByteCoding

/// Parses the parts of a change set, which may come from anyone: whatever is malformed is refused with its position.
struct ByteParser {
    private let input: ArraySlice<UInt8>
    /// The next byte.
    private var index: Int
    /// The client of the last name: most names of a set have the same.
    private var lastClient = ClientID(rawValue: "")

    init(_ bytes: ArraySlice<UInt8>) {
        input = bytes
        index = bytes.startIndex
    }

    init(_ bytes: [UInt8]) { self.init(bytes[...]) }

    /// How many bytes were parsed.
    private var position: Int { index - input.startIndex }

    /// Whether all bytes are parsed.
    var isAtEnd: Bool { index == input.endIndex }

    /// The deepest nesting of names: a name may contain names of rows that its key refers to.
    static let maximumDepth = 16
    /// The longest name of a table, column or client, in bytes.
    static let maximumNameLength = 4096
    /// The longest value, in bytes: SQLite's own limit.
    static let maximumValueLength = 2_147_483_647

    func malformed(_ what: String) -> StoreChangesError {
        StoreChangesError(
            .corrupt,
            "A change set is malformed at byte \(position): \(what). Synchronize again; if the error stays, the storage is damaged."
        )
    }

    mutating func byte(_ what: @autoclosure () -> String) throws -> UInt8 {
        guard !isAtEnd else { throw malformed("\(what()) is missing") }
        defer { index += 1 }
        return input[index]
    }

    mutating func raw(_ count: Int, _ what: @autoclosure () -> String) throws -> [UInt8] {
        guard count <= input.endIndex - index else {
            index = input.endIndex
            throw malformed("\(what()) is cut off")
        }
        defer { index += count }
        return Array(input[index..<index + count])
    }

    mutating func number(_ what: @autoclosure () -> String) throws -> UInt64 {
        var number: UInt64 = 0
        for shift in stride(from: UInt64(0), through: 63, by: 7) {
            let byte = try byte(what())
            // The tenth byte has one bit left, and no number ends with bits that are all zero.
            guard shift < 63 || byte <= 1, byte != 0 || shift == 0 else { throw malformed("\(what()) is no number") }
            number |= UInt64(byte & 0x7F) << shift
            if byte < 0x80 { return number }
        }
        throw malformed("\(what()) is no number")
    }

    mutating func count(_ what: @autoclosure () -> String, atMost limit: Int) throws -> Int {
        let number = try number(what())
        guard number <= UInt64(limit) else {
            throw malformed("\(what()) is \(number), and at most \(limit) is allowed")
        }
        return Int(number)
    }

    mutating func signed(_ what: @autoclosure () -> String) throws -> Int64 {
        let number = try number(what())
        return Int64(bitPattern: number >> 1) ^ -Int64(bitPattern: number & 1)
    }

    /// Parses text: a name of SQLite, unless another limit is given.
    mutating func text(_ what: String, atMost limit: Int = Self.maximumNameLength) throws -> String {
        try text(of: count("the length of \(what)", atMost: limit), what)
    }

    private mutating func text(of length: Int, _ what: String) throws -> String {
        let bytes = try raw(length, what)
        guard let text = String(validating: bytes, as: UTF8.self) else { throw malformed("\(what) isn't UTF-8") }
        return text
    }

    mutating func digest(_ what: String) throws -> SetDigest {
        SetDigest(rawValue: try raw(SetDigest.byteCount, what))
    }

    mutating func cell(_ what: String, depth: Int = 0) throws -> Cell {
        switch try byte(what) {
        case 0: return .null
        case 1: return .value(.integer(try signed(what)))
        case 2:
            let bitPattern = UInt64(littleEndianBytes: try raw(8, what)[...])
            // SQLite stores NaN as NULL.
            guard !Double(bitPattern: bitPattern).isNaN else { throw malformed("\(what) isn't a number") }
            return .value(.real(bitPattern: bitPattern))
        case 3: return .value(.text(try counted(what)))
        case 4: return .value(.blob(try counted(what)))
        case 5: return .row(try name(what, depth: depth + 1))
        case let tag: throw malformed("\(what) is of the unknown kind \(tag)")
        }
    }

    private mutating func counted(_ what: String) throws -> [UInt8] {
        try raw(count("the length of \(what)", atMost: Self.maximumValueLength), what)
    }

    private mutating func client(_ what: String) throws -> ClientID {
        let length = try count("the length of \(what)", atMost: Self.maximumNameLength)
        if length <= input.endIndex - index,
            input[index..<index + length].elementsEqual(lastClient.rawValue.utf8)
        {
            index += length
            return lastClient
        }
        lastClient = ClientID(rawValue: try text(of: length, what))
        return lastClient
    }

    mutating func name(_ what: String, depth: Int = 0) throws -> RowName {
        guard depth <= Self.maximumDepth else { throw malformed("\(what) is nested too deeply") }
        switch try byte(what) {
        case 1:
            return .numbered(client: try client(what), number: try signed(what))
        case 2:
            var cells: [Cell] = []
            for _ in 0..<(try count("the number of columns of \(what)", atMost: ChangeSetReader.maximumColumns)) {
                cells.append(try cell(what, depth: depth))
            }
            return .key(cells)
        case let tag: throw malformed("\(what) is of the unknown kind \(tag)")
        }
    }
}
