import Testing

/// The tests that start servers; they run one after the other, because each server is several processes.
@Suite("WebDAV", .serialized, .timeLimit(.minutes(60)))
enum WebDAVTests {}
