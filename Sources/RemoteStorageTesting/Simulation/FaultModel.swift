/// The faults of a simulated storage, and their probabilities.
///
/// A probability is from 0 to 1, and applies to each request independently.
public struct FaultModel: Sendable {
    /// An answer by which a server refuses a request.
    public struct Refusal: Sendable, Hashable, Error, CustomStringConvertible {
        /// The HTTP status.
        public var status: Int
        /// The delay before the next attempt, if the server names one.
        public var retryAfter: Duration?

        /// Creates a refusal.
        public init(_ status: Int, retryAfter: Duration? = nil) {
            self.status = status
            self.retryAfter = retryAfter
        }

        /// The status, and the delay before the next attempt.
        public var description: String {
            "HTTP status \(status)" + (retryAfter.map { ", Retry-After \($0)" } ?? "")
        }

        /// The refusals locked, too many requests, server error and overloaded, with and without a delay.
        public static let all = [
            Refusal(423), Refusal(429), Refusal(429, retryAfter: .seconds(5)), Refusal(500), Refusal(503),
            Refusal(503, retryAfter: .seconds(120)),
        ]
    }

    /// The request never arrives.
    public var lostRequest = 0.0
    /// The request is carried out, and its answer is lost.
    public var lostReply = 0.0
    /// The request is refused by one of ``refusals``.
    public var refusal = 0.0
    /// The possible refusals.
    public var refusals = Refusal.all
    /// A read ends with an error in the middle.
    public var abortedStream = 0.0
    /// If replacing isn't atomic, a write leaves a part of its content and fails.
    public var tornWrite = 0.0
    /// If reading isn't consistent, the server opens a file some time after it read its length; only with a clock.
    public var lateOpening = 0.0
    /// A change is carried out a second time, some requests later, as by a proxy that retries requests.
    public var duplicateDelivery = 0.0
    /// A list is stale: it shows the state of some requests ago.
    public var staleListing = 0.0
    /// A file's status or content is stale: it shows the state of some requests ago.
    public var lateVisibility = 0.0
    /// The duration of a request, by the simulation's clock.
    public var latency: ClosedRange<Duration> = .zero ... .zero
    /// The error of the storage's clock.
    public var clockSkew: Duration = .zero

    /// A storage without faults.
    public init() {}

    /// A storage without faults.
    public static let none = FaultModel()

    /// Returns the faults of every network: lost requests and answers, aborted streams, overloaded servers.
    public static func network(_ chance: Double) -> FaultModel {
        var model = FaultModel()
        model.lostRequest = chance
        model.lostReply = chance
        model.refusal = chance
        model.abortedStream = chance
        model.latency = .milliseconds(5) ... .milliseconds(400)
        return model
    }
}
