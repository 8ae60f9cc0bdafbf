import Testing

@testable import StoreSync

@Suite("The decisions of a setup")
struct PasscodeSetupMachineTests {
    private static func machine(_ finding: PasscodeExamination.Finding, _ registration: [UInt8]? = nil) throws
        -> PasscodeSetupMachine
    {
        var machine = PasscodeSetupMachine()
        let number = try machine.beginExamination()
        machine.examined(PasscodeExamination(finding: finding, registration: registration), number: number)
        return machine
    }

    private static func failure(_ body: () throws -> Void) -> StoreSyncError.Code? {
        do {
            try body()
            return nil
        } catch {
            return (error as? StoreSyncError)?.code
        }
    }

    @Test("B5–B8: The content of the remote decides which passcode is required")
    func findings() throws {
        let expected: [(PasscodeExamination.Finding, String)] = [
            (.nothing, "syncRequired, new"), (.missing, "syncRequired, none"), (.existing, "syncRequired, existing"),
            (.current, "ongoing, existing"),
        ]
        for (finding, words) in expected { #expect(try Self.machine(finding).status.description == words) }
    }

    @Test("B6, B9: A passcode is accepted only if one is required and its purpose is known, and never twice")
    func whoMayStart() throws {
        let allowed: [PasscodeExamination.Finding: [SyncStartMessage.Action]] = [
            .nothing: [.new, .existing], .missing: [.new], .existing: [.new, .existing], .current: [.new],
        ]
        for (finding, actions) in allowed {
            for action in SyncStartMessage.Action.allCases {
                var machine = try Self.machine(finding)
                let before = machine.status.description
                let refusal = Self.failure { try machine.start(action) }
                #expect(refusal == (actions.contains(action) ? nil : .notExpected), "\(finding), \(action)")
                guard refusal == nil else {
                    #expect(machine.status.description == before)
                    continue
                }
                #expect(machine.status.setupState == .syncStarted)
                #expect(Self.failure { try machine.start(action) } == .notExpected)
                #expect(Self.failure { try machine.beginExamination() } == .notExpected)
            }
        }
        var fresh = PasscodeSetupMachine()
        for action in SyncStartMessage.Action.allCases {
            #expect(Self.failure { try fresh.start(action) } == .notExpected)
        }
        try fresh.beginExamination()
        #expect(Self.failure { try fresh.start(.existing) } == .notExpected)
    }

    @Test("B11: A decision applies to the application that was found, and to no other that appeared since")
    func decisions() throws {
        let cases: [(PasscodeExamination.Finding, [UInt8]?, PasscodeExamination.Finding, [UInt8]?, Bool)] = [
            (.nothing, nil, .nothing, nil, true), (.nothing, nil, .existing, [1], false),
            (.existing, [1], .existing, [1], true), (.existing, [1], .existing, [2], false),
            (.existing, [1], .nothing, nil, false), (.existing, nil, .existing, [1], false),
            (.current, [1], .current, [1], true), (.current, [1], .existing, [1], true),
            (.current, [1], .existing, [2], false), (.missing, nil, .missing, nil, true),
            (.missing, nil, .existing, [1], false),
        ]
        for (seen, registration, found, now, holds) in cases {
            var machine = try Self.machine(seen, registration)
            try machine.start(.new)
            let refusal = Self.failure {
                try machine.examined(PasscodeExamination(finding: found, registration: now), for: .new)
            }
            #expect(refusal == (holds ? nil : .applicationChanged), "\(seen) \(found)")
            // The next decision applies to the application that exists now.
            machine.failed(nil, now: nil)
            guard machine.status.syncPasscodeState != .none else { continue }
            try machine.start(.new)
            try machine.examined(PasscodeExamination(finding: found, registration: now), for: .new)
        }
    }

    @Test("B12: A deregistration counts on a device that is set up, and is ignored while an attempt is in progress")
    func deregistration() throws {
        let error = StoreSyncError.deregistered("for a test")
        var machine = try Self.machine(.current, [1])
        machine.deregistered(error)
        #expect(machine.status.description == "syncRequired, existing, deregistered")
        let number = try machine.beginExamination()
        try machine.start(.existing)
        machine.deregistered(error)
        #expect(machine.status.description == "syncStarted, existing")
        // The result of an examination that was in progress is ignored.
        machine.examined(PasscodeExamination(finding: .nothing), number: number)
        #expect(machine.status.description == "syncStarted, existing")
        machine.succeeded()
        machine.examined(PasscodeExamination(finding: .existing), number: number)
        #expect(machine.status.description == "ongoing, existing")
        // Without another examination, starting over replaces the application of this device, and no other.
        try machine.start(.new)
        let other = PasscodeExamination(finding: .existing, registration: [2])
        #expect(Self.failure { try machine.examined(other, for: .new) } == .applicationChanged)
    }

    @Test(
        "B6: The result of an examination during which an attempt failed doesn't count, and that of the next one does"
    )
    func repeatedExamination() throws {
        let down = StoreSyncError(.remoteUnavailable, "for a test")
        var machine = try Self.machine(.missing)
        // The storage can't be reached, and the examination is retried. Meanwhile the user chooses new data, which fails too.
        let number = try machine.beginExamination()
        machine.examinationFailed(down)
        try machine.start(.new)
        machine.failed(StoreSyncError(.busy, "for a test"), now: nil)
        machine.examinationFailed(down)
        let found = PasscodeExamination(finding: .existing, registration: [1])
        var counts = machine.examined(found, number: number)
        #expect(!counts)
        #expect(machine.status.description == "syncRequired, none, remoteUnavailable")
        let next = try machine.beginExamination()
        counts = machine.examined(found, number: next)
        #expect(counts)
        #expect(machine.status.description == "syncRequired, existing, busy", "why the attempt failed")
        machine.forgetAttempt()
        machine.examined(found, number: try machine.beginExamination())
        #expect(machine.status.description == "syncRequired, existing")
        try machine.start(.existing)
    }

    @Test("B14: An attempt that failed before it found anything is repeated with the same decision")
    func repeatedStart() throws {
        var machine = try Self.machine(.existing, [1])
        try machine.start(.existing)
        machine.succeeded()
        for _ in 1...3 {
            try machine.start(.new)
            machine.failed(StoreSyncError(.remoteUnavailable, "for a test"), now: nil)
        }
        try machine.start(.new)
        try machine.examined(PasscodeExamination(finding: .current, registration: [1]), for: .new)
        machine.succeeded()
        // After a deregistration, the application on the remote is another one.
        try machine.start(.new)
        machine.failed(nil, now: nil)
        try machine.start(.new)
        machine.succeeded()
        machine.deregistered(StoreSyncError.deregistered("for a test"))
        try machine.start(.new)
        let found = PasscodeExamination(finding: .current, registration: [2])
        #expect(Self.failure { try machine.examined(found, for: .new) } == .applicationChanged)
    }
}
