import RemoteStorage

/// A storage that a device can't reach any more from a certain request on, as if the device had died.
///
/// That request isn't sent, or its response is lost. No later request is sent.
actor DyingBackend: ObservingBackend {
    /// The moment at which the device dies.
    struct Death: Sendable, Hashable, CustomStringConvertible {
        /// The number of the request, from 0.
        var request: Int
        /// Whether the request is carried out.
        var isAfter: Bool

        var description: String { "\(isAfter ? "after" : "before") request \(request)" }
    }

    nonisolated let base: any RemoteBackend
    private var death: Death?
    private(set) var requests: [ObservedRequest] = []
    private(set) var isDead = false
    private var meeting: (isAt: @Sendable (Int, String) -> Bool, body: @Sendable () async -> Void)?

    init(_ base: any RemoteBackend) { self.base = base }

    /// Starts counting requests, and dies at `death`, or never if it's `nil`.
    func die(_ death: Death?) {
        requests = []
        self.death = death
    }

    /// Starts counting requests, and runs `body` before one of them, as if another device were faster.
    func meet(atRequest number: Int, _ body: @escaping @Sendable () async -> Void) {
        requests = []
        meeting = ({ request, _ in request == number }, body)
    }

    /// Runs `body` before the first request with such a name.
    func meet(at isMeeting: @escaping @Sendable (String) -> Bool, _ body: @escaping @Sendable () async -> Void) {
        meeting = ({ _, name in isMeeting(name) }, body)
    }

    func observe<Answer: Sendable>(
        _ request: ObservedRequest,
        _ send: () async throws -> Answer
    ) async throws -> Answer {
        let number = requests.count
        requests.append(request)
        // The other device continues if this device cancels its request.
        if meeting?.isAt(number, request.name) == true, let (_, body) = meeting.take() {
            await Task { await body() }.value
        }
        if death == Death(request: number, isAfter: false) { isDead = true }
        guard !isDead else { throw RemoteError(.unavailable, "The device is dead.") }
        let answer: Result<Answer, any Error>
        do { answer = .success(try await send()) } catch { answer = .failure(error) }
        if death == Death(request: number, isAfter: true) { isDead = true }
        guard !isDead else { throw RemoteError(.unavailable, "The device is dead.") }
        return try answer.get()
    }
}
