import Foundation
import Operations
import Testing

@testable import StoreSync

@Suite("What an app saves with clients and documents", .timeLimit(.minutes(60)))
struct UserInfoTests {
    private static func nested(_ levels: Int) -> PropertyListValue {
        (0..<levels).reduce(.string("inner")) { value, _ in .array([value]) }
    }

    private static func keys(_ count: Int) -> [String: PropertyListValue] {
        Dictionary(uniqueKeysWithValues: (0..<count).map { ("key \($0)", .boolean(true)) })
    }

    private static let unreadable: [[String: PropertyListValue]] = [
        ["data": .data(Data(count: 1 << 20))], keys(2_049), ["keys": .dictionary(keys(2_049))], ["deep": nested(31)],
    ]

    /// Registers a client, or a document.
    @MainActor private static func register(
        _ userInfo: [String: PropertyListValue],
        ofDocument isOfDocument: Bool,
        by device: Device
    ) async throws {
        let delegate = UnencryptedDelegate()
        let manager = device.manager(delegate, userInfo: isOfDocument ? [:] : userInfo)
        if isOfDocument {
            _ = try await manager.document(device.document, userInfo: userInfo).register(description: "notes").value
        } else {
            _ = try await manager.register().value
        }
        withExtendedLifetime(delegate) {}
    }

    @Test("User info that no device could read back is refused, and nothing is written", arguments: [false, true])
    func unreadable(isOfDocument: Bool) async throws {
        let fixture = try Fixture()
        let device = try fixture.device("desk")
        if isOfDocument { _ = try await device.register().value }
        let before = (try? fixture.files()) ?? [:]
        for userInfo in Self.unreadable {
            let code = await code { try await Self.register(userInfo, ofDocument: isOfDocument, by: device) }
            #expect(code == .invalidUserInfo, "\(userInfo.keys.prefix(1))")
        }
        #expect(((try? fixture.files()) ?? [:]) == before)
    }

    @Test("User info that is as deep and as wide as the error allows is read back", arguments: [false, true])
    func limits(isOfDocument: Bool) async throws {
        let fixture = try Fixture()
        let device = try fixture.device("desk")
        let userInfo: [String: PropertyListValue] = [
            "data": .data(Data(count: 1 << 10)), "keys": .dictionary(Self.keys(2_048)), "deep": Self.nested(30),
            "text": .string("Ärger\n\t<&>\u{0}\u{1}\u{85}\u{2028}"),
        ]
        try await Self.register(userInfo, ofDocument: isOfDocument, by: device)
        if isOfDocument {
            let list = try await device.listDocuments().value
            #expect(list.unreadable.isEmpty && list.documents.map(\.userInfo) == [userInfo])
        } else {
            let list = try await device.listClients().value
            #expect(list.unreadable.isEmpty && list.clients.map(\.userInfo) == [userInfo])
        }
    }
}
