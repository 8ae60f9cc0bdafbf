/// Observes the steps in which files on this device change.
///
/// Tests throw there, to simulate a crash between two steps, or act as another program.
package struct StepObserver: Sendable {
    private let observe: (@Sendable (_ step: String) throws -> Void)?

    /// Observes nothing.
    package static let none = StepObserver(nil)

    /// Creates an observer.
    ///
    /// - Parameter observe: Called with the name of each step; an error that it throws ends the change there. `nil` observes nothing.
    package init(_ observe: (@Sendable (_ step: String) throws -> Void)?) {
        self.observe = observe
    }

    /// Called when a step is reached.
    package func reached(_ step: @autoclosure () -> String) throws {
        try observe?(step())
    }
}
