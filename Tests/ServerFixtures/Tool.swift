package import Foundation

/// Runs a tool until it exits.
package func run(_ tool: String, _ arguments: [String]) async throws {
    let process = Process()
    process.executableURL = URL(filePath: tool)
    process.arguments = arguments
    process.standardOutput = FileHandle.nullDevice
    process.standardError = FileHandle.nullDevice
    let status = try await withCheckedThrowingContinuation { continuation in
        process.terminationHandler = { continuation.resume(returning: $0.terminationStatus) }
        do {
            try process.run()
        } catch {
            continuation.resume(throwing: error)
        }
    }
    guard status == 0 else { throw ToolFailure(command: "\(tool) \(arguments)") }
}

private struct ToolFailure: Error {
    var command: String
}

/// Creates a certificate for `localhost`, `certificate.pem`, and its key, `key.pem`, in a folder.
package func makeCertificate(in folder: URL) async throws {
    try await run(
        "/usr/bin/openssl",
        [
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost",
            "-addext", "subjectAltName=DNS:localhost", "-days", "2", "-keyout", folder.appending(path: "key.pem").path,
            "-out", folder.appending(path: "certificate.pem").path,
        ]
    )
}
