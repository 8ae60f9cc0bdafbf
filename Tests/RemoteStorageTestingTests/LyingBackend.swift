import RemoteStorage

/// A storage in memory that breaks one promise.
actor LyingBackend: RemoteBackend {
    /// The ways to break a promise.
    enum Lie: String, Sendable, CaseIterable {
        case writesInTwoSteps, showsUnfinishedFiles, keepsUnfinishedFiles, twoWinners, twoDirectoryWinners
        case ignoresVersions, comparesThenReplaces, keepsTagOfSameSize, listsAThousand, listsTwice, listsWithoutSizes
        case moveOverwrites, moveLeavesSource, rangeOffByOne, rangeIgnored, decodesNames, foldsSpaces, absentIsEmpty
        case removesPrefix, losesLastByte, ignoresCancellation, endsEarlyWhenCancelled, oneAtATime, copyIgnoresCondition
        case forgetsEmptyDirectories, writesOverDirectories, ignoresLength, keepsNothing, keepsTooMuch, mixesAttempts
        case failsFirstWrite, knowsOtherCapabilities, copyingChangesTag, keepsCancelledWrite, showsStagingDirectory
        case copyReplacesDirectory, removesFileOfWrongLength, endsSignals, copiesWaitForWrites, namesTheRoot
    }

    private let base = InMemoryBackend()
    private let lie: Lie
    /// The bytes that all attempts to write a file have sent; at each position, the byte that was sent last.
    private var attempts: [RemotePath: [UInt8]] = [:]
    private var pendingWrites = 0
    private var hasFailed = false
    private var waiting: [CheckedContinuation<Void, Never>] = []

    nonisolated var identity: String { "lying:" }

    init(_ lie: Lie) {
        self.lie = lie
    }

    func capabilities() async throws -> RemoteCapabilities { .all }

    func knownCapabilities() async throws -> RemoteCapabilities? { lie == .knowsOtherCapabilities ? [] : .all }

    func changes(in directory: RemotePath) async -> AsyncStream<Void>? {
        lie == .endsSignals ? AsyncStream { $0.finish() } : nil
    }

    private func name(_ path: RemotePath) throws -> RemotePath {
        switch lie {
        case .decodesNames:
            let decoded = path.description.removingPercentEncodingOnce
            let parts = decoded.split(separator: "/").reduce(into: [String]()) { parts, part in
                if part == ".." { _ = parts.popLast() } else { parts.append(String(part)) }
            }
            return try RemotePath(components: parts)
        case .foldsSpaces:
            return try RemotePath(components: path.components.map { $0.split(separator: " ").joined(separator: " ") })
        default: return path
        }
    }

    func status(of path: RemotePath) async throws -> RemoteItem? {
        var item = try await base.status(of: name(path))
        if lie == .namesTheRoot, path == .root { item?.name = "root" }
        if lie == .keepsTagOfSameSize, item?.tag != nil, let size = item?.size { item?.tag = RemoteTag("\(size)") }
        return item
    }

    func list(_ directory: RemotePath) async throws -> [RemoteItem]? {
        guard var items = try await base.list(name(directory)) else { return lie == .absentIsEmpty ? [] : nil }
        switch lie {
        case .listsAThousand: items = Array(items.prefix(1000))
        case .listsTwice: items += items.suffix(1)
        case .listsWithoutSizes: items = items.map { RemoteItem(name: $0.name, kind: $0.kind, modified: $0.modified) }
        case .forgetsEmptyDirectories:
            var kept: [RemoteItem] = []
            for item in items {
                let isEmpty = try await base.list(directory.appending(item.name), orFile: [item]).isEmpty
                if !isEmpty { kept.append(item) }
            }
            items = kept
        default: break
        }
        return items
    }

    func createDirectory(at path: RemotePath) async throws { try await base.createDirectory(at: name(path)) }

    func read(_ path: RemotePath, range: Range<Int64>?) async throws -> RemoteContent? {
        var range = range
        if lie == .rangeIgnored { range = nil }
        if lie == .rangeOffByOne, let asked = range, asked.upperBound < .max {
            range = asked.lowerBound..<asked.upperBound + 1
        }
        guard let content = try await base.read(name(path), range: range) else { return nil }
        guard lie == .endsEarlyWhenCancelled else { return content }
        let bytes = try await content.bytes(upTo: 1 << 26)
        return RemoteContent(length: content.length) {
            var rest = bytes[...]
            return {
                guard !Task.isCancelled, !rest.isEmpty else { return nil }
                defer { rest = rest.dropFirst(1 << 16) }
                return Array(rest.prefix(1 << 16))
            }
        }
    }

    @discardableResult
    func write(
        _ content: RemoteContent,
        to path: RemotePath,
        when condition: WriteCondition
    ) async throws -> RemoteItem {
        let path = try name(path)
        switch lie {
        case .writesInTwoSteps:
            let bytes = try await content.bytes(upTo: 1 << 26)
            try await base.write(Array(bytes.prefix(bytes.count / 2)), to: path, when: condition)
            for _ in 0..<3 { await Task.yield() }
            return try await base.write(content, to: path, when: .always)
        case .showsUnfinishedFiles, .keepsUnfinishedFiles:
            return try await writePiecemeal(content, to: path, when: condition)
        case .twoWinners where condition == .ifAbsent:
            try condition.verify(await base.status(of: path), path)
            let bytes = try await content.bytes(upTo: 1 << 26)
            return try await base.write(bytes, to: path, when: .always)
        case .ignoresVersions:
            return try await base.write(content, to: path, when: condition == .ifAbsent ? .ifAbsent : .always)
        case .comparesThenReplaces where condition != .ifAbsent:
            try condition.verify(await base.status(of: path), path)
            let bytes = try await content.bytes(upTo: 1 << 26)
            return try await base.write(bytes, to: path, when: .always)
        case .losesLastByte:
            let bytes = try await content.bytes(upTo: 1 << 26)
            return try await base.write(Array(bytes.prefix(max(bytes.count - 1, 1))), to: path, when: condition)
        case .ignoresCancellation:
            let base = base
            return try await Task { try await base.write(content, to: path, when: condition) }.value
        case .oneAtATime:
            await waitForWrites()
            return try await writeAlone(content, to: path, when: condition)
        case .copiesWaitForWrites:
            return try await writeAlone(content, to: path, when: condition)
        case .showsStagingDirectory:
            let staging = try RemotePath("staging")
            try await base.createDirectory(at: staging)
            let item = try await base.write(content, to: path, when: condition)
            try await base.remove(staging)
            return item
        case .removesFileOfWrongLength:
            do {
                return try await base.write(content, to: path, when: condition)
            } catch let error as RemoteError where error.code == .wrongLength {
                try await base.remove(path)
                throw error
            }
        case .failsFirstWrite where !hasFailed:
            hasFailed = true
            throw RemoteError(.unavailable, "The storage has no time for “\(path)”. Try again.", path: path)
        case .writesOverDirectories:
            if try await base.status(of: path)?.kind == .directory { try await base.remove(path) }
            return try await base.write(content, to: path, when: condition)
        case .ignoresLength:
            let chunks = RemoteContent(length: nil) { content.chunks() }
            return try await base.write(chunks, to: path, when: condition)
        default:
            return try await base.write(content, to: path, when: condition)
        }
    }

    private func waitForWrites() async {
        while pendingWrites > 0 { await withCheckedContinuation { waiting.append($0) } }
    }

    private func writeAlone(
        _ content: RemoteContent,
        to path: RemotePath,
        when condition: WriteCondition
    ) async throws -> RemoteItem {
        pendingWrites += 1
        defer {
            pendingWrites -= 1
            if !waiting.isEmpty { waiting.removeFirst().resume() }
        }
        return try await base.write(content, to: path, when: condition)
    }

    private func writePiecemeal(
        _ content: RemoteContent,
        to path: RemotePath,
        when condition: WriteCondition
    ) async throws -> RemoteItem {
        try condition.verify(await base.status(of: path), path)
        var bytes: [UInt8] = []
        for try await chunk in content {
            bytes += chunk
            if lie == .showsUnfinishedFiles || path.lastComponent == "file" {
                try await base.write(bytes, to: path, when: .always)
            }
        }
        return try await base.write(bytes, to: path, when: .always)
    }

    func copy(_ source: RemotePath, to destination: RemotePath, when condition: WriteCondition) async throws {
        let condition = lie == .copyIgnoresCondition ? .always : condition
        if lie == .copiesWaitForWrites { await waitForWrites() }
        if lie == .copyReplacesDirectory, try await base.status(of: destination)?.kind == .directory {
            try await base.remove(destination)
        }
        try await base.copy(name(source), to: name(destination), when: condition)
        if lie == .copyingChangesTag, let bytes = try await base.smallFile(source) {
            try await base.write(bytes, to: source, when: .always)
        }
    }

    func move(_ source: RemotePath, to destination: RemotePath) async throws {
        switch lie {
        case .moveOverwrites where source != destination:
            try await base.remove(destination)
        case .moveLeavesSource:
            if let bytes = try await source == .root ? nil : base.smallFile(source) {
                try await base.move(source, to: destination)
                try await base.write(bytes, to: source, when: .always)
                return
            }
        case .twoDirectoryWinners:
            if try await base.list(destination)?.first?.name == "x" { return }
        default: break
        }
        try await base.move(name(source), to: name(destination))
    }

    func resumeWrite(
        to path: RemotePath,
        when condition: WriteCondition,
        receipts: any WriteReceipts,
        _ rest: @Sendable (_ keptBytes: Int64) async throws -> RemoteContentRest
    ) async throws -> RemoteItem {
        guard lie != .mixesAttempts, lie != .keepsCancelledWrite else {
            return try await resumeMixed(path, condition, rest)
        }
        return try await base.resumeWrite(to: name(path), when: condition, receipts: receipts) { [lie] kept in
            switch lie {
            case .keepsNothing: return try await rest(0)
            case .keepsTooMuch:
                let rest = try await rest(kept)
                return RemoteContentRest(rest.content, after: max(rest.offset - 1, 0))
            default: return try await rest(kept)
            }
        }
    }

    private func resumeMixed(
        _ path: RemotePath,
        _ condition: WriteCondition,
        _ rest: @Sendable (_ keptBytes: Int64) async throws -> RemoteContentRest
    ) async throws -> RemoteItem {
        let former = attempts[path] ?? []
        let rest = try await rest(Int64(former.count))
        var bytes = Array(former.prefix(Int(rest.offset)))
        do {
            for try await chunk in rest.content { bytes += chunk }
            return try await base.write(bytes, to: path, when: condition)
        } catch {
            attempts[path] = bytes + former.dropFirst(bytes.count)
            throw error
        }
    }

    func remove(_ path: RemotePath) async throws {
        if lie == .removesPrefix, let parent = path.parent, let name = path.lastComponent {
            for item in try await base.list(parent) ?? [] where item.name.hasPrefix(name) {
                try await base.remove(parent.appending(item.name))
            }
            return
        }
        try await base.remove(name(path))
    }
}

extension WriteCondition {
    /// Checks the condition, which a backend of another module has to implement itself.
    fileprivate func verify(_ item: RemoteItem?, _ path: RemotePath) throws {
        switch self {
        case .always: return
        case .ifAbsent: if item != nil { throw RemoteError.alreadyExists(path) }
        case .ifMatches(let tag): if item?.tag != tag { throw RemoteError.preconditionFailed(path) }
        }
    }
}

extension RemoteBackend {
    fileprivate func list(_ path: RemotePath, orFile file: [RemoteItem]) async throws -> [RemoteItem] {
        file.first?.kind == .file ? file : try await list(path) ?? []
    }

    fileprivate func smallFile(_ path: RemotePath) async throws -> [UInt8]? {
        try await status(of: path)?.kind == .file ? bytes(at: path) : nil
    }
}

extension RemoteContent {
    fileprivate func chunks() -> () async throws -> [UInt8]? {
        var iterator = makeAsyncIterator()
        return { try await iterator.next() }
    }
}

extension String {
    fileprivate var removingPercentEncodingOnce: String {
        var bytes: [UInt8] = []
        var rest = Array(utf8)[...]
        while let byte = rest.popFirst() {
            let digits = String(decoding: rest.prefix(2), as: UTF8.self)
            if byte == UInt8(ascii: "%"), digits.count == 2, let value = UInt8(digits, radix: 16), value != 0 {
                bytes.append(value)
                rest = rest.dropFirst(2)
            } else {
                bytes.append(byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
