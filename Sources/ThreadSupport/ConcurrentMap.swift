extension Sequence where Element: Sendable {
    /// Transforms the elements concurrently, and returns the results in the order of the elements.
    ///
    /// The transformations start in order. If one throws, the others are cancelled and awaited, and its error is thrown.
    ///
    /// - Parameters:
    ///   - limit: How many transformations are in progress at a time. There is always a limit, because the number of
    ///     elements often depends on the remote.
    ///   - transform: Transforms an element, in a child task.
    /// - Returns: The results.
    /// - Throws: The first error.
    @discardableResult
    package func concurrentMap<Result: Sendable>(
        atMost limit: Int = 128,
        _ transform: @escaping @Sendable (Element) async throws -> Result
    ) async throws -> [Result] {
        try await withThrowingTaskGroup(of: (Int, Result).self) { group in
            var results: [(Int, Result)] = []
            for (index, element) in enumerated() {
                if index >= limit, let result = try await group.next() { results.append(result) }
                group.addTask { (index, try await transform(element)) }
            }
            for try await result in group { results.append(result) }
            return results.sorted { $0.0 < $1.0 }.map(\.1)
        }
    }
}
