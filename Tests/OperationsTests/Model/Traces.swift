import ThreadSupport

/// Weak references to objects that should be let go.
final class Traces: Sendable {
    private struct Trace: Sendable {
        weak let object: (any AnyObject & Sendable)?
    }

    private let traces = Locked<[Trace]>([])

    /// Follows an object.
    func follow(_ object: any AnyObject & Sendable) {
        traces.withLock { $0.append(Trace(object: object)) }
    }

    /// How many of the objects are still there.
    var liveCount: Int {
        let traces = traces.withLock { $0 }
        return traces.count { $0.object != nil }
    }
}
