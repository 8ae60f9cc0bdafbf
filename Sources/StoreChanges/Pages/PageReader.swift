import Dispatch
import GRDB
import GRDBSQLite

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// Reads all pages of a database as its connection's transaction sees them, those in the write-ahead log too.
///
/// SQLite has no function for that. But it can copy a database to another one page by page (`sqlite3_backup_step`); here the
/// other one is in a file system that hands each page on and stores none.
enum PageReader {
    /// Calls `body` with each page and its number, which begins with 1, on another thread while SQLite reads further ones.
    ///
    /// The pages come in any order, and the last bytes that `body` gets for a number count.
    ///
    /// - Parameters:
    ///   - db: A connection in a transaction.
    ///   - body: Reads a page.
    /// - Throws: `DatabaseError`.
    static func forEachPage(of db: Database, _ body: @escaping (Int, UnsafeRawBufferPointer) -> Void) throws {
        _ = PageFileSystem.isRegistered
        let receiver = PageReceiver(body)
        try withExtendedLifetime(receiver) {
            defer { receiver.finish() }
            var copy: OpaquePointer?
            defer { sqlite3_close_v2(copy) }
            let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
            try check(sqlite3_open_v2(PageFileSystem.path(of: receiver), &copy, flags, PageFileSystem.name))
            // Nothing is kept, so nothing has to be undone, and few pages have to wait until they are handed on.
            let settings = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = 16"
            try check(sqlite3_exec(copy, settings, nil, nil, nil))
            let backup = sqlite3_backup_init(copy, "main", db.sqliteConnection, "main")
            guard let backup else { return try check(sqlite3_errcode(copy)) }
            let code = sqlite3_backup_step(backup, -1)
            let end = sqlite3_backup_finish(backup)
            guard code == SQLITE_DONE else { return try check(code) }
            try check(end)
        }
    }

    private static func check(_ code: CInt) throws {
        guard code == SQLITE_OK else { throw DatabaseError(resultCode: ResultCode(rawValue: code)) }
    }
}

/// Gets what SQLite writes to the copy, and hands it on in batches.
private final class PageReceiver: @unchecked Sendable {
    // Sendable: `body` is used in the queue only, all else by SQLite's thread only.

    /// Pages whose numbers are consecutive.
    private struct Batch: @unchecked Sendable {
        // Sendable: SQLite's thread fills the buffer, and doesn't touch it from handing it on until the queue has read it.
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 1 << 12)
        var firstNumber = 1
        var pageSize = 0
        var pageCount = 0

        func page(_ index: Int) -> UnsafeMutableRawBufferPointer {
            UnsafeMutableRawBufferPointer(rebasing: buffer[index * pageSize..<(index + 1) * pageSize])
        }
    }

    private let body: (Int, UnsafeRawBufferPointer) -> Void
    private let queue = DispatchQueue(label: "swift-store-sync.pages")
    private var batch = Batch()
    /// The batch that was handed on last.
    private var otherBatch = Batch()
    private(set) var byteCount: Int64 = 0
    /// SQLite reads the first page again, to mark the copy as a database without a write-ahead log.
    private(set) var firstPage: [UInt8] = []

    init(_ body: @escaping (Int, UnsafeRawBufferPointer) -> Void) { self.body = body }

    deinit {
        batch.buffer.deallocate()
        otherBatch.buffer.deallocate()
    }

    func receive(_ page: UnsafeRawBufferPointer, at offset: Int64) {
        byteCount = max(byteCount, offset + Int64(page.count))
        if offset == 0 { firstPage = Array(page) }
        let number = Int(offset) / page.count + 1
        let isNext = number == batch.firstNumber + batch.pageCount && page.count == batch.pageSize
        if !isNext || (batch.pageCount + 1) * page.count > batch.buffer.count {
            handOn()
            (batch.firstNumber, batch.pageSize) = (number, page.count)
        }
        batch.pageCount += 1
        batch.page(batch.pageCount - 1).copyMemory(from: page)
    }

    /// Waits until all pages are handed on.
    func finish() {
        handOn()
        queue.sync {}
    }

    private func handOn() {
        let full = batch
        // Its buffer is free when the queue is empty.
        queue.sync {}
        batch = otherBatch
        batch.pageCount = 0
        otherBatch = full
        queue.async { [self] in
            for index in 0..<full.pageCount { body(full.firstNumber + index, UnsafeRawBufferPointer(full.page(index))) }
        }
    }
}

/// The file system of the copy: its only files are ``PageReceiver``s, whose addresses are their names.
private enum PageFileSystem {
    static var name: UnsafePointer<CChar> { UnsafeRawPointer(literal.utf8Start).assumingMemoryBound(to: CChar.self) }

    private static let literal: StaticString = "storesync-pages"

    /// SQLite knows the file system from the first use on, until the process ends.
    static let isRegistered: Bool = {
        let system = UnsafeMutablePointer<sqlite3_vfs>.allocate(capacity: 1)
        // The clock and the random numbers are those of the system's own one.
        guard let own = sqlite3_vfs_find(nil) else { return false }
        system.initialize(to: own.pointee)
        system.pointee.pNext = nil
        system.pointee.zName = name
        system.pointee.szOsFile = CInt(MemoryLayout<PageFile>.size)
        system.pointee.xOpen = { _, path, file, flags, opened in
            guard flags & SQLITE_OPEN_MAIN_DB != 0, let path, let file,
                let address = UInt(String(cString: path)).flatMap(UnsafeRawPointer.init(bitPattern:))
            else { return SQLITE_CANTOPEN }
            let receiver = Unmanaged<PageReceiver>.fromOpaque(address)
            UnsafeMutableRawPointer(file).initializeMemory(
                as: PageFile.self,
                to: PageFile(base: sqlite3_file(pMethods: methods), receiver: receiver)
            )
            opened?.pointee = flags
            return SQLITE_OK
        }
        system.pointee.xDelete = { _, _, _ in SQLITE_OK }
        system.pointee.xAccess = { _, _, _, exists in
            exists?.pointee = 0
            return SQLITE_OK
        }
        system.pointee.xFullPathname = { _, path, count, full in
            guard let path, let full, strlen(path) < Int(count) else { return SQLITE_CANTOPEN }
            full.update(from: path, count: Int(strlen(path)) + 1)
            return SQLITE_OK
        }
        return sqlite3_vfs_register(system, 0) == SQLITE_OK
    }()

    static func path(of receiver: PageReceiver) -> String {
        "\(UInt(bitPattern: Unmanaged.passUnretained(receiver).toOpaque()))"
    }

    private static func receiver(_ file: UnsafeMutablePointer<sqlite3_file>?) -> PageReceiver? {
        file.map { UnsafeMutableRawPointer($0).assumingMemoryBound(to: PageFile.self).pointee.receiver }?
            .takeUnretainedValue()
    }

    /// `SQLITE_IOERR_SHORT_READ`, a macro that Swift doesn't import.
    private static let shortRead = SQLITE_IOERR | 2 << 8

    // Never freed, and never written after this.
    private nonisolated(unsafe) static let methods: UnsafePointer<sqlite3_io_methods> = {
        let methods = UnsafeMutablePointer<sqlite3_io_methods>.allocate(capacity: 1)
        methods.initialize(to: sqlite3_io_methods())
        methods.pointee.iVersion = 1
        methods.pointee.xClose = { _ in SQLITE_OK }
        methods.pointee.xRead = { file, bytes, count, offset in
            let bytes = UnsafeMutableRawBufferPointer(start: bytes, count: Int(count))
            // SQLite wants zeros where the file ends early.
            bytes.initializeMemory(as: UInt8.self, repeating: 0)
            guard let page = receiver(file)?.firstPage, offset >= 0, offset + Int64(count) <= page.count else {
                return shortRead
            }
            bytes.copyBytes(from: page[Int(offset)..<Int(offset) + Int(count)])
            return SQLITE_OK
        }
        methods.pointee.xWrite = { file, bytes, count, offset in
            receiver(file)?.receive(UnsafeRawBufferPointer(start: bytes, count: Int(count)), at: offset)
            return SQLITE_OK
        }
        methods.pointee.xTruncate = { _, _ in SQLITE_OK }
        methods.pointee.xSync = { _, _ in SQLITE_OK }
        methods.pointee.xFileSize = { file, size in
            size?.pointee = receiver(file)?.byteCount ?? 0
            return SQLITE_OK
        }
        methods.pointee.xLock = { _, _ in SQLITE_OK }
        methods.pointee.xUnlock = { _, _ in SQLITE_OK }
        methods.pointee.xCheckReservedLock = { _, isReserved in
            isReserved?.pointee = 0
            return SQLITE_OK
        }
        methods.pointee.xFileControl = { _, _, _ in SQLITE_NOTFOUND }
        methods.pointee.xSectorSize = { _ in 4096 }
        methods.pointee.xDeviceCharacteristics = { _ in 0 }
        return UnsafePointer(methods)
    }()
}

/// A file as SQLite sees it: what SQLite knows of it comes first.
private struct PageFile {
    var base: sqlite3_file
    var receiver: Unmanaged<PageReceiver>
}
