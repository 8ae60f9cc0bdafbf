/// How far an operation has come.
///
/// The fraction never falls during an operation, retries included, and reaches 1 only when the operation finished.
public struct OperationProgress: Sendable, Hashable {
    /// The part of the work that is done, from 0 to 1.
    public package(set) var fractionCompleted: Double
    /// Units done, in whatever unit the operation counts (bytes, files, rows), where it counts.
    public var completedUnitCount: Int64?
    /// Units in all, where they are known.
    public var totalUnitCount: Int64?
    /// What the operation is at, in a word for people: "uploading".
    public var phase: String?

    /// Creates progress from a fraction.
    ///
    /// - Parameters:
    ///   - fractionCompleted: The part that is done, from 0 to 1.
    ///   - phase: What the operation is at.
    public init(fractionCompleted: Double, phase: String? = nil) {
        self.fractionCompleted = fractionCompleted
        self.phase = phase
    }

    /// Creates progress from counted units.
    ///
    /// - Parameters:
    ///   - completedUnitCount: Units done.
    ///   - totalUnitCount: Units in all; 0 or less counts as unknown.
    ///   - phase: What the operation is at.
    public init(completedUnitCount: Int64, totalUnitCount: Int64, phase: String? = nil) {
        fractionCompleted = totalUnitCount > 0 ? Double(completedUnitCount) / Double(totalUnitCount) : 0
        self.completedUnitCount = completedUnitCount
        self.totalUnitCount = totalUnitCount
        self.phase = phase
    }

    /// Nothing done yet.
    static let none = OperationProgress(fractionCompleted: 0)

    /// The largest fraction below 1: what work that isn't finished can reach.
    static let almostDone = 1.0.nextDown

    /// This progress as the successor of `previous`: a fraction that isn't a number, or would fall, keeps the former.
    func following(_ previous: OperationProgress) -> OperationProgress {
        var next = self
        let fraction = fractionCompleted.isNaN ? 0 : fractionCompleted
        next.fractionCompleted = max(previous.fractionCompleted, min(fraction, Self.almostDone))
        return next
    }
}
