import Testing

@testable import StoreSync

@Suite("The schedule of a watch")
struct WatchScheduleTests {
    private typealias Changes = WatchSchedule.Changes

    /// A schedule that has synchronized at time zero.
    private func started(watched: Set<WatchSchedule.Source> = [.store]) -> WatchSchedule {
        var schedule = WatchSchedule(WatchPolicy(), watched: watched, at: .zero)
        schedule.looked(isNews: true, at: .zero, random: 0)
        schedule.began()
        schedule.synchronized(isActive: true, isComplete: true, at: .zero, random: 0)
        return schedule
    }

    private func wait(_ milliseconds: Int, isInterruptible: Bool = true) -> WatchSchedule.Step {
        .wait(until: .milliseconds(milliseconds), isInterruptible: isInterruptible)
    }

    private func change(_ first: Int, _ last: Int) -> Changes {
        Changes(first: .milliseconds(first), last: .milliseconds(last))
    }

    @Test("It begins with a listing, and then synchronizes at once")
    func beginning() {
        var schedule = WatchSchedule(WatchPolicy(), watched: [.store], at: .seconds(5))
        #expect(schedule.step(at: .seconds(5)) == .look)
        schedule.looked(isNews: true, at: .seconds(5), random: 0)
        #expect(schedule.step(at: .seconds(5)) == .synchronize)
        schedule.began()
        schedule.synchronized(isActive: false, isComplete: true, at: .seconds(6), random: 0)
        #expect(schedule.step(at: .seconds(6)) == wait(8000))
    }

    @Test("A jitter that is no number is none")
    func undefinedJitter() {
        var policy = WatchPolicy()
        policy.jitter = .nan
        var schedule = WatchSchedule(policy, watched: [.store], at: .zero)
        schedule.looked(isNews: true, at: .zero, random: 1)
        schedule.began()
        schedule.synchronized(isActive: false, isComplete: true, at: .zero, random: 1)
        #expect(schedule.step(at: .zero) == wait(2000))
    }

    @Test("A synchronization begins after 200 ms without changes, at the latest 2 s after the first")
    func debouncing() {
        var schedule = started(watched: [.store, .remote])
        schedule.noticed(change(1000, 1000), of: .store)
        #expect(schedule.step(at: .milliseconds(1000)) == wait(1200, isInterruptible: false))
        schedule.noticed(change(1100, 1190), of: .store)
        #expect(schedule.step(at: .milliseconds(1200)) == wait(1390, isInterruptible: false))
        #expect(schedule.step(at: .milliseconds(1390)) == .synchronize)
        for time in stride(from: 1400, through: 2950, by: 150) { schedule.noticed(change(time, time), of: .store) }
        #expect(schedule.step(at: .milliseconds(2990)) == wait(3000, isInterruptible: false))
        #expect(schedule.step(at: .milliseconds(3000)) == .synchronize)
        schedule.began()
        schedule.synchronized(isActive: true, isComplete: true, at: .milliseconds(3000), random: 0)
        #expect(schedule.step(at: .milliseconds(3000)) == wait(63_000))
    }

    @Test("A change of the remote leads to a listing, and only news lead to a synchronization")
    func remoteChange() {
        var schedule = started(watched: [.store, .remote])
        schedule.noticed(change(1000, 1000), of: .remote)
        #expect(schedule.step(at: .milliseconds(1200)) == .look)
        schedule.looked(isNews: false, at: .milliseconds(1200), random: 0)
        #expect(schedule.step(at: .milliseconds(1200)) == wait(61_200))
        schedule.noticed(change(2000, 2000), of: .remote)
        #expect(schedule.step(at: .milliseconds(2200)) == .look)
        schedule.looked(isNews: true, at: .milliseconds(2200), random: 0)
        #expect(schedule.step(at: .milliseconds(2200)) == .synchronize)
    }

    @Test("Listings become less frequent, from 2 s to 60 s, until something happens")
    func polling() {
        var schedule = started()
        var (now, waits) = (Duration.zero, [Int]())
        for _ in 0..<8 {
            guard case .wait(let deadline, _) = schedule.step(at: now) else { break }
            waits.append(Int((deadline - now) / .seconds(1)))
            now = deadline
            #expect(schedule.step(at: now) == .look)
            schedule.looked(isNews: false, at: now, random: 0)
        }
        #expect(waits == [2, 4, 8, 16, 32, 60, 60, 60])
        schedule.began()
        schedule.synchronized(isActive: true, isComplete: true, at: now, random: 0.5)
        #expect(schedule.step(at: now) == .wait(until: now + .milliseconds(1800), isInterruptible: true))
    }

    @Test("Retries after failures become less frequent, from 1 s to 5 min, until one succeeds")
    func backingOff() {
        var schedule = started()
        var (now, waits) = (Duration.zero, [Int]())
        for _ in 0..<11 {
            let delay = schedule.failed([.remote], at: now, random: 0)
            #expect(schedule.step(at: now) == .wait(until: now + delay, isInterruptible: true))
            // An edit doesn't bring the remote back.
            schedule.noticed(Changes(first: now, last: now), of: .store)
            #expect(schedule.step(at: now) == .wait(until: now + delay, isInterruptible: true))
            waits.append(Int(delay / .seconds(1)))
            now += delay
            #expect(schedule.step(at: now) == .synchronize)
        }
        #expect(waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300])
        schedule.synchronized(isActive: false, isComplete: true, at: now, random: 0)
        #expect(schedule.failed([.remote], at: now, random: 1) == .milliseconds(800))
    }

    @Test(
        "After a failure, a change of what may have failed leads to a retry, but not within a second",
        arguments: [
            (WatchSchedule.Source.remote, 10_000, 10_200), (.remote, 100, 1000), (.store, 10_000, 10_200),
        ]
    )
    func recovery(source: WatchSchedule.Source, change time: Int, retry: Int) {
        var schedule = started()
        for _ in 0..<10 { _ = schedule.failed([source], at: .zero, random: 0) }
        #expect(schedule.step(at: .zero) == wait(300_000))
        schedule.noticed(change(time, time), of: source)
        #expect(schedule.step(at: .milliseconds(time)) == wait(retry))
        #expect(schedule.step(at: .milliseconds(retry)) == .synchronize)
    }

    @Test("While edits of other devices wait for files that are arriving, it synchronizes less and less often")
    func incompleteness() {
        var schedule = started(watched: [.store, .remote])
        var (now, waits) = (Duration.zero, [Int]())
        for _ in 0..<4 {
            schedule.synchronized(isActive: false, isComplete: false, at: now, random: 0)
            guard case .wait(let deadline, _) = schedule.step(at: now) else { break }
            waits.append(Int((deadline - now) / .seconds(1)))
            now = deadline
            #expect(schedule.step(at: now) == .synchronize)
        }
        #expect(waits == [1, 2, 4, 8])
        schedule.synchronized(isActive: true, isComplete: true, at: now, random: 0)
        #expect(schedule.step(at: now) == .wait(until: now + .seconds(60), isInterruptible: true))
    }

    @Test("It synchronizes at least once an hour, and more often if changes of the store can't be noticed")
    func longestPause() {
        var schedule = started(watched: [.store, .remote])
        var now = Duration.zero
        while now < .seconds(3600), case .wait(let deadline, _) = schedule.step(at: now) {
            now = deadline
            if schedule.step(at: now) == .look { schedule.looked(isNews: false, at: now, random: 0) }
        }
        #expect(now == .seconds(3600))
        #expect(schedule.step(at: now) == .synchronize)
        #expect(started(watched: [.remote]).step(at: .seconds(2)) == .synchronize)
    }
}
