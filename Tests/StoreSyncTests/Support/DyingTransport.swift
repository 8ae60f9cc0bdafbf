import NIOHTTP1
import RemoteStorage
import RemoteStorageHTTP
import ThreadSupport

/// The connection of a device to a bucket, on which the device dies while it sends the parts of a file.
///
/// The parts before ``part`` arrive and are acknowledged. From ``part`` on, the server receives ``partsInFlight``
/// parts, but the device gets no response. No other request is sent from then on.
struct DyingTransport: HTTPSending {
    let base: any HTTPSending
    /// The number of the first part that isn't acknowledged.
    let part: Int
    /// The number of parts from ``part`` on that the server still receives.
    let partsInFlight: Int
    private let isDead = Locked(false)

    init(_ base: any HTTPSending, at part: Int, partsInFlight: Int) {
        self.base = base
        self.part = part
        self.partsInFlight = partsInFlight
    }

    private static let death = RemoteError(.unavailable, "The device is dead.")

    func send(_ request: HTTPRequest) async throws -> HTTPResponse { try await pass(request, base.send) }

    func sendWithoutRetries(_ request: HTTPRequest) async throws -> HTTPResponse {
        try await pass(request, base.sendWithoutRetries)
    }

    private func pass(
        _ request: HTTPRequest,
        _ send: (HTTPRequest) async throws -> HTTPResponse
    ) async throws -> HTTPResponse {
        guard request.method == .PUT, let number = Self.partNumber(request) else {
            if isDead.withLock(\.self) { throw Self.death }
            return try await send(request)
        }
        guard number >= part else { return try await send(request) }
        isDead.withLock { $0 = true }
        if number < part + partsInFlight { _ = try await send(request) }
        throw Self.death
    }

    private static func partNumber(_ request: HTTPRequest) -> Int? {
        request.target.split { "?&".contains($0) }.first { $0.hasPrefix("partNumber=") }
            .flatMap { Int($0.dropFirst("partNumber=".count)) }
    }
}
