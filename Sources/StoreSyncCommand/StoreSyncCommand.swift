import ArgumentParser

@main
struct StoreSyncCommand: AsyncParsableCommand {
    mutating func run() async throws {}
}
