import ArgumentParser
import Foundation
import RemoteStorage
import StoreSync

/// `storesync vacuum`: shortens the log of a document whose devices merge records.
struct VacuumCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "vacuum",
        abstract: "Shortens the log of a document that is synchronized record by record.",
        discussion: """
            Uploads the store with which a device begins that joins later. Removes this device's edits that the two newest \
            such stores contain, once every device has seen them. A long log is shortened by itself, too.
            """
    )

    @Option(help: ArgumentHelp("The document's identifier.", valueName: "id"))
    var document: String

    @OptionGroup var options: CommonOptions

    private struct Result: Encodable {
        struct Removed: Encodable {
            let files: Int
            let bytes: Int64
        }

        var command = "vacuum"
        let application: String
        let client: String
        let document: String
        /// The size of the new baseline's files on the remote; 0 if none was needed.
        let baseline: Int64
        let removed: Removed
        let keptFor: [String]
        let warnings: [String]
        let seconds: Double
    }

    func run() async throws {
        try await Session.run(options.output) { interruption in
            let start = ContinuousClock.now
            let document = try RemoteIdentifier(document)
            let session = try await Session(options, interruption: interruption)
            let vacuum = try await session.value(of: session.manager.document(document).vacuum())
            try session.report.result(
                Result(
                    application: session.manager.application.rawValue,
                    client: vacuum.client.rawValue,
                    document: document.rawValue,
                    baseline: vacuum.baselineBytes,
                    removed: Result.Removed(files: vacuum.removedFiles, bytes: vacuum.removedBytes),
                    keptFor: vacuum.keptFor.map(\.rawValue),
                    warnings: vacuum.warnings,
                    seconds: (ContinuousClock.now - start) / .seconds(1)
                ),
                lines: lines(vacuum)
            )
            for warning in vacuum.warnings { session.report.warning(warning) }
        }
    }

    private func lines(_ vacuum: Vacuum) -> [String] {
        var lines = [
            vacuum.isBaselineWritten
                ? "Devices that join \(document) begin with the store as it is now (\(vacuum.baselineBytes.byteCount))."
                : "Devices that join \(document) begin with the store as it is already.",
            "Removed \(vacuum.removedFiles.of("file")) of the log, \(vacuum.removedBytes.byteCount).",
        ]
        if !vacuum.keptFor.isEmpty {
            let clients = vacuum.keptFor.map(\.rawValue).joined(separator: ", ")
            lines.append(
                "Kept what \(clients) hasn't seen. If such a device is gone: storesync remove client CLIENT."
            )
        }
        return lines
    }
}
