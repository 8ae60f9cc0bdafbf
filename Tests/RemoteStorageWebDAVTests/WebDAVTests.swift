import Testing

/// What starts servers: one after the other, since each is several processes.
@Suite("WebDAV", .serialized, .timeLimit(.minutes(60)))
enum WebDAVTests {}
