package import Foundation
package import Operations
package import RemoteStorage
package import StoreSync

/// Exports a diary, compresses it, uploads it, and announces it to all devices.
package struct Publication: Sendable {
    package let archive: OperationHandle<Archive>
    package let upload: OperationHandle<WholeStoreUpload>
    package let announcement: OperationHandle<Int>

    /// Adds the operations to the manager's supervisor.
    ///
    /// - Parameters:
    ///   - entries: The diary's entries.
    ///   - folder: Where the files are written.
    ///   - diary: The diary's document.
    ///   - manager: The manager that the document belongs to.
    ///   - backend: The storage.
    ///   - priority: How urgent the publication is.
    package init(
        of entries: [String],
        in folder: URL,
        _ diary: RemoteIdentifier,
        _ manager: ApplicationSyncManager,
        backend: any RemoteBackend,
        priority: OperationPriority = .normal
    ) {
        let (supervisor, document) = (manager.supervisor, manager.document(diary))
        let options = OperationOptions(priority: priority, retry: .whileTemporary)
        let file = folder.appending(path: "diary.archive")

        let export = supervisor.add(Export(entries, to: folder.appending(path: "diary.txt")), options: options)
        archive = export.then(options: options) { Compression(of: $0, to: file) }
        upload = document.upload(storeAt: file, after: [archive], options: options)
        let registration = document.register(after: [upload], options: options)
        let devices = document.listClients(after: [upload], options: options)
        announcement = supervisor.combine(upload, registration, devices, options: options) {
            Announcement(of: $0.generation, in: $1, to: $2, backend: backend)
        }
    }
}
