import Foundation
import RemoteStorage

@testable import ContentDigests
@testable import StoreSync
@testable import SyncCryptography

/// The parsers of files on the remote that are fuzzed, except the parsers of seals and keys.
///
/// `Tests/Fuzz`, which shares this file, fuzzes them. The inputs that it finds are kept in `Resources/Corpus`, and the
/// tests parse them again.
enum FuzzedRemoteParser: String, CaseIterable, Sendable {
    case manifest, manifestFields, message, names, propertyList, records, sealedManifest

    /// The values that all parsers use, none of which are random.
    private enum Fixed {
        static let path = RemotePath.root.appending(identifier)
        static let identifier: RemoteIdentifier = {
            guard let identifier = try? RemoteIdentifier("client") else { preconditionFailure("not an identifier") }
            return identifier
        }()
        static let upload = UploadName(
            client: identifier,
            generation: 7,
            upload: "01020304-0506-0708-090A-0B0C0D0E0F10"
        )

        static let former = UploadName(
            client: identifier,
            generation: 6,
            upload: "11020304-0506-0708-090A-0B0C0D0E0F10"
        )

        static func seal() throws -> ApplicationSeal {
            let epoch = UUID(uuid: (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16))
            let master = try MasterKey(SecretBytes(copying: [UInt8](repeating: 3, count: 32)))
            return ApplicationSeal(application: identifier, key: EpochKey(master: master, epoch: epoch))
        }

        static let role = ApplicationSeal.Role.manifest(
            upload,
            of: DocumentIdentity(document: identifier, integrityKey: "key")
        )
    }

    /// Parses arbitrary `bytes`.
    ///
    /// A parser may throw ``StoreSyncError`` or ``PropertyListValue/Malformed``. It must neither crash nor return a
    /// value that violates the format.
    func parse(_ bytes: [UInt8]) {
        do {
            switch self {
            case .manifest: try Self.check(manifest: bytes)
            case .manifestFields:
                var fields = FuzzedFields(bytes)
                try Self.check(manifest: PropertyListValue.dictionary(fields.changing(Self.example.values)).xml)
            case .message:
                let message = try SyncStartMessage(requestData: bytes)
                let again = try SyncStartMessage(requestData: message.requestData)
                precondition(again == message)
            case .names: Self.check(name: String(decoding: bytes, as: UTF8.self))
            case .propertyList:
                let value = try PropertyListValue(xml: bytes)
                let again = try PropertyListValue(xml: value.xml)
                precondition(again.xml == value.xml)
            case .records: try Self.check(record: bytes)
            case .sealedManifest:
                let seal = try Fixed.seal()
                precondition((try? seal.open(bytes, as: Fixed.role, at: Fixed.path)) == nil)
                let sealed = seal.seal(bytes, as: Fixed.role)
                let opened = try seal.open(sealed, as: Fixed.role, at: Fixed.path)
                precondition(opened == bytes)
                try Self.check(manifest: opened)
            }
        } catch {
            precondition(error is StoreSyncError || error is PropertyListValue.Malformed, "\(error)")
        }
    }

    private static let example: StoreManifest = {
        var hasher = ContentRootHasher()
        let root = hasher.finalize()
        var manifest = StoreManifest(
            name: Fixed.upload,
            created: Date(timeIntervalSinceReferenceDate: 0),
            files: WholeStoreFile.allCases.map {
                .init(file: $0, size: 5, storedSize: 5, contentRoot: root)
            },
            includes: [Fixed.former]
        )
        manifest.otherHeads = [Fixed.former]
        return manifest
    }()

    private static func check(manifest bytes: [UInt8]) throws {
        let manifest = try StoreManifest(bytes, named: Fixed.upload, at: Fixed.path)
        let again = try StoreManifest(manifest.xml, named: Fixed.upload, at: Fixed.path)
        precondition(again == manifest)
        let sum = manifest.files.reduce(Int64(0)) { $0 + $1.storedSize }
        precondition(manifest.files.count == 3 && sum >= 0)
        precondition((1...2).contains(Lineage.heads(of: [manifest, Self.example]).count))
        precondition(
            manifest.includes.union(manifest.otherHeads).allSatisfy { $0.generation < manifest.name.generation }
        )
        precondition(manifest.includes.count <= StoreManifest.maximumNames)
    }

    private static func check(record bytes: [UInt8]) throws {
        let registration = Result { try RegistrationInfo(bytes, at: Fixed.path) }
        if let info = try? registration.get() {
            precondition((try? RegistrationInfo(info.xml, at: Fixed.path)) == info)
        }
        if let info = try? DeviceInfo(bytes, at: Fixed.path) {
            let again = try? DeviceInfo(info.xml, at: Fixed.path)
            precondition(again?.client == info.client && again?.xml == info.xml)
        }
        if let info = try? DocumentInfo(bytes, at: Fixed.path) {
            let again = try? DocumentInfo(info.xml, at: Fixed.path)
            precondition(again?.document == info.document && again?.xml == info.xml)
        }
        _ = try registration.get()
    }

    private static func check(name: String) {
        if let identifier = try? RemoteIdentifier(name) {
            precondition(Array(identifier.rawValue.utf8) == Array(name.utf8))
            let path = RemotePath.root.appending(tombstone: identifier)
            precondition(path.isEqualToOrInside(.root) && "\(path)".split(separator: "/").count == 1)
        }
        if let upload = UploadName(client: Fixed.identifier, manifestName: name) {
            precondition(Array(upload.manifestName.utf8) == Array(name.utf8))
            precondition(UploadReference.generations.contains(upload.generation))
        }
        if let upload = UploadName(client: Fixed.identifier, directoryName: name) {
            precondition(Array(upload.directoryName.utf8) == Array(name.utf8))
            precondition(UploadReference.generations.contains(upload.generation))
        }
    }
}

extension StoreManifest {
    fileprivate var values: [String: PropertyListValue] {
        (try? PropertyListValue(xml: xml))?.dictionary ?? [:]
    }
}

/// Builds property lists from any bytes, with the names and values of a manifest.
///
/// Mutated text seldom reaches them.
private struct FuzzedFields {
    private var rest: ArraySlice<UInt8>

    private static let names = [
        "formatVersion", "client", "generation", "upload", "created", "files", "includes", "seen", "name", "size",
        "storedSize", "contentRoot", "salt", "seals", "uploads", "WholeStore.ticdsync",
        "AppliedSyncChangeSets.ticdsync",
        "AppliedSyncCommandSets.ticdsync", "other", "", "\u{0}", "\u{FFFE}",
    ]
    private static let numbers = [0, 1, 7, -1, 1 << 53, (1 << 53) + 1, .max, .min]

    init(_ bytes: [UInt8]) { rest = bytes[...] }

    private mutating func byte() -> Int { rest.popFirst().map(Int.init) ?? 0 }

    /// Replaces values of a dictionary, until the bytes are used up.
    mutating func changing(_ values: [String: PropertyListValue]) -> [String: PropertyListValue] {
        var values = values
        while !rest.isEmpty {
            let name = Self.names[byte() % Self.names.count]
            values[name] = changed(values[name], 6)
        }
        return values
    }

    private mutating func changed(_ value: PropertyListValue?, _ depth: Int) -> PropertyListValue? {
        let kind = byte()
        switch value {
        case .dictionary(var values) where kind >= 64:
            let name = kind >= 128 ? Self.names[kind % Self.names.count] : values.keys.sorted().first ?? "other"
            values[name] = changed(values[name], depth - 1)
            return .dictionary(values)
        case .array(var values) where kind >= 64 && !values.isEmpty:
            let index = kind % values.count
            let new = changed(values[index], depth - 1)
            if let new { values[index] = new } else { values.remove(at: index) }
            return .array(values)
        default: return made(kind, depth)
        }
    }

    private mutating func made(_ kind: Int, _ depth: Int) -> PropertyListValue? {
        switch kind % 10 {
        case 0: return nil
        case 1: return .string(Self.names[byte() % Self.names.count])
        case 2: return .integer(Self.numbers[byte() % Self.numbers.count])
        case 3: return .boolean(byte() % 2 == 1)
        case 4: return .data(Data(repeating: 1, count: byte() % 40))
        case 5: return .date(Date(timeIntervalSinceReferenceDate: Double(byte())))
        case 6: return .real(Double(byte()))
        case 7: return .string(String(repeating: "0", count: byte() % 80))
        case 8 where depth > 0: return .array((0..<byte() % 12).compactMap { _ in changed(nil, depth - 1) })
        case 9 where depth > 0:
            var values: [String: PropertyListValue] = [:]
            for _ in 0..<byte() % 12 {
                let name = Self.names[byte() % Self.names.count]
                values[name] = changed(nil, depth - 1)
            }
            return .dictionary(values)
        default: return .integer(byte())
        }
    }
}
