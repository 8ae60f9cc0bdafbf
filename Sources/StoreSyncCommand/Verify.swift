import ArgumentParser
import Foundation
import Operations
import StoreSync

/// `storesync verify`: reads every file and reports problems.
struct Verify: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify",
        abstract: "Reads and checks every file of the application. Registers no client."
    )

    @Flag(help: "Finish what this device left unfinished, and remove what it left behind.")
    var repair = false

    @OptionGroup var options: CommonOptions

    private struct Result: Encodable {
        var command = "verify"
        let files: Int
        let bytes: Int64
        let problems: [FileProblem]
        let warnings: [String]
        let repaired: [String]
    }

    func run() async throws {
        try await Session.run(options.output) { interruption in
            let session = try await Session(options, interruption: interruption)
            let report = try await session.value(of: session.manager.verify(repairs: repair))
            try session.report.result(
                Result(
                    files: report.files,
                    bytes: report.bytes,
                    problems: report.problems.map(FileProblem.init),
                    warnings: report.warnings,
                    repaired: report.repaired
                ),
                lines: lines(report)
            )
            if options.output.quiet, !options.output.json {
                for problem in report.problems { Report.standardError(line(problem)) }
            }
            guard report.problems.isEmpty else { throw ExitCode(EX_DATAERR) }
        }
    }

    private func lines(_ report: VerificationReport) -> [String] {
        report.problems.map(line)
            + report.warnings.map { "warning: \($0)" }
            + report.repaired.map { "repaired: \($0)" }
            + [summary(report)]
    }

    private func line(_ problem: VerificationReport.Problem) -> String {
        "\(problem.path): \(problem.message) [\(problem.code)]"
    }

    private func summary(_ report: VerificationReport) -> String {
        let (files, problems) = (report.files.of("file"), report.problems.count.of("problem"))
        return "\(files), \(report.bytes.byteCount) checked, \(problems)."
    }
}
