import ContentDigests
import Foundation
import RemoteStorage

@testable import StoreSync

/// Tests name paths.
extension LocalPath: ExpressibleByStringLiteral {
    init(stringLiteral text: String) { self.init(text) }
}

/// A folder for the state of one test, removed with the fixture.
final class StateFixture {
    /// The path of the state directory, which doesn't exist at first.
    let url: URL

    private let parent: URL

    init() throws {
        parent = FileManager.default.temporaryDirectory.appendingPathComponent("state-\(UUID().uuidString)")
        url = parent.appendingPathComponent("state")
        try FileManager.default.createDirectory(at: parent, withIntermediateDirectories: true)
    }

    deinit {
        try? FileManager.default.removeItem(at: parent)
    }

    var database: URL { url.appendingPathComponent("state.sqlite") }

    func sibling(_ name: String) -> URL { parent.appendingPathComponent(name) }

    func open() throws -> StateDirectory { try StateDirectory(url: url) }

    static let notes = ApplicationKey(remote: "folder:/share", application: "notes")
    static let tasks = ApplicationKey(remote: "folder:/share", application: "tasks")
    static let elsewhere = ApplicationKey(remote: "folder:/other", application: "notes")
    static let diary = DocumentKey(application: notes, document: "diary")
    static let recipes = DocumentKey(application: notes, document: "recipes")

    /// Returns the upload that a number and a letter stand for, which is always the same.
    static func upload(_ generation: Int, _ letter: Character = "A") -> UploadReference {
        let digits = String(generation)
        let tail = String(repeating: "0", count: 12 - digits.count) + digits
        let head = String(repeating: letter, count: 8)
        return UploadReference(generation: generation, upload: "\(head)-0000-4000-8000-\(tail)")
    }

    /// Returns the name of that upload of a client, "phone" by default.
    static func name(_ generation: Int, _ letter: Character = "A", of client: String = "phone") -> UploadName {
        guard let client = try? RemoteIdentifier(client) else { preconditionFailure("\(client) isn't an identifier") }
        return UploadName(client: client, upload(generation, letter))
    }

    static func store(_ path: LocalPath = "/data/diary.sqlite", of document: DocumentKey = diary) -> StoreRecord {
        var store = StoreRecord(path: path, document: document, integrityKey: "key")
        store.contentRoot = "c0ffee"
        store.base = name(1, of: "laptop")
        store.contained = [name(1, of: "laptop")]
        return store
    }

    static func record(_ generation: Int, of document: DocumentKey = diary, client: String = "phone") -> UploadRecord {
        let name = UploadName(
            client: name(1, of: client).client,
            generation: generation,
            upload: UUID().uuidString
        )
        var upload = UploadRecord(document: document, name: name, store: store(of: document))
        upload.contentRoot = contentRoot
        return upload
    }

    /// The digest of the content that ``record(_:of:client:)`` publishes.
    static let contentRoot = String(repeating: "c0ffee00", count: 8)

    /// Returns the manifest that publishes an upload, with its recorded content unless another is given.
    static func manifest(of upload: UploadRecord, contentRoot: String = contentRoot) throws -> StoreManifest {
        guard let root = ContentRoot(hex: contentRoot) else { preconditionFailure("\(contentRoot) isn't a digest") }
        let store = StoreManifest.File(file: .store, size: 1, storedSize: 1, contentRoot: root)
        return StoreManifest(name: upload.name, created: Date(), files: [store], includes: [])
    }
}
