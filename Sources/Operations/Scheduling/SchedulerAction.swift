/// What is to be done outside the scheduler's lock, in this order, after something was decided under it.
enum SchedulerAction {
    /// A worker begins with an operation.
    case start(Worker, OperationRecord)
    case startOwnTask(OwnTask)
    case dropOwnTask(OwnTask)
    case resume(CheckedContinuation<Void, Never>)
    case wake(CheckedContinuation<Void, any Error>)
    case fail(CheckedContinuation<Void, any Error>, any Error)
    case tell([EventListener], OperationEvent)
    case cancelTask(Task<Void, Never>)
    case cancel(OperationRecord, OperationError?)
    /// An operation that hasn't started ends with an error.
    case withdraw(OperationRecord, any Error)
    /// An operation ends as the one did that it joined.
    case mirror(OperationRecord)
    /// An operation of another supervisor: one that it depends on has ended.
    case settleForeign(OperationRecord, dependency: OperationRecord, (any Error)?)
    /// An operation has ended before one of another supervisor on which it depends.
    case forgetForeign(OperationRecord, dependency: OperationRecord)
    case raise(OperationRecord, OperationPriority)
    /// Lets go of an operation, whose `deinit` is its author's code.
    case release(AnyObject)
    /// Lets go of something whose last reference may run anybody's `deinit`, as a closure's captures may.
    case drop(AnyObject)
    case removeDirectory(TemporaryDirectory)
    case endBackgroundStay(BackgroundStay)
    case log(@Sendable (OperationEnvironment) -> Void)
}
