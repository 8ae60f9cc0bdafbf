import Foundation
import StoreChanges

/// Runs one step of a record-level synchronization, so that `Benchmarks/records` can measure it.
///
///     records begin STORE REPLICA CLIENT                  takes the store as the first baseline
///     records check STORE REPLICA CLIENT                  prints which tables synchronize, and why others don't
///     records capture STORE REPLICA CLIENT SET            writes the captured sets to the files SET, SET.1 and so on
///     records synchronize STORE REPLICA CLIENT SET…       integrates the sets, and writes the store
@main
struct Records {
    static func main() throws {
        let arguments = CommandLine.arguments.dropFirst()
        guard arguments.count >= 4 else { fatalError("arguments: STEP STORE REPLICA CLIENT [SET…]") }
        let values = Array(arguments)
        let start = ContinuousClock.now
        if values[0] == "nothing" { return }
        if values[0] == "check" { return try check(URL(filePath: values[1])) }
        let (url, replica) = (URL(filePath: values[1]), URL(filePath: values[2]))
        let identity = SynchronizedStore.Identity(document: "benchmark", client: ClientID(rawValue: values[3]))
        if values[0] == "begin" {
            try SynchronizedStore.createReplica(at: replica, from: SynchronizedStore.Beginning(store: url), identity)
            return report(start, "begun", 0)
        }
        let store = try SynchronizedStore(storeAt: url, replicaAt: replica, identity)
        switch values[0] {
        case "capture":
            let sets = try store.recordChanges()
            for (number, set) in sets.enumerated() where values.count > 4 {
                let sequence = set.reference.id.sequence
                for set in try store.ownSets(sequence...sequence) {
                    try Data(set.encoded).write(to: URL(filePath: values[4] + (number == 0 ? "" : ".\(number)")))
                }
            }
            report(start, "captured", sets.reduce(0) { $0 + $1.changeCount })
        case "synchronize":
            let sets = try values[4...].map { try SyncChangeSet(decoding: Array(Data(contentsOf: URL(filePath: $0)))) }
            let outcome = try store.synchronize(with: sets)
            report(start, "written", outcome.written.values.reduce(0) { $0 + $1.inserted + $1.updated + $1.deleted })
        default: fatalError("unknown step \(values[0])")
        }
    }

    private static func check(_ store: URL) throws {
        for report in try StoreSchema(storeAt: store).reports {
            print(report.table, report.key.map { "\($0)" } ?? report.reason ?? "", separator: ": ")
            for question in report.questions { print("  ? \(question)") }
        }
    }

    private static func report(_ start: ContinuousClock.Instant, _ what: String, _ count: Int) {
        let seconds = (ContinuousClock.now - start) / .seconds(1)
        print("\(what) \(count) \(seconds)")
    }
}
