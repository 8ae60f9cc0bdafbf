import StoreSync

/// A file that a list couldn't read, as JSON.
struct UnreadableFile: Encodable {
    let path: String
    let code: String
    let message: String

    init(_ file: ApplicationStatus.Unreadable) {
        path = file.path
        code = "\(file.code)"
        message = file.message
    }
}

extension Report {
    /// Prints a warning for each file that couldn't be read; JSON holds them already.
    func warnings(about files: [ApplicationStatus.Unreadable]) {
        guard !isJSON else { return }
        for file in files { warning("\(file.message) [\(file.code)]") }
    }
}
