import FileSupport
import Foundation
import SystemPackage

/// The files that SQLite keeps next to a store.
extension LocalStore {
    /// What SQLite appends to the name of a database for its journal, its log and the log's index.
    static let sideSuffixes = ["-journal", "-wal", "-shm"]

    /// The program to which a file with the name of one of SQLite's belongs.
    private enum Owner {
        case sqlite, other
    }

    /// The files next to the store that belong to it while it's open, or after a process that had it open died.
    ///
    /// A journal or a log counts if it's empty, or begins with zeros or as SQLite's does. An index counts next to a log or an SQLite
    /// database. Another file has such a name by chance.
    var sideFiles: [String] { sideFiles(of: .sqlite) }

    /// Throws if another file has the name of a file that SQLite would keep next to this store.
    ///
    /// SQLite takes it for its own, and removes or overwrites it.
    func refuseForeignFiles() throws {
        guard let file = sideFiles(of: .other).first else { return }
        throw StoreSyncError(
            .unsupportedFormat,
            """
            \(file) isn't SQLite's, but has the name of a file that SQLite would remove or overwrite when it opens \(path). Nothing was \
            changed. Move that file away, or give it another name.
            """
        )
    }

    private func sideFiles(of owner: Owner) -> [String] {
        Self.sideSuffixes.filter { self.owner(ofFileEnding: $0) == owner }.map { url.path + $0 }
    }

    /// The owner of the file with this suffix; `nil` if there is no such file.
    private func owner(ofFileEnding suffix: String) -> Owner? {
        let file = url.path + suffix
        guard let status = try? Stat(file, followTargetSymlink: false) else { return nil }
        guard status.type == .regular else { return .other }
        // A descriptor of an index, when closed, would drop SQLite's locks on it in this process. On the others SQLite has none.
        guard suffix != "-shm" else {
            return isDatabase || owner(ofFileEnding: "-wal") == .sqlite ? .sqlite : .other
        }
        do throws(Errno) {
            let start = try OpenFile(path: file, O_RDONLY).read(at: 0, upTo: 8)
            return SQLiteHeader.maySideFileBegin(with: start) ? .sqlite : .other
        } catch {
            // A file that can't be read may be SQLite's. A transaction that ends removes its journal.
            return error == .noSuchFileOrDirectory ? nil : .sqlite
        }
    }
}
