import Dispatch

/// The tasks or threads that add items.
enum Submitters: Sendable {
    case tasks(Int)
    case threads(Int)

    var count: Int {
        switch self {
        case .tasks(let count), .threads(let count): count
        }
    }
}

/// The items that all submitters have added.
private final class Collection<Item: Sendable>: @unchecked Sendable {
    // Sendable: the items are accessed only on the queue, which ThreadSanitizer understands, unlike a Mutex.
    private var collected: [Item] = []
    private let queue = DispatchQueue(label: "collection")

    var items: [Item] { queue.sync { collected } }
    func add(_ items: [Item]) { queue.sync { collected += items } }
}

/// Adds `count` items from several tasks or threads at once, while two threads cancel every fourth item.
///
/// - Parameters:
///   - count: The number of all items.
///   - submitters: The tasks or threads that add them.
///   - add: Adds an item and returns it.
///   - cancel: Cancels an item.
/// - Returns: The added items.
func submit<Item: Sendable>(
    _ count: Int,
    from submitters: Submitters,
    add: @escaping @Sendable () -> Item,
    cancel: @escaping @Sendable (Item) -> Void
) async -> [Item] {
    let share = count / submitters.count
    let all = Collection<Item>()
    // Separate threads, because operations that never suspend occupy all threads of Swift's pool.
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
        // `concurrentPerform` uses no more threads than there are cores.
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
