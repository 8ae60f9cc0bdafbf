extension RemotePath {
    /// Throws ``RemoteError/moveIntoItself(_:to:)`` if the destination of a move is inside this path.
    func refuseMoveIntoItself(to destination: RemotePath) throws(RemoteError) {
        guard destination == self || !destination.isEqualToOrInside(self) else {
            throw RemoteError.moveIntoItself(self, to: destination)
        }
    }
}

extension RemoteBackend {
    /// Returns the item to be moved, after the checks that backends make before they move anything.
    ///
    /// - Parameters:
    ///   - source: The item's path.
    ///   - destination: Its new path.
    /// - Returns: The item.
    /// - Throws: ``RemoteError`` if the item doesn't exist, if `destination` exists, or if it's inside `source`; and what
    ///   ``status(of:)`` throws.
    package func itemToMove(_ source: RemotePath, to destination: RemotePath) async throws -> RemoteItem {
        async let sourceStatus = status(of: source)
        async let destinationStatus = status(of: destination)
        let (item, existing) = try await (sourceStatus, destinationStatus)
        guard let item else { throw RemoteError.notFound(source) }
        try source.refuseMoveIntoItself(to: destination)
        guard existing == nil else { throw RemoteError.alreadyExists(destination) }
        return item
    }
}
