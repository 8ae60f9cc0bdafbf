/// Who depends on whom: every edge stands in two lists, that of its dependency and that of its dependent.
struct Edges: Sendable {
    static let none = UInt32.max

    /// What the end of the dependency means to the dependent.
    enum Policy: UInt8, Sendable {
        case mustSucceed, ending
        /// The dependent ends when and as the dependency does.
        case mirror
    }

    struct Edge: Sendable {
        var dependent: UInt32
        var dependency: UInt32
        /// The next one in the dependency's list of dependents.
        var nextDependent: UInt32
        var previousDependent = Edges.none
        /// The next one in the dependent's list of dependencies.
        var nextDependency: UInt32
        var previousDependency = Edges.none
        var policy: Policy
    }

    private var edges: ContiguousArray<Edge> = []
    /// The first of the unused ones, which are linked through `nextDependent`.
    private var firstFree = Edges.none

    subscript(_ index: UInt32) -> Edge { edges[Int(index)] }

    /// Makes an edge, to stand before the ones that were first in both lists.
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

    /// Takes an edge out of both lists; whose first it was, must now begin with the next.
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
