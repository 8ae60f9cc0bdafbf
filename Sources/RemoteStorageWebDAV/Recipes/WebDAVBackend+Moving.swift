import NIOHTTP1
public import RemoteStorage
import RemoteStorageHTTP
import ThreadSupport

// Copies and moves.
extension WebDAVBackend {
    /// Copies a file on the server, or through this device if only a PUT replaces the destination safely.
    public func copy(_ source: RemotePath, to destination: RemotePath, when condition: WriteCondition) async throws {
        try Task.checkCancellation()
        guard destination != .root else { throw RemoteError.rootIsFixed() }
        let profile = try await serverProfile()
        async let sourceStatus = status(of: source)
        async let destinationStatus = status(of: destination)
        let (item, existing) = try await (sourceStatus, destinationStatus)
        guard let item else { throw RemoteError.notFound(source) }
        guard item.kind == .file else { throw RemoteError.notAFile(source) }
        try condition.check(existing, at: destination)
        guard source != destination else { return }
        if profile.keepsConditions || profile.putsAtomically && existing != nil {
            try await write(rereading(source, length: item.size), to: destination, when: condition)
        } else if condition == .ifAbsent {
            let content = rereading(source, length: item.size)
            try await create(destination, content) { try await self.copyFile(source, to: $0) }
        } else {
            try await putAside(replacing: existing, at: destination) { try await self.copyFile(source, to: $0) }
        }
    }

    /// Copies a file to a name that no other client uses.
    private func copyFile(_ source: RemotePath, to destination: RemotePath) async throws {
        // A repeated request may find the copy that the first one created, and replaces it.
        let outcome = try await sendMove(.COPY, source, to: destination, overwrites: true)
        guard case .refused(let response) = outcome else { return }
        guard try await status(of: source) != nil else { throw RemoteError.notFound(source) }
        throw failure(response, at: destination)
    }

    /// Moves a file or directory to a path that doesn't exist.
    public func move(_ source: RemotePath, to destination: RemotePath) async throws {
        try Task.checkCancellation()
        guard source != .root, let parent = destination.parent else { throw RemoteError.rootIsFixed() }
        _ = try await serverProfile()
        // Existing destinations are refused here too: some servers move the file into an existing directory.
        let item = try await itemToMove(source, to: destination)
        try await makeSure(of: parent)
        let isDirectory = item.kind == .directory
        directories.forget(source)
        for isLast in [false, true] {
            let outcome = try await sendMove(
                .MOVE,
                source,
                to: destination,
                isDirectory: isDirectory,
                overwrites: false
            )
            guard case .refused(let response) = outcome else { return }
            guard try await status(of: destination) == nil else { throw RemoteError.alreadyExists(destination) }
            guard try await status(of: source) != nil else { throw RemoteError.notFound(source) }
            guard !isLast, try await status(of: parent) == nil else { throw failure(response, at: source) }
            directories.forget(above: destination)
            try await makeSure(of: parent)
        }
    }

    // MARK: Probing

    /// Tests whether an unknown server moves collections exclusively; the test can only disprove that.
    func probe() async throws -> Bool {
        try await withProbeDirectory { place in
            try await probe(in: place)
        } remove: { place in
            await removeLeftover(place, isDirectory: true)
        }
    }

    private func probe(in place: RemotePath) async throws -> Bool {
        let racers = 4
        for round in 0..<3 {
            let destination = try place.appending("destination \(round)")
            for racer in 0..<racers {
                try await createDirectory(at: place.appending("\(round) \(racer)").appending("\(racer)"))
            }
            let outcomes = try await (0..<racers).concurrentMap { racer -> Int? in
                let source = try place.appending("\(round) \(racer)")
                let outcome = try await self.sendMove(
                    .MOVE,
                    source,
                    to: destination,
                    isDirectory: true,
                    overwrites: false
                )
                // A proxy may have sent the request twice. Then the server has carried out the first one.
                if case .refused = outcome, try await self.status(of: source) != nil { return nil }
                return racer
            }
            let winners = outcomes.compactMap(\.self)
            guard winners.count == 1, try await list(destination)?.map(\.name) == winners.map({ "\($0)" }) else {
                return false
            }
            // And once more, without concurrent requests.
            let late = try place.appending("late \(round)")
            try await createDirectory(at: late.appending("late"))
            let outcome = try await sendMove(.MOVE, late, to: destination, isDirectory: true, overwrites: false)
            guard case .refused = outcome, try await list(late)?.count == 1,
                try await list(destination)?.map(\.name) == winners.map({ "\($0)" })
            else { return false }
        }
        return true
    }
}
