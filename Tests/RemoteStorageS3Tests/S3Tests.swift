import Testing

/// What starts servers: one after the other, since each is several processes.
@Suite("S3", .serialized, .timeLimit(.minutes(60)))
enum S3Tests {}
