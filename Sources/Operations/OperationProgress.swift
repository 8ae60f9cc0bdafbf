/// The progress of an operation.
///
/// The fraction never falls during an operation, retries included, and reaches 1 only when the operation finishes.
public struct OperationProgress: Sendable, Hashable {
    /// The part of the work that is done, from 0 to 1.
    public package(set) var fractionCompleted: Double
    /// The units that are done, in the operation's own unit (bytes, files, rows), if it counts any.
    public var completedUnitCount: Int64?
    /// The units in total, if they are known.
    public var totalUnitCount: Int64?
    /// What the operation is doing, in a word for users: "uploading".
    public var phase: String?

    /// Creates progress from a fraction.
    ///
    /// - Parameters:
    ///   - fractionCompleted: The part that is done, from 0 to 1.
    ///   - phase: What the operation is doing.
    public init(fractionCompleted: Double, phase: String? = nil) {
        self.fractionCompleted = fractionCompleted
        self.phase = phase
    }

    /// Creates progress from counted units.
    ///
    /// - Parameters:
    ///   - completedUnitCount: The units that are done.
    ///   - totalUnitCount: The units in total; 0 or less counts as unknown.
    ///   - phase: What the operation is doing.
    public init(completedUnitCount: Int64, totalUnitCount: Int64, phase: String? = nil) {
        fractionCompleted = totalUnitCount > 0 ? Double(completedUnitCount) / Double(totalUnitCount) : 0
        self.completedUnitCount = completedUnitCount
        self.totalUnitCount = totalUnitCount
        self.phase = phase
    }

    /// Nothing done yet.
    static let none = OperationProgress(fractionCompleted: 0)

    /// The largest fraction below 1: the maximum for work that isn't finished.
    static let almostDone = 1.0.nextDown

    /// Returns this progress as the successor of `previous`.
    ///
    /// A fraction that isn't a number, or is lower than the previous one, is replaced by the previous one.
    func following(_ previous: OperationProgress) -> OperationProgress {
        var next = self
        let fraction = fractionCompleted.isNaN ? 0 : fractionCompleted
        next.fractionCompleted = max(previous.fractionCompleted, min(fraction, Self.almostDone))
        return next
    }
}
