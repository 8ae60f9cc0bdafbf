import OperationsTesting
import StoreChanges
import TestSupport

/// A storage through which simulated devices exchange sets, heads and notes of removals.
///
/// A device may read an old listing of it, so it learns of everything late, and of nothing out of order.
final class SimulatedStorage {
    private(set) var sets: [SyncChangeSet] = []
    private(set) var heads: [ClientHead] = []
    private(set) var removals: [(client: ClientID, last: UInt64)] = []
    private var participants: [ObjectIdentifier: Participant] = [:]

    /// How much of the storage a device has read and written.
    private struct Participant {
        var sets = 0
        var heads = 0
        var removals = 0
        var published = 0
    }

    /// Publishes the sets of a device that aren't there yet, and maybe a head.
    func publish(_ device: SimulatedDevice, withHead: Bool) throws {
        var participant = participants[ObjectIdentifier(device)] ?? Participant()
        // Void ones are captured again instead.
        sets += try device.sets[participant.published...].filter(device.counts)
        participant.published = device.sets.count
        participants[ObjectIdentifier(device)] = participant
        try device.notePublication()
        if withHead { heads.append(try device.publishHead()) }
    }

    /// Lets a device that was copied know what the original did.
    func copy(_ device: SimulatedDevice, from original: SimulatedDevice) {
        participants[ObjectIdentifier(device)] = participants[ObjectIdentifier(original)]
    }

    /// Writes the note that a client is removed.
    func remove(_ client: ClientID, after sequence: UInt64) { removals.append((client, sequence)) }

    /// Reads what is new in the storage, or in an older listing of it.
    func read(_ device: SimulatedDevice, lateBy random: inout SplitMix64) throws {
        let participant = participants[ObjectIdentifier(device)] ?? Participant()
        func index(_ first: Int, _ last: Int) -> Int { Int.random(in: first...max(first, last), using: &random) }
        let (setEnd, headEnd) = (index(participant.sets, sets.count), index(participant.heads, heads.count))
        let removalEnd = index(participant.removals, removals.count)
        try read(device, sets: setEnd, heads: headEnd, removals: removalEnd, using: &random)
    }

    /// Reads all that is in the storage.
    func readAll(_ device: SimulatedDevice, using random: inout SplitMix64) throws {
        try read(device, sets: sets.count, heads: heads.count, removals: removals.count, using: &random)
    }

    private func read(
        _ device: SimulatedDevice,
        sets setEnd: Int,
        heads headEnd: Int,
        removals removalEnd: Int,
        using random: inout SplitMix64
    ) throws {
        var participant = participants[ObjectIdentifier(device)] ?? Participant()
        // A device that continues as a new client has read its own head too.
        let others = heads[participant.heads..<headEnd].filter { $0.client != device.client }
        let notes = removals[participant.removals..<removalEnd].map { ($0.client, $0.last) }
        try device.learn(
            sets[participant.sets..<setEnd].shuffled(using: &random),
            heads: others,
            removals: Dictionary(notes, uniquingKeysWith: max)
        )
        (participant.sets, participant.heads, participant.removals) = (setEnd, headEnd, removalEnd)
        participants[ObjectIdentifier(device)] = participant
    }
}
