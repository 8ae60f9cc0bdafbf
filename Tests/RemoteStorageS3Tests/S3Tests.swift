import Testing

/// The tests that start servers, one after the other, since each server is several processes.
@Suite("S3", .serialized, .timeLimit(.minutes(60)))
enum S3Tests {}
