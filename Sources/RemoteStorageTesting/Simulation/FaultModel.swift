/// How often a simulated storage misbehaves, and how.
///
/// Chances are from 0 to 1, for each request by itself.
public struct FaultModel: Sendable {
    /// How a server that doesn't want to answers.
    public struct Refusal: Sendable, Hashable, Error, CustomStringConvertible {
        /// The HTTP status.
        public var status: Int
        /// When to come again, if it says so.
        public var retryAfter: Duration?

        /// Creates a refusal.
        public init(_ status: Int, retryAfter: Duration? = nil) {
            self.status = status
            self.retryAfter = retryAfter
        }

        /// The status, and when to come again.
        public var description: String {
            "HTTP status \(status)" + (retryAfter.map { ", Retry-After \($0)" } ?? "")
        }

        /// Locked, too many requests, a failure, too busy; with and without a time.
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
    /// How it is refused.
    public var refusals = Refusal.all
    /// What is read ends with an error in the middle.
    public var abortedStream = 0.0
    /// Where replacing isn't atomic, a write leaves a part of its content and fails.
    public var tornWrite = 0.0
    /// Where reading isn't consistent, a file is opened some time after the server saw how long it is; with a clock only.
    public var lateOpening = 0.0
    /// A change is carried out a second time, some requests later, as a proxy that tries again does.
    public var duplicateDelivery = 0.0
    /// A list is one of some requests ago.
    public var staleListing = 0.0
    /// A file is looked for as it was, or wasn't, some requests ago.
    public var lateVisibility = 0.0
    /// How long a request takes, by the simulation's clock.
    public var latency: ClosedRange<Duration> = .zero ... .zero
    /// By how much the place's clock is wrong.
    public var clockSkew: Duration = .zero

    /// A storage without faults.
    public init() {}

    /// A storage without faults.
    public static let none = FaultModel()

    /// Requests and answers get lost, streams break off, the server is too busy: what every network does at times.
    public static func network(_ chance: Double) -> FaultModel {
        var model = FaultModel()
        model.lostRequest = chance
        model.lostReply = chance
        model.refusal = chance
        model.abortedStream = chance
        model.latency = .milliseconds(5) ... .milliseconds(400)
        return model
    }

    /// A year, by which clocks may be wrong.
    public static let year = Duration.seconds(366 * 86_400)
}
