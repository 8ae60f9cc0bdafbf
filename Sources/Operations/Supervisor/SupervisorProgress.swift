/// How far all operations of a supervisor have come together.
///
/// It starts anew when the supervisor has drained.
public struct SupervisorProgress: Sendable, Hashable {
    /// Operations added since the supervisor was last empty.
    public var totalUnitCount: Int
    /// Those of them that have ended, in whatever way.
    public var completedUnitCount: Int
    /// The part that is done, running operations counted by their own progress: from 0 to 1, never falling until the
    /// supervisor has drained, although operations may be added meanwhile.
    public var fractionCompleted: Double
}
