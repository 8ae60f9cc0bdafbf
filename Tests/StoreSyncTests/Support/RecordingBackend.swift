import Foundation
import RemoteStorage

@testable import StoreSync

/// A storage in memory that overrides the hooks of registration, records every call, and can make a call fail.
actor RecordingBackend: ObservingBackend, ApplicationRegistrationHooks {
    /// A hook of ``ApplicationRegistrationHooks`` that registration calls.
    enum Hook: String, Sendable, CaseIterable {
        case missingParts, saltFileExists, fetchRegistration, fetchDeviceInfo, createRegistration
        case createApplicationDirectoryStructure, saveReadMe, createClientDeviceDirectory, saveDeviceInfo
        case publishApplication
        case fetchSalt, saveSalt, fetchPasswordTest, createPasswordTest
    }

    nonisolated let base: any RemoteBackend
    private(set) var calls: [Hook] = []
    /// How many requests changed something.
    private(set) var changes = 0
    private var failing: Hook?

    nonisolated var identity: String { "recording:" }
    nonisolated var backend: any RemoteBackend { self }
    private var hooks: DefaultHooks { DefaultHooks(backend: self) }

    init(capabilities: RemoteCapabilities = .all) {
        base = InMemoryBackend(capabilities: capabilities)
    }

    /// Makes the next call of a hook fail.
    func failOnce(_ hook: Hook) { failing = hook }

    /// Forgets the recorded calls and changes.
    func forget() { (calls, changes) = ([], 0) }

    private func note(_ hook: Hook) throws {
        calls.append(hook)
        guard failing == hook else { return }
        failing = nil
        throw RemoteError(.unavailable, "\(hook) failed")
    }

    // MARK: Hooks

    func missingParts(_ hierarchy: ApplicationHierarchy) async throws -> Set<RemotePath>? {
        try note(.missingParts)
        return try await hooks.missingParts(hierarchy)
    }

    func saltFileExists(_ hierarchy: ApplicationHierarchy) async throws -> Bool {
        try note(.saltFileExists)
        return try await hooks.saltFileExists(hierarchy)
    }

    func fetchSalt(_ hierarchy: ApplicationHierarchy) async throws -> [UInt8]? {
        try note(.fetchSalt)
        return try await hooks.fetchSalt(hierarchy)
    }

    func saveSalt(_ bytes: [UInt8], _ hierarchy: ApplicationHierarchy) async throws {
        try note(.saveSalt)
        try await hooks.saveSalt(bytes, hierarchy)
    }

    func fetchPasswordTest(_ hierarchy: ApplicationHierarchy) async throws -> [UInt8]? {
        try note(.fetchPasswordTest)
        return try await hooks.fetchPasswordTest(hierarchy)
    }

    func createPasswordTest(_ bytes: [UInt8], _ hierarchy: ApplicationHierarchy) async throws -> Bool {
        try note(.createPasswordTest)
        return try await hooks.createPasswordTest(bytes, hierarchy)
    }

    func fetchRegistration(_ hierarchy: ApplicationHierarchy) async throws -> [UInt8]? {
        try note(.fetchRegistration)
        return try await hooks.fetchRegistration(hierarchy)
    }

    func fetchDeviceInfo(of client: RemoteIdentifier, _ hierarchy: ApplicationHierarchy) async throws -> [UInt8]? {
        try note(.fetchDeviceInfo)
        return try await hooks.fetchDeviceInfo(of: client, hierarchy)
    }

    func createRegistration(_ bytes: [UInt8], _ hierarchy: ApplicationHierarchy) async throws -> Bool {
        try note(.createRegistration)
        return try await hooks.createRegistration(bytes, hierarchy)
    }

    func createApplicationDirectoryStructure(_ hierarchy: ApplicationHierarchy) async throws {
        try note(.createApplicationDirectoryStructure)
        try await hooks.createApplicationDirectoryStructure(hierarchy)
    }

    func saveReadMe(_ text: String, _ hierarchy: ApplicationHierarchy) async throws {
        try note(.saveReadMe)
        try await hooks.saveReadMe(text, hierarchy)
    }

    func createClientDeviceDirectory(_ client: RemoteIdentifier, _ hierarchy: ApplicationHierarchy) async throws {
        try note(.createClientDeviceDirectory)
        try await hooks.createClientDeviceDirectory(client, hierarchy)
    }

    func saveDeviceInfo(
        _ bytes: [UInt8],
        of client: RemoteIdentifier,
        _ hierarchy: ApplicationHierarchy
    ) async throws {
        try note(.saveDeviceInfo)
        try await hooks.saveDeviceInfo(bytes, of: client, hierarchy)
    }

    func publishApplication(stagedAt staged: RemotePath, _ hierarchy: ApplicationHierarchy) async throws -> Bool {
        try note(.publishApplication)
        return try await hooks.publishApplication(stagedAt: staged, hierarchy)
    }

    // MARK: Primitives

    func observe<Answer: Sendable>(
        _ request: ObservedRequest,
        _ send: () async throws -> Answer
    ) async throws -> Answer {
        if request.isChange { changes += 1 }
        return try await send()
    }
}
