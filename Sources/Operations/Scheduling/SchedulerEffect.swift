/// A step that follows from a decision under the scheduler's lock.
///
/// The steps are performed outside the lock, in order.
enum SchedulerEffect: @unchecked Sendable {
    // Sendable: the object of an effect is released by its performer, and touched by no other task.
    /// Starts a worker with an operation.
    case start(Worker, OperationRecord)
    case startOwnTask(OwnTask)
    case dropOwnTask(OwnTask)
    case resume(CheckedContinuation<Void, Never>)
    case wake(CheckedContinuation<Void, any Error>)
    case fail(CheckedContinuation<Void, any Error>, any Error)
    case tell([EventListener], OperationEvent)
    case cancelTask(Task<Void, Never>)
    case cancel(OperationRecord, OperationError?)
    /// Ends an operation that hasn't started, with an error.
    case withdraw(OperationRecord, any Error)
    /// Ends a joined operation as the operation did that it joined.
    case mirror(OperationRecord)
    /// Tells an operation of another supervisor that one of its dependencies has ended.
    case settleForeign(OperationRecord, dependency: OperationRecord, (any Error)?)
    /// Tells a dependency in another supervisor that its dependent has ended first.
    case forgetForeign(OperationRecord, dependency: OperationRecord)
    case raise(OperationRecord, OperationPriority)
    /// Releases an operation, whose `deinit` is code of its author, and forgets that it was added.
    case release(AnyObject)
    /// Releases an object whose last reference may run a `deinit` of the app, for example of a closure's captures.
    case drop(AnyObject)
    /// Calls code from outside, such as a logger; it captures what it needs, because any supervisor may perform it.
    case call(@Sendable () -> Void)
}
