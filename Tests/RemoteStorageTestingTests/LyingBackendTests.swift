import OperationsTesting
import RemoteStorage
import RemoteStorageTesting
import Testing

/// A conformance suite that can't fail proves nothing: each broken promise must be found by its check.
@Suite("A backend that breaks a promise", .timeLimit(.minutes(60)))
struct LyingBackendTests {
    /// The check that finds each lie; other checks may find it, too.
    static let lies: [(LyingBackend.Lie, BackendCheck)] = [
        (.writesInTwoSteps, .atomicReplace), (.showsUnfinishedFiles, .unfinishedWrites),
        (.keepsUnfinishedFiles, .failingContent), (.twoWinners, .exclusiveCreate),
        (.twoDirectoryWinners, .exclusiveDirectoryMove), (.ignoresVersions, .conditionalReplace),
        (.comparesThenReplaces, .conditionalReplace), (.keepsTagOfSameSize, .conditionalReplace),
        (.listsAThousand, .longListing), (.listsTwice, .listing), (.listsWithoutSizes, .listing),
        (.moveOverwrites, .movingExclusively), (.moveLeavesSource, .moving), (.rangeOffByOne, .ranges),
        (.rangeIgnored, .ranges), (.decodesNames, .plainNames), (.decodesNames, .insideTheRoot),
        (.foldsSpaces, .plainNames), (.absentIsEmpty, .absence), (.removesPrefix, .removing),
        (.losesLastByte, .roundTrip), (.ignoresCancellation, .cancelledTask),
        (.endsEarlyWhenCancelled, .cancelledReading), (.copyIgnoresCondition, .copying),
        (.forgetsEmptyDirectories, .listing), (.writesOverDirectories, .wrongKinds), (.ignoresLength, .wrongLength),
        (.keepsNothing, .resumption), (.keepsTooMuch, .resumption),
        (.mixesAttempts, .changedResumption), (.failsFirstWrite, .concurrentRequests),
        (.failsFirstWrite, .exclusiveCreate),
        (.failsFirstWrite, .cancelledWrite), (.knowsOtherCapabilities, .steadyCapabilities),
        (.copyingChangesTag, .contentTags), (.keepsCancelledWrite, .cancelledWrite),
        (.showsStagingDirectory, .unfinishedWrites), (.showsStagingDirectory, .failingContent),
        (.copyReplacesDirectory, .wrongKinds), (.removesFileOfWrongLength, .wrongLength),
        (.endsSignals, .changeSignals), (.namesTheRoot, .absence),
    ]

    @Test("A backend that breaks a promise fails the check of that promise", arguments: lies)
    func isFound(lie: LyingBackend.Lie, check: BackendCheck) async throws {
        do {
            // In a simulation, so that races have the same outcome every time.
            try await Simulation.run(seed: 1) { _ in try await check.run(on: LyingBackend(lie)) }
            Issue.record("\(lie) wasn't found")
        } catch let error as BrokenPromise {
            #expect(error.promise == check.promise)
            #expect(error.description.contains(check.promise) && !error.violation.isEmpty)
        }
    }

    @Test(
        "The simulation reports that a backend which serializes its requests never finishes the check",
        arguments: [LyingBackend.Lie.oneAtATime, .copiesWaitForWrites]
    )
    func oneAtATime(lie: LyingBackend.Lie) async throws {
        await #expect(throws: SimulationError.self) {
            try await Simulation.run(seed: 1, limits: Simulation.Limits(grace: .milliseconds(100))) { _ in
                try await BackendCheck.concurrentRequests.run(on: LyingBackend(lie))
            }
        }
    }

    @Test("Every lie of the lying backend has a check that finds it")
    func complete() {
        #expect(Set(Self.lies.map(\.0)).union([.oneAtATime, .copiesWaitForWrites]) == Set(LyingBackend.Lie.allCases))
    }
}
