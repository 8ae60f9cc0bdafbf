import Testing

/// The tests of a bucket on real servers, which the suites share.
@Suite("S3", .timeLimit(.minutes(60)))
enum S3Tests {}
