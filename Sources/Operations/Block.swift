/// An operation whose `main` is a closure.
///
/// Not public: Foundation has a class `BlockOperation`, and a handle is all that a caller needs.
actor Block<Output: Sendable>: Operation {
    /// The closure runs isolated to the actor.
    typealias Body = @Sendable (OperationContext) async throws -> Output

    private let body: Body

    init(_ body: @escaping Body) { self.body = body }

    func main(_ context: OperationContext) async throws -> Output { try await body(context) }
}
