import ByteCoding
import Crypto
import Foundation

/// AWS Signature Version 4 in a request's headers, as Amazon documents it for S3.
struct SignatureV4: Sendable {
    /// The SHA-256 of an empty payload.
    static let emptyPayload = SHA256.hash(data: [UInt8]()).hexadecimal

    let credentials: S3Credentials
    let region: String
    var service = "s3"

    /// Signs a request.
    ///
    /// - Parameters:
    ///   - method: The request's method.
    ///   - target: Its path and query as they are sent: percent-encoded, the parameters sorted by name, each with an equals
    ///     sign.
    ///   - headers: The headers to sign, including `Host` and `X-Amz-Date`.
    ///   - payload: The SHA-256 of the payload, in hexadecimal.
    ///   - date: The time of the request.
    /// - Returns: The value of the `Authorization` header.
    func authorization(
        method: String,
        target: String,
        headers: [(name: String, value: String)],
        payload: String,
        date: SigningDate
    ) -> String {
        let parts = target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let signed = headers.map { ($0.name.lowercased(), canonical($0.value)) }.sorted { $0.0 < $1.0 }
        let names = signed.map(\.0).joined(separator: ";")
        let lines =
            [method, String(parts[0]), parts.count > 1 ? String(parts[1]) : ""] + signed.map { "\($0.0):\($0.1)" }
            + ["", names, payload]
        let scope = "\(date.day)/\(region)/\(service)/aws4_request"
        let request = SHA256.hash(data: Array(lines.joined(separator: "\n").utf8)).hexadecimal
        let signature = code("AWS4-HMAC-SHA256\n\(date.time)\n\(scope)\n\(request)", key: key(for: date.day))
        return "AWS4-HMAC-SHA256 Credential=\(credentials.accessKeyID)/\(scope), SignedHeaders=\(names), "
            + "Signature=\(signature.hexadecimal)"
    }

    private func key(for day: String) -> [UInt8] {
        [day, region, service, "aws4_request"].reduce(Array("AWS4\(credentials.secretAccessKey)".utf8)) { key, text in
            code(text, key: key)
        }
    }

    private func code(_ text: String, key: [UInt8]) -> [UInt8] {
        Array(HMAC<SHA256>.authenticationCode(for: Array(text.utf8), using: SymmetricKey(data: key)))
    }

    /// A header's value without surrounding spaces, and with a single space instead of several.
    private func canonical(_ value: String) -> String {
        value.split { $0 == " " || $0 == "\t" }.joined(separator: " ")
    }
}

/// A time as signatures write it, in UTC.
struct SigningDate: Sendable {
    /// The day: `20130524`.
    let day: String
    /// The second: `20130524T000000Z`.
    let time: String

    init(_ date: Date) {
        let text = date.formatted(.iso8601.dateSeparator(.omitted).timeSeparator(.omitted))
        day = String(text.prefix(8))
        time = text
    }
}
