import Foundation
import RemoteStorage
import StoreChanges

/// `SyncChanges/origin.plist`: where the change sets of a document begin, decided once by the device that created it.
///
/// All devices begin with the store that it names. Its rows have the names that every change set uses.
struct SyncOrigin: Hashable, Sendable {
    /// Distinguishes the change sets of this document from those of a former one of the same name.
    var identifier: UUID
    /// The upload of the store with which all devices begin.
    var baseline: UploadName
    /// What the store's schema doesn't say.
    var rules: SyncRules

    private static let formatVersion = 1
    /// The version of the rules by which change sets are merged: all devices need the same one.
    private static let foldVersion = 1

    init(baseline: UploadName, rules: SyncRules = .none) {
        identifier = UUID()
        self.baseline = baseline
        self.rules = rules
    }

    /// Reads the file.
    ///
    /// - Throws: ``StoreSyncError`` with `corrupt`, or `unsupportedFormat` for a newer version.
    init(_ bytes: [UInt8], at path: RemotePath) throws(StoreSyncError) {
        let values: [String: PropertyListValue]
        do throws(StoreSyncError) {
            values = try PropertyListValue.dictionary(in: bytes, at: path)
        } catch {
            throw .unreadableOrigin(error.code, at: path)
        }
        guard let version = values["formatVersion"]?.integer, let fold = values["foldVersion"]?.integer else {
            throw .unreadableOrigin(.corrupt, at: path)
        }
        guard version == Self.formatVersion else { throw .newerFormat(path, version) }
        guard fold == Self.foldVersion else {
            throw StoreSyncError(
                .unsupportedFormat,
                """
                The devices of this document merge by version \(fold) of the rules, and this program knows version \
                \(Self.foldVersion). Update the older program.
                """
            )
        }
        guard let identifier = values["identifier"]?.string.flatMap(UUID.init(uuidString:)),
            let baseline = values["baseline"]?.string.flatMap(UploadName.init(identifier:))
        else { throw .unreadableOrigin(.corrupt, at: path) }
        self.identifier = identifier
        self.baseline = baseline
        do {
            rules = try values["rules"]?.string.map { try SyncRules(decoding: $0.utf8) } ?? .none
        } catch {
            throw .unreadableOrigin(.corrupt, at: path)
        }
    }

    var xml: [UInt8] {
        var values: [String: PropertyListValue] = [
            "formatVersion": .integer(Self.formatVersion),
            "foldVersion": .integer(Self.foldVersion),
            "identifier": .string(identifier.uuidString),
            "baseline": .string(baseline.identifier),
        ]
        if rules != .none { values["rules"] = .string(String(decoding: rules.encoded, as: UTF8.self)) }
        return PropertyListValue.dictionary(values).xml
    }
}
