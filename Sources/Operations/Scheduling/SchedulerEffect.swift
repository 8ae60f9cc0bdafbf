/// A step that follows from a decision under the scheduler's lock.
///
/// The steps are performed outside the lock, in order. There are few kinds, each of at most two references, so that effects
/// are cheap to store and to release. What happens rarely is a closure.
enum SchedulerEffect: @unchecked Sendable {
    // Sendable: the object of `release` is released by the performer, and touched by no other task.
    /// Starts a worker with an operation.
    case start(Worker, OperationRecord)
    /// Decides a further event, which may belong to another supervisor, under that supervisor's lock.
    case decide(SchedulerCore, @Sendable (inout SchedulerBoard) -> Void)
    /// Releases an operation, whose `deinit` is code of its author.
    case release(AnyObject)
    /// Resumes a continuation, tells listeners, or calls other code from outside; it captures what it needs.
    case call(@Sendable () -> Void)
}
