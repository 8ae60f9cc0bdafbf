import Foundation
import GRDB

/// The files that this device keeps for an application's documents beside the database.
extension StateDirectory {
    /// Removes all of them: the replicas, the files of transfers, and the applied sets of the stores.
    ///
    /// Called before the records are deleted that name them, so that nothing is left if this device dies in between.
    func removeFiles(of key: ApplicationKey) throws {
        try remove(replicas(of: key))
        try removeTransferFiles(of: key)
        let stores = try read { try StateSchema.fetchStores($0, key) }
        for document in Set(stores.map(\.document)) { try settleMoves(of: document) }
        for store in stores { appliedSets(for: store.path, in: store.document).remove() }
    }

    /// Removes the files of transfers, which are of no use to another application of the same name.
    func removeTransferFiles(of key: ApplicationKey) throws {
        for document in try read({ try StateSchema.fetchDocuments($0, key) }) {
            try pushJournal(of: document).remove()
            try? FileManager.default.removeItem(at: pushedBlocks(of: document).url)
        }
        for store in try read({ try StateSchema.fetchStores($0, key) }) {
            try pullJournal(of: store.path, in: store.document).remove()
        }
    }
}
