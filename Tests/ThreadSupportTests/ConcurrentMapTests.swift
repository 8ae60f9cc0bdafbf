import Testing
import ThreadSupport

@Suite("Concurrent transformations", .timeLimit(.minutes(60)))
struct ConcurrentMapTests {
    @Test("Concurrent transformations return their results in the order of the elements")
    func order() async throws {
        let squares = try await (0..<100).concurrentMap(atMost: 7) { number in
            for _ in 0..<(number % 5) { await Task.yield() }
            return number * number
        }
        #expect(squares == (0..<100).map { $0 * $0 })
    }

    @Test("Concurrent transformations are never more at a time than allowed", arguments: [1, 3])
    func limit(limit: Int) async throws {
        let running = Locked((now: 0, maximum: 0))
        try await (0..<50).concurrentMap(atMost: limit) { _ in
            running.withLock { counts in
                counts.now += 1
                counts.maximum = max(counts.maximum, counts.now)
            }
            await Task.yield()
            running.withLock { $0.now -= 1 }
        }
        #expect((1...limit).contains(running.withLock { $0.maximum }))
    }

    @Test("Concurrent transformations end with the first error, and no further transformation starts")
    func failure() async throws {
        struct Failure: Error {}
        let started = Locked(0)
        await #expect(throws: Failure.self) {
            try await (0..<50).concurrentMap(atMost: 1) { number in
                started.withLock { $0 += 1 }
                if number == 3 { throw Failure() }
            }
        }
        #expect(started.withLock { $0 } == 4)
    }
}

@Suite("Exponential backoff")
struct ExponentialBackoffTests {
    @Test("Exponential backoff multiplies each wait, up to the maximum, however many attempts there are")
    func growth() {
        let backoff = ExponentialBackoff(initialDelay: .seconds(1), multiplier: 3, maximumDelay: .seconds(10))
        #expect([1, 2, 3, 4, 100_000].map(backoff.delay) == [1, 3, 9, 10, 10].map { .seconds($0) })
        let huge = ExponentialBackoff(initialDelay: .seconds(1), multiplier: 1e300, maximumDelay: .seconds(60))
        #expect(huge.delay(after: 3) == .seconds(60))
        let none = ExponentialBackoff(initialDelay: .zero, maximumDelay: .seconds(60))
        #expect(none.delay(after: .max) == .zero)
        let constant = ExponentialBackoff(initialDelay: .seconds(1), multiplier: 1, maximumDelay: .seconds(60))
        #expect(constant.delay(after: .max) == .seconds(1))
    }
}
