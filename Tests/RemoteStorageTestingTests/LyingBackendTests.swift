import OperationsTesting
import RemoteStorage
import RemoteStorageTesting
import Testing

/// A suite that can't fail shows nothing: each lie is found, by the promise that it breaks.
@Suite("A backend that lies", .timeLimit(.minutes(60)))
struct LyingBackendTests {
    /// The promise by which each lie is found; others may find it too.
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
        (.mixesAttempts, .changedResumption),
    ]

    @Test("is found, by the name of the promise that it breaks", arguments: lies)
    func isFound(lie: LyingBackend.Lie, check: BackendCheck) async throws {
        do {
            // In a simulation, so that races come out the same way every time.
            try await Simulation.run(seed: 1) { _ in try await check.run(on: LyingBackend(lie)) }
            Issue.record("\(lie) wasn't found")
        } catch let error as BrokenPromise {
            #expect(error.promise == check.promise)
            #expect(error.description.contains(check.promise) && !error.violation.isEmpty)
        }
    }

    @Test("and does one thing after the other comes to no end, which a simulation says")
    func oneAtATime() async throws {
        await #expect(throws: SimulationError.self) {
            try await Simulation.run(seed: 1, limits: Simulation.Limits(grace: .milliseconds(100))) { _ in
                try await BackendCheck.sideBySide.run(on: LyingBackend(.oneAtATime))
            }
        }
    }

    @Test("in every other way is covered: each lie is one of those above")
    func complete() {
        #expect(Set(Self.lies.map(\.0)).union([.oneAtATime]) == Set(LyingBackend.Lie.allCases))
    }
}
