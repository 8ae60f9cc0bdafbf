/// Runs `body` and then, whether or not it throws, `cleanUp`: a `defer` that may await.
package func withCleanup<Result>(
    _ body: () async throws -> Result,
    cleanUp: () async -> Void
) async throws -> Result {
    do {
        let result = try await body()
        await cleanUp()
        return result
    } catch {
        await cleanUp()
        throw error
    }
}
