public import Foundation
public import RemoteStorage
public import StoreChanges

extension ChangeAuthor {
    /// The client whose edit it is, as lists of clients name it; `nil` if the log names no client that a remote could have.
    public var client: RemoteIdentifier? { try? RemoteIdentifier(set.client.rawValue) }

    /// When the client captured the edit, by its clock or later: an edit that knew another one always has the later date.
    public var date: Date { Date(timeIntervalSince1970: Double(time.rawValue) / 1000) }
}
