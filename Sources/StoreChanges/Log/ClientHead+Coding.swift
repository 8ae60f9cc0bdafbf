extension ClientHead {
    /// The head's bytes, in its replica and on the remote.
    package var encoded: [UInt8] {
        var writer = ByteWriter()
        writer.head(self)
        return writer.bytes
    }

    /// Reads a head.
    ///
    /// - Throws: ``StoreChangesError`` with `corrupt`.
    package init(decoding bytes: [UInt8]) throws {
        var parser = ByteParser(bytes)
        self = try parser.head()
        guard parser.isAtEnd else { throw parser.malformed("there are bytes after the head") }
    }
}

extension StablePrefix {
    /// The prefix's bytes.
    var encoded: [UInt8] {
        var writer = ByteWriter()
        writer.prefix(self)
        return writer.bytes
    }

    init(decoding bytes: [UInt8]) throws {
        var parser = ByteParser(bytes)
        self = try parser.prefix()
    }
}

extension [ClientID: SeenSet] {
    /// The last sets of clients, in ascending order of the clients.
    var encoded: [UInt8] {
        var writer = ByteWriter()
        writer.vector(self)
        return writer.bytes
    }

    init(decoding bytes: [UInt8]) throws {
        var parser = ByteParser(bytes)
        self = try parser.vector()
    }
}

extension ByteWriter {
    fileprivate mutating func vector(_ vector: [ClientID: SeenSet]) {
        count(vector.count)
        for (client, seen) in vector.sorted(by: { $0.key < $1.key }) {
            set(SetID(client, seen.sequence))
            raw(seen.digest.rawValue)
        }
    }

    fileprivate mutating func prefix(_ prefix: StablePrefix) {
        number(prefix.position.stamp.rawValue)
        set(prefix.position.id)
        vector(prefix.vector)
    }

    fileprivate mutating func head(_ head: ClientHead) {
        text(head.client.rawValue)
        number(head.number)
        optional(head.last) {
            $0.number($1.sequence)
            $0.raw($1.digest.rawValue)
        }
        vector(head.seen)
        optional(head.stable) { $0.prefix($1) }
        count(head.voids.count)
        for void in head.voids {
            set(void.set.id)
            raw(void.set.digest.rawValue)
            number(void.lastSequence)
        }
    }
}

extension ByteParser {
    fileprivate mutating func vector() throws -> [ClientID: SeenSet] {
        var vector: [ClientID: SeenSet] = [:]
        for _ in 0..<(try count("the number of clients", atMost: .max)) {
            let set = try set()
            vector[set.client] = SeenSet(set.sequence, try digest("a digest"))
        }
        return vector
    }

    fileprivate mutating func prefix() throws -> StablePrefix {
        let stamp = Stamp(rawValue: try number("a stamp"))
        guard stamp <= Stamp.maximum else { throw malformed("a stamp is too great") }
        let position = SetPosition(stamp, try set())
        return StablePrefix(position, try vector())
    }

    fileprivate mutating func head() throws -> ClientHead {
        var head = ClientHead(ClientID(rawValue: try text("a client")), number: try number("the number of a head"))
        head.last = try optional { SeenSet(try $0.number("a sequence"), try $0.digest("a digest")) }
        head.seen = try vector()
        head.stable = try optional { try $0.prefix() }
        for _ in 0..<(try count("the number of void sets", atMost: .max)) {
            let reference = SetReference(try set(), try digest("a digest"))
            head.voids.insert(VoidSet(reference, lastSequence: try number("a sequence")))
        }
        return head
    }
}
