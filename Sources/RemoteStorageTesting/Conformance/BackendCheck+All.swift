extension BackendCheck {
    /// Every promise: the conformance suite.
    public static let all: [BackendCheck] = [
        steadyCapabilities, roundTrip, contentShapes, wrongLength, ranges, absence, conditions, conditionalReplace,
        wrongKinds, oneVersion, contentTags, changeSignals, resumption, changedResumption,
        plainNames, dottedNames, unicodeNames, oddNames, insideTheRoot,
        listing, longListing, copying, moving, movingExclusively, removing,
        unfinishedWrites, failingContent, cancelledWrite, cancelledReading, cancelledTask, concurrentRequests,
        exclusiveCreate, exclusiveDirectoryMove, atomicReplace, racingDirectories,
    ]
}
