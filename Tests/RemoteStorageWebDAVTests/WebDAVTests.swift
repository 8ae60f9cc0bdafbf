import Testing

/// The tests of a share on real servers, which the suites share.
@Suite("WebDAV", .timeLimit(.minutes(60)))
enum WebDAVTests {}
