import Dispatch
import Synchronization

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
private final class Collection<Item: Sendable>: Sendable {
    let items = Mutex<[Item]>([])
}

/// Adds `count` items from several places at once, while two tasks cancel every fourth.
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
    let streams = (0..<2).map { _ in AsyncStream.makeStream(of: [Item].self) }
    let addShare: @Sendable (Int) -> [Item] = { submitter in
        let victims = streams[submitter % streams.count].continuation
        var items: [Item] = []
        items.reserveCapacity(share)
        for index in 0..<share {
            items.append(add())
            if index % 64 == 63 { victims.yield(Array(items[(index - 63)...])) }
        }
        return items
    }
    await withDiscardingTaskGroup { cancellers in
        for (stream, _) in streams {
            cancellers.addTask {
                for await items in stream {
                    for item in items.enumerated() where item.offset % 4 == 0 { cancel(item.element) }
                }
            }
        }
        switch submitters {
        case .tasks(let count):
            await withDiscardingTaskGroup { group in
                for submitter in 0..<count {
                    group.addTask {
                        let items = addShare(submitter)
                        all.items.withLock { $0 += items }
                    }
                }
            }
        case .threads(let count):
            await withCheckedContinuation { continuation in
                // `concurrentPerform` takes no more threads than there are cores.
                let group = DispatchGroup()
                for submitter in 0..<count {
                    DispatchQueue(label: "submitter \(submitter)").async(group: group) {
                        let items = addShare(submitter)
                        all.items.withLock { $0 += items }
                    }
                }
                group.notify(queue: .global()) { continuation.resume() }
            }
        }
        for (_, continuation) in streams { continuation.finish() }
    }
    return all.items.withLock { $0 }
}
