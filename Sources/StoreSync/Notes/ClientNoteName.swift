import RemoteStorage

/// The file name of a note on a client's removal: `<client>-<remover>.plist`, or TICoreDataSync's `<client>.plist`.
///
/// Each remover has a name of its own, so that two devices that remove a client at the same time write two files.
struct ClientNoteName: Hashable, Sendable {
    let client: RemoteIdentifier
    /// The client that wrote the note; `nil` in TICoreDataSync's names.
    var remover: RemoteIdentifier?

    private static let pathExtension = "plist"

    /// The name's form.
    var fileName: String { "\(client)\(remover.map { "-\($0)" } ?? "").\(Self.pathExtension)" }

    /// The note's path.
    ///
    /// - Throws: `RemoteError` if the identifiers are too long for one path component.
    func path(in directory: RemotePath) throws -> RemotePath { try directory.appending(fileName) }

    /// Reads the name of a note on a certain client; `nil` if it has another form.
    init?(_ fileName: String, on client: RemoteIdentifier) {
        guard let name = Self.readings(of: fileName).first(where: { $0.client == client }) else { return nil }
        self = name
    }

    init(on client: RemoteIdentifier, by remover: RemoteIdentifier?) {
        (self.client, self.remover) = (client, remover)
    }

    /// Every reading of a file name: identifiers may contain hyphens, so only the note's seal or content decides.
    static func readings(of fileName: String) -> [ClientNoteName] {
        let ending = ".\(pathExtension)"
        guard fileName.hasSuffix(ending) else { return [] }
        let stem = fileName.dropLast(ending.count)
        let whole = (try? RemoteIdentifier(String(stem))).map { ClientNoteName(on: $0, by: nil) }
        let split = stem.indices.filter { stem[$0] == "-" }.compactMap { hyphen -> ClientNoteName? in
            guard let client = try? RemoteIdentifier(String(stem[..<hyphen])),
                let remover = try? RemoteIdentifier(String(stem[stem.index(after: hyphen)...]))
            else { return nil }
            return ClientNoteName(on: client, by: remover)
        }
        return split + [whole].compactMap(\.self)
    }
}
