package import RemoteStorage
import TestSupport

/// A fault of a single request on its way.
package enum Accident: String, CaseIterable, Sendable {
    case lostReply, lostRequest, cutReply, cutRequest, failure, busy, busyWithTime, locked

    private var fault: FaultProxy.Fault {
        switch self {
        case .lostReply: .loseReply
        case .lostRequest: .loseRequest
        case .cutReply: .cutReply(after: 60)
        case .cutRequest: .cutRequest(after: 1)
        case .failure: .answer(500)
        case .busy: .answer(503)
        case .busyWithTime: .answer(429, headers: ["Retry-After: 0"])
        case .locked: .answer(423)
        }
    }

    /// Returns pairs of a server and an accident: each accident on one of the servers, or in deep tests on all of them.
    package static func combined<Server: Sendable>(_ servers: [Server], _ accidents: [Accident]) -> [(Server, Accident)]
    {
        servers.indices.flatMap { server in
            accidents.indices
                .filter { TestDepth.isDeep || $0 % servers.count == server }
                .map { (servers[server], accidents[$0]) }
        }
    }

    /// The results of requests with accidents.
    package struct Report: Sendable {
        /// The results without an accident.
        package var undisturbed: [String] = []
        /// The number of requests without an accident.
        package var requests = 0
        /// The results that differ when a request has an accident.
        package var deviations: [String] = []
    }

    /// Sends requests of every kind repeatedly, each time with this accident at another request: in deep tests at each one.
    ///
    /// - Parameters:
    ///   - port: The server's port.
    ///   - replacesConditionally: Whether the server supports the replacement of a given version.
    ///   - makeBackend: Creates a backend at a port, with an empty storage.
    /// - Returns: The results.
    /// - Throws: The error of a request without an accident.
    package func strike(
        port: Int,
        replacesConditionally: Bool,
        _ makeBackend: (_ port: Int) async throws -> any RemoteBackend
    ) async throws -> Report {
        var report = Report()
        let undisturbed = try FaultProxy(to: port) { _, _ in .none }
        report.undisturbed = try await makeBackend(undisturbed.port).requestsOfEveryKind(replacesConditionally)
        report.requests = undisturbed.lines.count
        let first = Self.allCases.firstIndex(of: self) ?? 0
        let interval = TestDepth.choose(quick: 61, ci: 47, deep: 1)
        for number in stride(from: first % interval, to: report.requests, by: interval) {
            let proxy = try FaultProxy(to: port) { index, _ in index == number ? fault : .none }
            let outcome: String
            do {
                let story = try await makeBackend(proxy.port).requestsOfEveryKind(replacesConditionally)
                guard story != report.undisturbed else { continue }
                outcome = "\(story)"
            } catch {
                outcome = "\(error)"
            }
            let line = proxy.lines.indices.contains(number) ? proxy.lines[number] : "none"
            report.deviations.append("\(self) at request \(number), \(line): \(outcome)")
        }
        return report
    }
}

extension RemoteBackend {
    /// Sends requests of every kind, whose results don't depend on lost requests or answers.
    fileprivate func requestsOfEveryKind(_ replacesConditionally: Bool) async throws -> [String] {
        let (directory, file) = (try RemotePath("directory"), try RemotePath("directory/file"))
        let created = try RemotePath("directory/created")
        var story: [String] = []
        try await createDirectory(at: RemotePath("directory/deep/empty"))
        try await write([UInt8](repeating: 1, count: 100_000), to: file, when: .always)
        try await write([UInt8](repeating: 2, count: 100_001), to: file, when: .always)
        try await write([3, 3], to: created, when: .ifAbsent)
        do {
            try await write([4], to: created, when: .ifAbsent)
            story.append("created twice")
        } catch let error as RemoteError where error.code == .alreadyExists {
            story.append("refused")
        }
        if replacesConditionally, let tag = try await status(of: created)?.tag {
            try await write([3, 4], to: created, when: .ifMatches(tag))
        }
        try await copy(file, to: RemotePath("directory/copy"), when: .ifAbsent)
        try await copy(created, to: RemotePath("directory/copy"), when: .always)
        try await write([5], to: RemotePath("staging/x"), when: .always)
        try await move(RemotePath("staging"), to: RemotePath("published"))
        try await move(RemotePath("directory/deep"), to: RemotePath("moved"))
        try await remove(RemotePath("directory/copy"))
        story.append("\(try await list(directory)?.map { "\($0.name) \($0.size)" } ?? [])")
        story.append("\(try await list(.root)?.map(\.name) ?? [])")
        story.append("\(try await bytes(at: file)?.count ?? -1)")
        story.append("\(try await bytes(at: created) ?? [])")
        story.append("\(try await bytes(at: RemotePath("published/x")) ?? [])")
        story.append("\(try await read(file, range: 99_999..<200_000)?.bytes(upTo: 9) ?? [])")
        story.append("\(try await bytes(at: RemotePath("directory/absent"))?.count ?? -1)")
        return story
    }
}
