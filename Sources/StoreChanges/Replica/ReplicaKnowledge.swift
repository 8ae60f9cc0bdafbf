/// What a replica remembers of the storage besides sets, in its database.
struct ReplicaKnowledge {
    private let db: SQLConnection

    init(_ db: SQLConnection) { self.db = db }

    func read() throws -> LogKnowledge {
        var knowledge = LogKnowledge()
        for values in try db.all("SELECT bytes FROM heads") {
            let head = try ClientHead(decoding: values.bytes(0) ?? [])
            knowledge.heads[head.client] = head
        }
        for values in try db.all("SELECT client, sequence FROM removals") {
            knowledge.removals[values.client(0)] = try values.number(1)
        }
        knowledge.stable = try ReplicaFact.stable.read(db).map { try StablePrefix(decoding: $0) }
        return knowledge
    }

    /// Remembers news, and returns whether they say anything that isn't known.
    func remember(_ news: LogNews) throws -> Bool {
        let former = try read()
        var knowledge = former
        knowledge.remember(news)
        guard knowledge != former else { return false }
        for head in news.heads {
            let newest = knowledge.heads[head.client] ?? head
            try db.execute(
                "INSERT OR REPLACE INTO heads (client, bytes) VALUES (?, ?)",
                [.text(head.client.rawValue), .blob(newest.encoded)]
            )
        }
        for (client, sequence) in knowledge.removals {
            try db.execute(
                "INSERT OR REPLACE INTO removals (client, sequence) VALUES (?, ?)",
                [.text(client.rawValue), .integer(Int64(clamping: sequence))]
            )
        }
        return true
    }

    func setStable(_ prefix: StablePrefix) throws { try ReplicaFact.stable.write(prefix.encoded, db) }
}
