import Foundation
import Operations

/// Checks that the store can be uploaded, before anything is created on the remote for it.
actor StoreCheckOperation: Operation {
    private let url: URL

    init(_ url: URL) {
        self.url = url
    }

    func main(_ context: OperationContext) async throws {
        try await context.blocking { [url] in try StoreSnapshot.checkSource(LocalStore(url)) }
    }
}
