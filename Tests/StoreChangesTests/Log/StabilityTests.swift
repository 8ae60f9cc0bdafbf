import StoreChanges
import Testing

@Suite("The stable prefix")
struct StabilityTests {
    private let first = TestLog.set("A", at: 1)
    private let second: LogEntry

    init() { second = TestLog.set("B", at: 2, seeing: first) }

    /// Computes the prefix for the client A, all of whose sets its store has seen.
    private func prefix(
        _ entries: [LogEntry],
        heads: [ClientHead],
        removals: [String: UInt64] = [:],
        storeSeen: [LogEntry]? = nil
    ) -> StablePrefix? {
        var knowledge = LogKnowledge()
        var news = LogNews()
        news.heads = heads
        for (client, sequence) in removals { news.removals[ClientID(rawValue: client)] = sequence }
        knowledge.remember(news)
        let judgement = SetJudgement(entries, knowledge)
        let ready = judgement.ready()
        let last = Dictionary(grouping: ready, by: \.header.id.client).compactMap(\.value.last)
        return judgement.stablePrefix(
            of: ready,
            for: ClientID(rawValue: "A"),
            storeSeen: TestLog.vector(storeSeen ?? last)
        )
    }

    @Test("It ends with the last set that every client has seen")
    func everybody() {
        #expect(
            prefix([first, second], heads: [TestLog.head("B", seeing: first, second)]) == TestLog.prefix(first, second)
        )
        #expect(prefix([first, second], heads: [TestLog.head("B", seeing: first)]) == TestLog.prefix(first))
        #expect(prefix([first, second], heads: [TestLog.head("B")]) == nil)
    }

    @Test("A client that has no head yet keeps it from advancing, also if only a set of another client names it")
    func missingHead() {
        #expect(prefix([first, second], heads: []) == nil)
        let third = TestLog.set("C", at: 3, seeing: first, second)
        let heads = [TestLog.head("B", seeing: first, second)]
        #expect(prefix([first, second, third], heads: heads) == nil)
        #expect(prefix([first, second, third], heads: heads, storeSeen: [first, second]) == nil)
        let all = heads + [TestLog.head("C", seeing: first, second, third)]
        #expect(prefix([first, second, third], heads: all) == TestLog.prefix(first, second))
    }

    @Test("A set that is still on its way holds back what its author hadn't seen")
    func onItsWay() {
        let unaware = TestLog.set("C", at: 3, seeing: first)
        let lost = TestLog.set("B", at: 4, after: second)
        let late = TestLog.set("C", at: 5, after: unaware, seeing: first, lost)
        // The heads have seen everything, but C's sets were captured before.
        let heads = [TestLog.head("B", seeing: first, second), TestLog.head("C", seeing: first, second)]
        #expect(prefix([first, second, unaware], heads: heads) == TestLog.prefix(first))
        #expect(
            prefix([first, second, late], heads: heads) == TestLog.prefix(first),
            "a set that isn't ready counts as well"
        )
    }

    @Test("It doesn't advance while a set is missing that a head names, or the note of a removal")
    func missingSet() {
        let missing = TestLog.set("B", at: 3, after: second, seeing: first)
        #expect(prefix([first, second], heads: [TestLog.head("B", seeing: first, missing)]) == nil)
        let others = [TestLog.head("C", seeing: first, second)]
        #expect(prefix([first, second], heads: others, removals: ["B": 2]) == nil)
        #expect(prefix([first, second], heads: others, removals: ["B": 1]) == TestLog.prefix(first, second))
        let heads = [TestLog.head("C", seeing: first, missing), TestLog.head("B", seeing: first, second)]
        #expect(prefix([first, second], heads: heads) == nil)
    }

    @Test("A removed client doesn't hold it back")
    func removed() {
        let heads = [TestLog.head("B"), TestLog.head("C", seeing: first, second)]
        #expect(prefix([first, second], heads: heads) == nil)
        #expect(prefix([first, second], heads: heads, removals: ["B": 1]) == TestLog.prefix(first, second))
    }

    @Test("What the store hasn't seen isn't stable, because the next set won't have seen it either")
    func store() {
        let heads = [TestLog.head("B", seeing: first, second)]
        #expect(prefix([first, second], heads: heads, storeSeen: [first]) == TestLog.prefix(first))
    }

    @Test("A head that has seen a void set of one number hasn't seen the set that counts")
    func copies() {
        let other = TestLog.set("A", at: 7)
        let sorted = [first, other].sorted { $0.digest.rawValue.lexicographicallyPrecedes($1.digest.rawValue) }
        #expect(prefix(sorted, heads: [TestLog.head("B", seeing: sorted[1])], storeSeen: [sorted[0]]) == nil)
        let heads = [TestLog.head("B", seeing: sorted[0])]
        #expect(prefix(sorted, heads: heads, storeSeen: [sorted[0]]) == TestLog.prefix(sorted[0]))
    }
}
