import Testing

/// The command as scripts see it: the built program, run as a process.
@Suite("The storesync command", .timeLimit(.minutes(60)))
enum CommandTests {}
