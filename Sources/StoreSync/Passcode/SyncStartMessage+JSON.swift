import Foundation
import SyncCryptography

// {"syncStart":{"action":"New","passcode":"correct horse"}}
//
// A message without an action comes from a version without actions: it deletes nothing.
extension SyncStartMessage {
    /// The maximum size of a message in bytes: every byte of the passcode written as `\u00XX`, and some room.
    public static let maximumBytes = 6 * (1 << 16) + 1024

    /// The message's JSON as a dictionary, which contains the passcode in plaintext.
    public var requestDict: [String: [String: String]] {
        [Key.message: [Key.action: action.rawValue, Key.passcode: writtenPasscode]]
    }

    /// The message's JSON, which contains the passcode in plaintext.
    public var requestData: String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let data = try? encoder.encode(requestDict) else { preconditionFailure("strings always encode") }
        return String(decoding: data, as: UTF8.self)
    }

    /// The passcode as it has to be written, since reading drops one line end at its end.
    private var writtenPasscode: String {
        let passcode = passcode.revealed
        return passcode.last == "\n" || passcode.last == "\r\n" ? passcode + "\n" : passcode
    }

    /// Reads a message from its JSON.
    ///
    /// Unknown and repeated fields are refused.
    ///
    /// - Parameter requestData: The JSON.
    /// - Throws: ``StoreSyncError/Code/invalidMessage`` if the JSON isn't a message, which the error doesn't quote;
    ///   ``StoreSyncError/Code/invalidPassword`` if the passcode can't be one.
    public init(requestData: some Sequence<UInt8>) throws(StoreSyncError) {
        let bytes = Array(requestData.prefix(Self.maximumBytes + 1))
        guard bytes.count <= Self.maximumBytes else {
            throw .invalidMessage("It has more than \(Self.maximumBytes) bytes.")
        }
        var parser = MessageParser(bytes[...])
        let fields = try parser.message()
        guard let passcode = fields[Key.passcode] else { throw .invalidMessage("It has no passcode.") }
        let action = try fields[Key.action].map { name throws(StoreSyncError) in
            guard let action = Action(rawValue: name) else {
                throw .invalidMessage("Its action isn't New or Existing.")
            }
            return action
        }
        try self.init(passcode: passcode, action: action ?? .existing)
    }

    /// Reads a message from its JSON.
    public init(requestData: String) throws(StoreSyncError) {
        try self.init(requestData: requestData.utf8)
    }

    fileprivate enum Key {
        static let message = "syncStart"
        static let action = "action"
        static let passcode = "passcode"
    }
}

/// Parses the JSON of a message: an object that contains one object of strings.
///
/// It's written by hand because Foundation's decoders accept a repeated field, and keep one of its values.
private struct MessageParser {
    private var rest: ArraySlice<UInt8>

    init(_ bytes: ArraySlice<UInt8>) { rest = bytes }

    mutating func message() throws(StoreSyncError) -> [String: String] {
        try expect("{")
        guard try string() == SyncStartMessage.Key.message else { throw .invalidMessage("It isn't a syncStart.") }
        try expect(":")
        let fields = try fields()
        try expect("}")
        skipSpace()
        guard rest.isEmpty else { throw .invalidMessage("Text follows it.") }
        return fields
    }

    private mutating func fields() throws(StoreSyncError) -> [String: String] {
        try expect("{")
        var fields: [String: String] = [:]
        if take("}") { return fields }
        repeat {
            let key = try string()
            guard [SyncStartMessage.Key.action, SyncStartMessage.Key.passcode].contains(key) else {
                throw .invalidMessage("It has an unknown field.")
            }
            try expect(":")
            guard try fields.updateValue(string(), forKey: key) == nil else {
                throw .invalidMessage("It has a field twice.")
            }
        } while take(",")
        try expect("}")
        return fields
    }

    /// Reads a string: this parser finds its end, and Foundation decodes it.
    private mutating func string() throws(StoreSyncError) -> String {
        skipSpace()
        let start = rest
        try expect("\"")
        while let byte = rest.popFirst(), byte != UInt8(ascii: "\"") {
            if byte == UInt8(ascii: "\\") { _ = rest.popFirst() }
        }
        let token = Data(start[start.startIndex..<rest.startIndex])
        // The decoder's own error isn't passed on, since it may quote the passcode.
        guard let text = try? JSONDecoder().decode(String.self, from: token) else {
            throw .invalidMessage("A string in it can't be read.")
        }
        return text
    }

    private mutating func expect(_ character: Unicode.Scalar) throws(StoreSyncError) {
        guard take(character) else { throw .invalidMessage("It isn't the JSON of a syncStart.") }
    }

    private mutating func take(_ character: Unicode.Scalar) -> Bool {
        skipSpace()
        guard rest.first == UInt8(ascii: character) else { return false }
        rest.removeFirst()
        return true
    }

    private mutating func skipSpace() {
        rest = rest.drop { [0x20, 0x09, 0x0A, 0x0D].contains($0) }
    }
}

extension StoreSyncError {
    fileprivate static func invalidMessage(_ reason: String) -> StoreSyncError {
        StoreSyncError(
            .invalidMessage,
            #"The message can't be read. \#(reason) Write it as {"syncStart":{"action":"New" or "Existing","passcode":"…"}}."#
        )
    }
}
