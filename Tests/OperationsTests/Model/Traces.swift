import ThreadSupport

/// Weak references to objects that should be released.
final class Traces: Sendable {
    private struct Trace: Sendable {
        let name: String
        weak let object: (any AnyObject & Sendable)?
    }

    private let traces = Locked<[Trace]>([])

    /// Follows an object.
    func follow(_ object: any AnyObject & Sendable, as name: String = "an object") {
        traces.withLock { $0.append(Trace(name: name, object: object)) }
    }

    /// The names of the objects that still exist.
    var left: [String] {
        let traces = traces.withLock { $0 }
        return traces.filter { $0.object != nil }.map(\.name)
    }
}
