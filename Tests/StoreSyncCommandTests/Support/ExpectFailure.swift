import Testing

/// Expects that a command has failed with a status and an error code.
func expectFailure(
    _ result: CommandResult,
    _ status: Int32,
    _ code: String,
    sourceLocation: SourceLocation = #_sourceLocation
) throws {
    #expect(result.status == status, "\(result)", sourceLocation: sourceLocation)
    #expect(try result.errorCode() == code, sourceLocation: sourceLocation)
}
