import StoreSync

/// What is wrong with a file on the remote, as JSON.
struct FileProblem: Encodable {
    let path: String
    let code: String
    let message: String

    init(_ file: ApplicationStatus.Unreadable) {
        path = file.path
        code = "\(file.code)"
        message = file.message
    }

    init(_ problem: VerificationReport.Problem) {
        path = problem.path
        code = problem.code
        message = problem.message
    }
}

extension Report {
    /// Prints a warning for each file that couldn't be read; JSON holds them already.
    func warnings(about files: [ApplicationStatus.Unreadable]) {
        guard !isJSON else { return }
        for file in files { warning("\(file.message) [\(file.code)]") }
    }
}
