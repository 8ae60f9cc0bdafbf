import Operations

/// Deletes the keys of an application from this device.
actor KeyRemovalOperation: Operation {
    private let key: ApplicationKey
    private let state: StateDirectory

    init(_ key: ApplicationKey, state: StateDirectory) {
        self.key = key
        self.state = state
    }

    func main(_ context: OperationContext) async throws {
        try await translatingErrors {
            // Registrations save keys under the same lock.
            let lock = try await state.lock(.application(key), .exclusive, for: context)
            defer { lock.release() }
            try await state.forgetKeys(of: key, on: context.blockingExecutor)
        }
    }
}
