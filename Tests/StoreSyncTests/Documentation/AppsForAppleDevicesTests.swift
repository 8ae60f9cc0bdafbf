import Foundation
import GRDB
import Operations
import RemoteStorage
import StoreSync
import Testing

// The code between the marks is also in the documentation.

@Suite("Apps for Apple devices")
struct AppsForAppleDevicesTests {
    @Test("name what has another path later")
    func paths() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "apple-\(UUID().uuidString)")
        let (container, support) = (folder, folder.appending(path: "Library/Application Support"))
        let share = folder.appending(path: "share")
        try FileManager.default.createDirectory(at: support, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        // DOC: paths
        let state = try await StateDirectory.open(at: support.appending(path: "sync"), root: container)
        let remote = LocalFolderBackend(root: share, identity: "the family's folder")
        // DOC: end
        #expect(remote.identity == "the family's folder")
        _ = state
    }
}

#if canImport(UIKit)
import UIKit

// DOC: background
/// Tells a supervisor and all databases when the app goes to the background, and when it comes back.
@MainActor final class BackgroundSync {
    private let supervisor: OperationSupervisor
    private var isInBackground = false

    init(_ supervisor: OperationSupervisor) { self.supervisor = supervisor }

    /// Call it from `sceneDidEnterBackground`.
    func enterBackground() async {
        isInBackground = true
        await supervisor.enterBackground(grace: .seconds(20), provider: BackgroundTask(sync: self))
    }

    /// Call it from `sceneWillEnterForeground`.
    func enterForeground() async {
        isInBackground = false
        NotificationCenter.default.post(name: Database.resumeNotification, object: nil)
        await supervisor.enterForeground()
    }

    func begin(_ expired: @escaping @Sendable () -> Void) -> Int? {
        let task = UIApplication.shared.beginBackgroundTask(expirationHandler: expired)
        return task == .invalid ? nil : task.rawValue
    }

    func end(_ identifier: Int) {
        // A cancelled operation may still be ending, and hold a lock.
        if isInBackground { NotificationCenter.default.post(name: Database.suspendNotification, object: nil) }
        UIApplication.shared.endBackgroundTask(UIBackgroundTaskIdentifier(rawValue: identifier))
    }
}

/// The background task that a supervisor takes while its operations end.
struct BackgroundTask: BackgroundActivityProvider {
    let sync: BackgroundSync

    func beginActivity(expired: @escaping @Sendable () -> Void) async -> Int? { await sync.begin(expired) }

    func endActivity(_ identifier: Int) async { await sync.end(identifier) }
}
// DOC: end
#endif
