import Foundation
import Operations
import RemoteStorage

@testable import StoreSync

/// What happens to the files of devices besides pushes and pulls of the document.
extension LineageHistory {
    // MARK: Stores

    func move(_ index: Int) throws {
        homes += 1
        let target = fixture.folder.appending(path: "moved-\(homes).store")
        guard hasStore(index) else { return }
        try FileManager.default.moveItem(at: members[index].store, to: target)
        members[index].store = target
        // Where a file system records no times of birth, it isn't recognized.
        members[index].forgetPast()
        log.append("\(index)'s store is moved")
    }

    /// Edits a device's store back to content that it had when it was pushed, but not when it was last pushed.
    func editBack() throws {
        let choices = members.indices.flatMap { index in
            let (pushed, present) = (members[index].pushed, content(index))
            return pushed.filter { $0 != pushed.last && $0 != present }.map { (index, $0) }
        }
        guard let (index, former) = choices.randomElement(using: &generator) else { return }
        try replaceContent(index, with: former)
        members[index].editedBackTo = former
        log.append("\(index) edits its store back to \(former.sorted())")
    }

    /// Copies another device's store over a device's store.
    func copyOther(over index: Int) throws {
        let others = members.indices.filter { $0 != index && hasStore($0) }
        guard hasStore(index), let other = others.randomElement(using: &generator) else { return }
        try replaceContent(index, with: content(other))
        members[index].isCopied = true
        log.append("\(index)'s store is replaced by a copy of \(other)'s")
    }

    /// Gives a store other content, which counts as an edit: the edits that it removes may vanish from all devices.
    private func replaceContent(_ index: Int, with lines: Set<String>) throws {
        removed.formUnion(content(index).subtracting(lines))
        for other in members.indices { members[other].held.subtract(removed) }
        (members[index].editedBackTo, members[index].isCopied) = (nil, false)
        try write(lines, to: members[index].store)
    }

    /// Removes a device's store, and creates one of the same name at another path.
    ///
    /// It has nothing of the document, so it must not replace what other devices have.
    func startOver(_ index: Int) throws {
        guard hasStore(index) else { return }
        homes += 1
        let folder = fixture.folder.appending(path: "new-\(homes)", directoryHint: .isDirectory)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
        let store = members[index].store
        members[index].held.subtract(content(index))
        members[index].store = folder.appending(path: store.lastPathComponent)
        members[index].forgetPast()
        log.append("\(index)'s store is removed, and a new one is created elsewhere:")
        edit(index)
        // Afterwards, so that the new file isn't the same file.
        try FileManager.default.removeItem(at: store)
    }

    /// Pulls another document over a device's store, which then has nothing of this document.
    func pullOther(over index: Int) async throws {
        homes += 1
        let document = try RemoteIdentifier("other-\(homes)")
        let stranger = try fixture.device("stranger").with(document: document)
        try write(["other \(homes)"], to: stranger.store)
        _ = try await stranger.push().value
        let (member, before) = (members[index], content(index))
        let isDone = await succeeds("\(index) pulls \(document) over its store") {
            _ = try await member.device.with(document: document).pull(member.store, overwrite: true).value
        }
        guard isDone else {
            if content(index) != before { violation = "a pull that failed changed the store" }
            return
        }
        members[index].held.subtract(before)
        members[index].forgetPast()
    }

    private func hasStore(_ index: Int) -> Bool { FileManager.default.fileExists(atPath: members[index].store.path) }

    // MARK: Devices

    /// Copies a device's state and store to another machine.
    func clone(_ index: Int) throws {
        guard members.count < 5 else { return }
        try addMember()
        let (copy, original) = (members.count - 1, members[index])
        let state = members[copy].device.state.url
        try FileManager.default.removeItem(at: state)
        try FileManager.default.copyItem(at: original.device.state.url, to: state)
        if hasStore(index) {
            // On another machine it would have the same path. Here it's found by its content, unless that was changed.
            try FileManager.default.copyItem(at: original.store, to: members[copy].store)
        }
        try reopen(copy)
        members[copy].held = original.held.intersection(content(copy))
        log.append("\(copy) is a clone of \(index)")
    }

    /// Deletes a device's memory.
    func forget(_ index: Int) throws {
        try FileManager.default.removeItem(at: members[index].device.state.url)
        try reopen(index)
        members[index].held.formIntersection(content(index))
        members[index].forgetPast()
        log.append("\(index) loses its memory")
    }
}
