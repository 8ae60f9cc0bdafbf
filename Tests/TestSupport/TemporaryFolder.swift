package import Foundation

/// An empty folder for one test, which is removed with the last reference.
package final class TemporaryFolder: Sendable {
    /// The folder, without symbolic links in its path.
    package let url = FileManager.default.temporaryDirectory.resolvingSymlinksInPath()
        .appending(path: "storesync-test-\(UUID())", directoryHint: .isDirectory)

    package init() {
        do {
            try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
        } catch {
            preconditionFailure("A test's folder can't be created: \(error)")
        }
    }

    deinit { try? FileManager.default.removeItem(at: url) }

    package var path: String { url.path }

    package func appending(path: String) -> URL { url.appending(path: path) }
}
