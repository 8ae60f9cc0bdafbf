import RemoteStorage

/// A backend between a test and another one: every write goes through `write`, so that a test can intercept all of them.
protocol InterceptingBackend: ForwardingBackend {}

extension InterceptingBackend {
    func knownCapabilities() async throws -> RemoteCapabilities? { try await capabilities() }

    func resumeWrite(
        to path: RemotePath,
        when condition: WriteCondition,
        receipts: any WriteReceipts,
        _ rest: @Sendable (_ keptBytes: Int64) async throws -> RemoteContentRest
    ) async throws -> RemoteItem {
        try await write(rest(0).content, to: path, when: condition)
    }
}
