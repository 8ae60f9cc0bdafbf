/// The dependencies between operations: each edge is in two linked lists, its dependency's and its dependent's.
struct Edges: Sendable {
    static let none = UInt32.max

    /// What the end of the dependency means for the dependent.
    enum Policy: UInt8, Sendable {
        case mustSucceed, ending
        /// The dependent ends when the dependency does, with the same outcome.
        case mirror
    }

    struct Edge: Sendable {
        var dependent: UInt32
        var dependency: UInt32
        /// The next edge in the dependency's list of dependents.
        var nextDependent: UInt32
        var previousDependent = Edges.none
        /// The next edge in the dependent's list of dependencies.
        var nextDependency: UInt32
        var previousDependency = Edges.none
        var policy: Policy
    }

    private var edges: ContiguousArray<Edge> = []
    /// The first unused edge; unused edges are linked through `nextDependent`.
    private var firstFree = Edges.none

    subscript(_ index: UInt32) -> Edge { edges[Int(index)] }

    /// The edges of one list, as they are when the sequence is created.
    struct List: Sequence, IteratorProtocol {
        fileprivate let edges: ContiguousArray<Edge>
        fileprivate let isOfDependents: Bool
        fileprivate var index: UInt32

        mutating func next() -> Edge? {
            guard index != Edges.none else { return nil }
            let edge = edges[Int(index)]
            index = isOfDependents ? edge.nextDependent : edge.nextDependency
            return edge
        }
    }

    /// Returns a dependency's list of dependents, which begins with an edge.
    func dependents(from first: UInt32) -> List { List(edges: edges, isOfDependents: true, index: first) }

    /// Returns a dependent's list of dependencies, which begins with an edge.
    func dependencies(from first: UInt32) -> List { List(edges: edges, isOfDependents: false, index: first) }

    /// Inserts an edge before the edges that are first in the two lists, and returns its index.
    mutating func insert(
        from dependent: UInt32,
        to dependency: UInt32,
        _ policy: Policy,
        nextDependent: UInt32,
        nextDependency: UInt32
    ) -> UInt32 {
        let edge = Edge(
            dependent: dependent,
            dependency: dependency,
            nextDependent: nextDependent,
            nextDependency: nextDependency,
            policy: policy
        )
        let index: UInt32
        if firstFree == Self.none {
            index = UInt32(edges.count)
            edges.append(edge)
        } else {
            index = firstFree
            firstFree = edges[Int(index)].nextDependent
            edges[Int(index)] = edge
        }
        if nextDependent != Self.none { edges[Int(nextDependent)].previousDependent = index }
        if nextDependency != Self.none { edges[Int(nextDependency)].previousDependency = index }
        return index
    }

    /// Removes an edge from both lists.
    ///
    /// Returns in which lists the edge was the first: the caller must make the next edge the first one there.
    mutating func remove(_ index: UInt32) -> (wasFirstDependent: Bool, wasFirstDependency: Bool) {
        let edge = edges[Int(index)]
        if edge.previousDependent != Self.none {
            edges[Int(edge.previousDependent)].nextDependent = edge.nextDependent
        }
        if edge.nextDependent != Self.none {
            edges[Int(edge.nextDependent)].previousDependent = edge.previousDependent
        }
        if edge.previousDependency != Self.none {
            edges[Int(edge.previousDependency)].nextDependency = edge.nextDependency
        }
        if edge.nextDependency != Self.none {
            edges[Int(edge.nextDependency)].previousDependency = edge.previousDependency
        }
        edges[Int(index)].nextDependent = firstFree
        firstFree = index
        return (edge.previousDependent == Self.none, edge.previousDependency == Self.none)
    }
}
