import Foundation
import RemoteStorage

/// The name of an application that was moved aside for a new one: `.replaced-<uuid>-<epoch>-<application>`.
///
/// Once the former application certainly isn't needed any more, it's renamed to `.removing-…`.
///
/// The name says all that a device needs to finish or undo an interrupted replacement, so any device can do that.
struct AsideName: Hashable, Sendable {
    var application: RemoteIdentifier
    /// The epoch of the former application; `nil` if it couldn't be read.
    var epoch: UUID?
    /// Whether the application is being removed: then it's never restored.
    var isRemoving = false
    var unique = UUID()

    private static let prefixes = (replaced: ".replaced-", removing: ".removing-")
    private static let unknownEpoch = String(repeating: "0", count: uuidLength)
    private static let uuidLength = 36

    init(application: RemoteIdentifier, epoch: UUID?) {
        self.application = application
        self.epoch = epoch
    }

    /// Reads a name; `nil` if it has another form.
    init?(_ name: String) {
        isRemoving = name.hasPrefix(Self.prefixes.removing)
        guard isRemoving || name.hasPrefix(Self.prefixes.replaced) else { return nil }
        let rest = name.dropFirst(Self.prefixes.replaced.count)
        let (unique, other) = (rest.prefix(Self.uuidLength), rest.dropFirst(Self.uuidLength + 1))
        let (epoch, application) = (other.prefix(Self.uuidLength), other.dropFirst(Self.uuidLength + 1))
        guard let unique = UUID(uuidString: String(unique)),
            let application = try? RemoteIdentifier(String(application)),
            epoch == Self.unknownEpoch || UUID(uuidString: String(epoch)) != nil
        else { return nil }
        self.unique = unique
        self.application = application
        self.epoch = UUID(uuidString: String(epoch))
        guard self.name == name else { return nil }
    }

    var name: String {
        let prefix = isRemoving ? Self.prefixes.removing : Self.prefixes.replaced
        return "\(prefix)\(unique.uuidString)-\(epoch?.uuidString ?? Self.unknownEpoch)-\(application)"
    }

    /// The name of the application while it's being removed.
    var removing: AsideName {
        var removing = self
        removing.isRemoving = true
        return removing
    }
}
