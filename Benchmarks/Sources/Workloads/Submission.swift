import Dispatch

/// Who adds.
enum Submitters: Sendable {
    case tasks(Int)
    case threads(Int)

    var count: Int {
        switch self {
        case .tasks(let count), .threads(let count): count
        }
    }
}

/// What all submitters have added.
private final class Collection<Item: Sendable>: @unchecked Sendable {
    // Sendable: the items are touched on the queue only, which ThreadSanitizer sees, unlike a Mutex.
    private var collected: [Item] = []
    private let queue = DispatchQueue(label: "collection")

    var items: [Item] { queue.sync { collected } }
    func add(_ items: [Item]) { queue.sync { collected += items } }
}

/// Adds `count` items from several places at once, while two threads cancel every fourth.
///
/// - Parameters:
///   - count: How many in all.
///   - submitters: From where.
///   - add: Adds one and returns what to cancel it with.
///   - cancel: Cancels one.
/// - Returns: What was added.
func submit<Item: Sendable>(
    _ count: Int,
    from submitters: Submitters,
    add: @escaping @Sendable () -> Item,
    cancel: @escaping @Sendable (Item) -> Void
) async -> [Item] {
    let share = count / submitters.count
    let all = Collection<Item>()
    // Threads of their own, because operations that never suspend leave Swift's pool to nobody else.
    let cancellers = (0..<2).map { DispatchQueue(label: "canceller \($0)") }
    let addShare: @Sendable (Int) -> Void = { submitter in
        var items: [Item] = []
        items.reserveCapacity(share)
        for index in 0..<share {
            items.append(add())
            guard index % 64 == 63 else { continue }
            let victims = stride(from: index - 63, through: index, by: 4).map { items[$0] }
            cancellers[submitter % cancellers.count].async { for victim in victims { cancel(victim) } }
        }
        all.add(items)
    }
    switch submitters {
    case .tasks(let count):
        await withDiscardingTaskGroup { group in
            for submitter in 0..<count { group.addTask { addShare(submitter) } }
        }
    case .threads(let count):
        // `concurrentPerform` takes no more threads than there are cores.
        let group = DispatchGroup()
        for submitter in 0..<count {
            DispatchQueue(label: "submitter \(submitter)").async(group: group) { addShare(submitter) }
        }
        await withCheckedContinuation { continuation in
            group.notify(queue: .global()) { continuation.resume() }
        }
    }
    for canceller in cancellers {
        await withCheckedContinuation { continuation in canceller.async { continuation.resume() } }
    }
    return all.items
}
