import OperationsTesting
import StoreChanges
import TestSupport
import Testing

@Suite("Which sets count")
struct SetJudgementTests {
    private static func knowledge(
        prefix: StablePrefix? = nil,
        removals: [String: UInt64] = [:],
        voids: Set<VoidSet> = []
    ) -> LogKnowledge {
        var knowledge = LogKnowledge()
        var news = LogNews()
        var head = ClientHead(ClientID(rawValue: "Z"), number: 1)
        head.stable = prefix
        head.voids = voids
        news.heads = [head]
        for (client, sequence) in removals { news.removals[ClientID(rawValue: client)] = sequence }
        knowledge.remember(news)
        return knowledge
    }

    private static func void(_ entries: [LogEntry], _ knowledge: LogKnowledge) -> Set<SetReference> {
        let judgement = SetJudgement(entries, knowledge)
        #expect(
            SetJudgement(entries.reversed(), knowledge).void == judgement.void,
            "the order of arrival is irrelevant"
        )
        return judgement.void
    }

    @Test("A removed client's sets count up to the number that the note names")
    func removal() {
        let first = TestLog.set("A", at: 1)
        let second = TestLog.set("A", at: 2, after: first)
        let third = TestLog.set("A", at: 3, after: second)
        let reader = TestLog.set("B", at: 4, seeing: third)
        let knowledge = Self.knowledge(removals: ["A": 1])
        #expect(Self.void([first, second, third, reader], knowledge) == [second.reference, third.reference])
        let judgement = SetJudgement([first, second, third, reader], knowledge)
        #expect(judgement.ready() == [first, reader], "a void set needn't be waited for")
        #expect(judgement.effective(reader.header).hasSeen(first.header.id))
        #expect(!judgement.effective(reader.header).hasSeen(second.header.id))
        #expect(SetJudgement([first, reader], knowledge).ready() == [first, reader], "nor need it be known")
    }

    @Test("Of several notes of one removal the highest number counts")
    func removals() {
        var knowledge = Self.knowledge(removals: ["A": 2])
        var news = LogNews()
        news.removals = [ClientID(rawValue: "A"): 1]
        knowledge.remember(news)
        let first = TestLog.set("A", at: 1)
        let second = TestLog.set("A", at: 2, after: first)
        #expect(Self.void([first, second], knowledge).isEmpty)
    }

    @Test("A set that sorts before the end of a published prefix, which lacks it, doesn't count")
    func beforePrefix() {
        let known = TestLog.set("A", at: 5)
        let late = TestLog.set("B", at: 4)
        #expect(Self.void([known, late], Self.knowledge(prefix: TestLog.prefix(known))) == [late.reference])
        #expect(Self.void([known, late], Self.knowledge()).isEmpty)
        let impossible = TestLog.set("B", at: 4, seeing: known)
        let void = Self.void([known, impossible], Self.knowledge(prefix: TestLog.prefix(known)))
        #expect(void == [impossible.reference])
    }

    @Test("A set whose author knew a published prefix only in part doesn't count, although it sorts after the prefix")
    func unaware() {
        let (first, second) = (TestLog.set("A", at: 1), TestLog.set("B", at: 2))
        let unaware = TestLog.set("C", at: 3, seeing: first)
        let aware = TestLog.set("D", at: 4, seeing: first, second, unaware)
        let knowledge = Self.knowledge(prefix: TestLog.prefix(first, second))
        #expect(Self.void([first, second, unaware, aware], knowledge) == [unaware.reference])
        #expect(SetJudgement([first, second, unaware, aware], knowledge).ready() == [first, second, aware])
    }

    @Test("No successor of a void set counts, whatever it had seen, also if the void set itself was never read")
    func successors() {
        let known = TestLog.set("A", at: 5)
        let late = TestLog.set("B", at: 4)
        let successor = TestLog.set("B", at: 6, after: late, seeing: known)
        let knowledge = Self.knowledge(prefix: TestLog.prefix(known))
        #expect(Self.void([known, late, successor], knowledge) == [late.reference, successor.reference])
        let listed = Self.knowledge(voids: [VoidSet(late.reference, lastSequence: 0)])
        #expect(Self.void([known, successor], listed) == [successor.reference])
    }

    @Test("Of two sets of one number the one with the lesser digest counts, and no successor of the other")
    func copies() {
        let base = TestLog.set("A", at: 1)
        let copies = [TestLog.set("A", at: 2, after: base), TestLog.set("A", at: 3, after: base)]
        let sorted = copies.sorted { $0.digest.rawValue.lexicographicallyPrecedes($1.digest.rawValue) }
        let (wins, loses) = (sorted[0], sorted[1])
        let winner = TestLog.set("A", at: 4, after: wins)
        let successor = TestLog.set("A", at: 5, after: loses)
        let reader = TestLog.set("B", at: 6, seeing: successor)
        let all = [base, wins, loses, winner, successor, reader]
        #expect(Self.void(all, Self.knowledge()) == [loses.reference, successor.reference])
        let judgement = SetJudgement(all, Self.knowledge())
        #expect(judgement.ready().map(\.reference) == [base, wins, winner, reader].map(\.reference))
        let effective = judgement.effective(reader.header)
        #expect(effective.hasSeen(base.header.id) && !effective.hasSeen(wins.header.id), "up to the common predecessor")
    }

    @Test("A set is void if its author is known to have followed another copy than the one in a published prefix")
    func readerOfCopy() {
        let base = TestLog.set("A", at: 1)
        let (known, copy) = (TestLog.set("A", at: 2, after: base), TestLog.set("A", at: 3, after: base))
        let third = TestLog.set("A", at: 4, after: copy)
        let fourth = TestLog.set("A", at: 5, after: third)
        let reader = TestLog.set("B", at: 6, seeing: fourth)
        let knowledge = Self.knowledge(prefix: TestLog.prefix(known))
        let void = Self.void([base, known, copy, third, fourth, reader], knowledge)
        #expect(void == Set([copy, third, fourth, reader].map(\.reference)))
        #expect(!Self.void([base, known, fourth, reader], knowledge).contains(reader.reference), "not known yet")
    }

    @Test("Of two sets of one number the one in a published prefix counts, whatever its digest")
    func publishedCopy() {
        let base = TestLog.set("A", at: 1)
        let copies = [TestLog.set("A", at: 2, after: base), TestLog.set("A", at: 3, after: base)]
        for published in copies {
            let void = Self.void([base] + copies, Self.knowledge(prefix: TestLog.prefix(published)))
            #expect(void == Set(copies.map(\.reference)).subtracting([published.reference]))
        }
    }

    @Test(
        "A published prefix makes no set of a client with a lower number void while the client's set in it is unknown"
    )
    func unknownMember() {
        let first = TestLog.set("A", at: 1)
        let second = TestLog.set("A", at: 2, after: first)
        let third = TestLog.set("A", at: 3, after: second)
        let late = TestLog.set("B", at: 2)
        for last in [second, third] {
            let knowledge = Self.knowledge(prefix: TestLog.prefix(last))
            #expect(Self.void([first, late], knowledge) == [late.reference])
            #expect(SetJudgement([first, late], knowledge).ready() == [first])
        }
        #expect(Self.void([first, second], Self.knowledge(prefix: TestLog.prefix(third))).isEmpty)
        // A copy of the client captured this one. Which of both is in the prefix is known once the second one is.
        let other = TestLog.set("A", at: 2)
        let knowledge = Self.knowledge(prefix: TestLog.prefix(second))
        #expect(Self.void([first, other], knowledge).count == 1)
        #expect(Self.void([first, other, second], knowledge) == [other.reference])
    }

    @Test("A set of the number of a published prefix's unknown set doesn't count, and neither does a successor of it")
    func copyOfUnknownMember() {
        let first = TestLog.set("A", at: 1)
        let unknown = TestLog.set("A", at: 2, after: first)
        let copy = TestLog.set("A", at: 3, after: first)
        let successor = TestLog.set("A", at: 4, after: copy)
        let knowledge = Self.knowledge(prefix: TestLog.prefix(unknown))
        #expect(Self.void([first, copy, successor], knowledge) == [copy.reference, successor.reference])
    }

    @Test("A set whose predecessor is missing doesn't displace another set of its number")
    func missingPredecessor() {
        for stamp in UInt64(3)..<13 {
            let base = TestLog.set("A", at: 1)
            let known = TestLog.set("A", at: 2, after: base)
            let orphan = TestLog.set("A", at: stamp, after: TestLog.set("A", at: 0))
            #expect(Self.void([base, known, orphan], Self.knowledge()).isEmpty)
            #expect(SetJudgement([base, known, orphan], Self.knowledge()).ready() == [base, known])
        }
    }

    @Test("A set isn't ready before its predecessor and all that its author had seen")
    func readiness() {
        let first = TestLog.set("A", at: 1)
        let second = TestLog.set("A", at: 2, after: first)
        let reader = TestLog.set("B", at: 3, seeing: second)
        #expect(SetJudgement([second, reader], Self.knowledge()).ready().isEmpty)
        #expect(SetJudgement([first, reader], Self.knowledge()).ready() == [first])
        #expect(SetJudgement([reader, second, first], Self.knowledge()).ready() == [first, second, reader])
    }

    @Test("A set that was never read needn't be waited for if a head lists it as void")
    func listed() {
        let base = TestLog.set("A", at: 1)
        let lost = TestLog.set("A", at: 2, after: base)
        let reader = TestLog.set("B", at: 3, seeing: lost)
        #expect(SetJudgement([base, reader], Self.knowledge()).ready() == [base])
        let listed = Self.knowledge(voids: [VoidSet(lost.reference, lastSequence: 1)])
        let judgement = SetJudgement([base, reader], listed)
        #expect(judgement.ready() == [base, reader])
        #expect(judgement.effective(reader.header).seen[base.header.id.client]?.sequence == 1)
        #expect(
            SetJudgement([base, lost, reader], listed).ready() == [base, lost, reader],
            "a set that is known is judged"
        )
    }

    // MARK: Random logs

    /// Sets of clients that see each other, some with the identity of another one.
    private static func randomLog(_ random: inout SplitMix64) -> [LogEntry] {
        var devices: [(client: String, last: LogEntry?, seen: [ClientID: LogEntry])] = ["A", "B", "C"].map {
            ($0, nil, [:])
        }
        var entries: [LogEntry] = []
        for stamp in UInt64(1)...UInt64.random(in: 4...14, using: &random) {
            let index = Int.random(in: devices.indices, using: &random)
            if random.chance(15), devices.count < 6 { devices.append(devices[index]) }
            if random.chance(50), let read = entries.randomElement(using: &random) {
                let client = read.header.id.client
                let known = devices[index].seen[client]?.header.id.sequence ?? 0
                if client.rawValue != devices[index].client, known < read.header.id.sequence {
                    devices[index].seen[client] = read
                }
            }
            let id = SetID(
                ClientID(rawValue: devices[index].client),
                (devices[index].last?.header.id.sequence ?? 0) + 1
            )
            let header = SyncChangeSet.Header(
                id: id,
                predecessor: devices[index].last?.digest ?? .none,
                stamp: Stamp(rawValue: stamp),
                seen: TestLog.vector(Array(devices[index].seen.values)),
                schema: SchemaVersion(0, .none)
            )
            let entry = LogEntry(SyncChangeSet(header, []))
            devices[index].last = entry
            entries.append(entry)
        }
        return entries
    }

    @Test("Any log, read in any order, gives what the plain rules give")
    func random() {
        var (voids, published) = (0, 0)
        for seed in TestDepth.seeds(quick: 300, ci: 2_000, deep: 100_000) {
            var random = SplitMix64(seed: seed)
            let entries = Self.randomLog(&random)
            let removals: [String: UInt64] = random.chance(40) ? ["A": UInt64.random(in: 0...3, using: &random)] : [:]
            let plain = OracleLog(entries.map { SyncChangeSet($0.header, []) })
            var prefix: StablePrefix?
            if random.chance(50), let last = entries.randomElement(using: &random) {
                // What one set had seen, as if everything else came late.
                let vector = plain.sets[last.reference]?.header.seen ?? [:]
                prefix = StablePrefix(last.position, vector.merging(TestLog.vector([last])) { $1 })
                published += 1
            }
            let oracle = OracleLog(
                entries.map { SyncChangeSet($0.header, []) },
                prefixes: prefix.map { [$0] } ?? [],
                removals: Dictionary(uniqueKeysWithValues: removals.map { (ClientID(rawValue: $0), $1) })
            )
            let knowledge = Self.knowledge(prefix: prefix, removals: removals)
            let judgement = SetJudgement(entries.shuffled(using: &random), knowledge)
            #expect(judgement.void == oracle.void, "seed \(seed)")
            let effective = Dictionary(uniqueKeysWithValues: oracle.counting.map { ($0.header.id, $0.header) })
            for entry in judgement.ready() {
                let seen = judgement.effective(entry.header).seen.mapValues(\.sequence)
                #expect(seen == effective[entry.header.id]?.seen.mapValues(\.sequence), "seed \(seed)")
            }
            #expect(judgement.ready().count == entries.count - judgement.void.count, "seed \(seed)")
            voids += judgement.void.count
        }
        #expect(voids > 0 && published > 0)
    }

    @Test("No set is void only because others are unknown, unless a copy of its client captured another of its number")
    func randomParts() {
        var voids = 0
        for seed in TestDepth.seeds(quick: 300, ci: 2_000, deep: 100_000) {
            var random = SplitMix64(seed: seed)
            let entries = Self.randomLog(&random)
            guard Set(entries.map(\.header.id)).count == entries.count, let last = entries.randomElement(using: &random)
            else { continue }
            let vector = last.header.seen.merging(TestLog.vector([last])) { $1 }
            let knowledge = Self.knowledge(prefix: StablePrefix(last.position, vector))
            let all = SetJudgement(entries, knowledge).void
            let part = entries.filter { _ in random.chance(60) }
            #expect(SetJudgement(part, knowledge).void.isSubset(of: all), "seed \(seed)")
            voids += all.count
        }
        #expect(voids > 0)
    }
}
