// Readings of the rules on sets that don't count:
//
// 49. What a published stable prefix contains counts, whatever else would make it void.
// 50. A set that isn't in a published prefix counts only if it sorts after the prefix and its author had seen all of it:
//    a set that sorts after it unaware of it could depend on what was trimmed.
// 51. A set whose author had seen a void set had seen the last set before it, of the same client, that counts.
// 52. Of two sets of one number, a set that is void for another reason loses against a set that isn't.
// 53. The successors of every void set are void, so that the vector of a prefix says which sets it has.

import StoreChanges

/// Decides plainly which sets count, by following every chain of sets from its end.
struct OracleLog {
    let sets: [SetReference: SyncChangeSet]
    let prefixes: [StablePrefix]
    let removals: [ClientID: UInt64]

    init(_ sets: [SyncChangeSet], prefixes: [StablePrefix] = [], removals: [ClientID: UInt64] = [:]) {
        self.sets = Dictionary(sets.map { (LogEntry($0).reference, $0) }) { first, _ in first }
        self.prefixes = prefixes
        self.removals = removals
    }

    /// A set and all sets of its client before it, the last one first.
    func chain(_ reference: SetReference) -> [SetReference] {
        guard let set = sets[reference] else { return [] }
        let previous = SetReference(
            SetID(reference.id.client, reference.id.sequence - 1),
            set.header.predecessor
        )
        return [reference] + chain(previous)
    }

    /// All sets in the chains of a vector.
    func all(_ vector: [ClientID: SeenSet]) -> Set<SetReference> {
        Set(vector.flatMap { chain(SetReference(SetID($0, $1.sequence), $1.digest)) })
    }

    func seen(by reference: SetReference) -> Set<SetReference> {
        Set(chain(reference).dropFirst()).union(all(sets[reference]?.header.seen ?? [:]))
    }

    /// What copies have in common that follow one set.
    private struct Siblings: Hashable {
        var id: SetID
        var predecessor: SetReference?
    }

    private func siblings(_ reference: SetReference) -> Siblings {
        Siblings(id: reference.id, predecessor: chain(reference).dropFirst().first)
    }

    /// The sets that don't count.
    var void: Set<SetReference> {
        let published = prefixes.map { all($0.vector) }
        var void: Set<SetReference> = []
        for (reference, set) in sets where !published.contains(where: { $0.contains(reference) }) {
            let seen = seen(by: reference)
            let isLate = zip(prefixes, published).contains { prefix, members in
                set.header.position <= prefix.position || !members.isSubset(of: seen)
            }
            let isRemoved = reference.id.sequence > removals[reference.id.client] ?? .max
            if isLate || isRemoved { void.insert(reference) }
        }
        func isVoid(_ reference: SetReference) -> Bool { !void.isDisjoint(with: chain(reference)) }
        // Where two chains of one client part, their first sets have the same predecessor.
        for copies in Dictionary(grouping: sets.keys, by: siblings).values {
            let ranked = copies.filter { !void.contains($0) }.sorted {
                $0.digest.rawValue.lexicographicallyPrecedes($1.digest.rawValue)
            }
            void.formUnion(ranked.dropFirst())
        }
        return Set(sets.keys.filter(isVoid))
    }

    /// The sets that count, as the fold reads them.
    var counting: [SyncChangeSet] {
        let void = void
        return sets.filter { !void.contains($0.key) }.map { _, set in
            var set = set
            for (client, seen) in set.header.seen {
                let last = chain(SetReference(SetID(client, seen.sequence), seen.digest)).first { !void.contains($0) }
                set.header.seen[client] = last.map { SeenSet($0.id.sequence, $0.digest) }
            }
            return set
        }
    }
}
