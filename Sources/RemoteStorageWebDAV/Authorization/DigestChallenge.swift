import ByteCoding
import Crypto
import Foundation

/// A server's challenge to prove knowledge of a password without sending it.
///
/// RFC 7616, and its predecessor RFC 2617.
struct DigestChallenge: Sendable {
    enum Algorithm: String, CaseIterable, Sendable {
        case md5 = "MD5"
        case md5Session = "MD5-sess"
        case sha256 = "SHA-256"
        case sha256Session = "SHA-256-sess"

        var isSession: Bool { self == .md5Session || self == .sha256Session }

        func hash(_ text: String) -> String {
            let bytes = Array(text.utf8)
            return switch self {
            case .md5, .md5Session: Insecure.MD5.hash(data: bytes).hexadecimal
            case .sha256, .sha256Session: SHA256.hash(data: bytes).hexadecimal
            }
        }
    }

    var realm: String
    var nonce: String
    var opaque: String?
    var algorithm: Algorithm
    var usesQuality: Bool
    var isStale: Bool

    /// Reads a challenge.
    ///
    /// Returns `nil` for a challenge of another kind, and for a digest that can't be answered.
    init?(_ challenge: AuthenticationChallenge) {
        guard challenge.scheme == "digest", let nonce = challenge.parameters["nonce"] else { return nil }
        let name = challenge.parameters["algorithm"] ?? Algorithm.md5.rawValue
        guard let algorithm = Algorithm.allCases.first(where: { $0.rawValue.lowercased() == name.lowercased() }) else {
            return nil
        }
        let qualities = challenge.parameters["qop"].map {
            $0.split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces).lowercased() }
        }
        if let qualities, !qualities.contains("auth") { return nil }
        realm = challenge.parameters["realm"] ?? ""
        self.nonce = nonce
        opaque = challenge.parameters["opaque"]
        self.algorithm = algorithm
        usesQuality = qualities != nil
        isStale = challenge.parameters["stale"]?.lowercased() == "true"
    }

    /// Answers the challenge for one request.
    ///
    /// - Parameters:
    ///   - credentials: The user's credentials.
    ///   - method: The request's method.
    ///   - target: The request's path, in the form that is sent.
    ///   - count: The number of requests with this nonce, this one included.
    ///   - clientNonce: Random characters.
    /// - Returns: The value of the `Authorization` header.
    func authorization(
        _ credentials: WebDAVCredentials,
        method: String,
        target: String,
        count: UInt32,
        clientNonce: String
    ) -> String {
        var secret = algorithm.hash("\(credentials.user):\(realm):\(credentials.password)")
        if algorithm.isSession { secret = algorithm.hash("\(secret):\(nonce):\(clientNonce)") }
        let request = algorithm.hash("\(method):\(target)")
        let counter = count.littleEndianBytes.reversed().hexadecimal
        let response = algorithm.hash(
            usesQuality
                ? "\(secret):\(nonce):\(counter):\(clientNonce):auth:\(request)" : "\(secret):\(nonce):\(request)"
        )
        var fields = [
            "username=\"\(quoted(credentials.user))\"", "realm=\"\(quoted(realm))\"", "nonce=\"\(quoted(nonce))\"",
            "uri=\"\(quoted(target))\"", "response=\"\(response)\"", "algorithm=\(algorithm.rawValue)",
        ]
        if let opaque { fields.append("opaque=\"\(quoted(opaque))\"") }
        if usesQuality { fields += ["qop=auth", "nc=\(counter)", "cnonce=\"\(clientNonce)\""] }
        return "Digest " + fields.joined(separator: ", ")
    }

    private func quoted(_ text: String) -> String {
        text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"")
    }
}

/// One challenge of a `WWW-Authenticate` header.
struct AuthenticationChallenge: Sendable {
    /// The scheme, in lower case.
    var scheme: String
    /// The parameters, by their names in lower case.
    var parameters: [String: String] = [:]

    /// Reads the challenges in a header's values, each of which may contain several.
    static func read(_ values: [String]) -> [AuthenticationChallenge] {
        values.flatMap { value in
            var challenges: [AuthenticationChallenge] = []
            var scanner = Scanner(rest: Substring(value))
            while let word = scanner.word() {
                if !scanner.takeEquals() {
                    challenges.append(AuthenticationChallenge(scheme: word.lowercased()))
                } else if let last = challenges.indices.last {
                    challenges[last].parameters[word.lowercased()] = scanner.value()
                }
            }
            return challenges
        }
    }

    private struct Scanner {
        var rest: Substring

        mutating func word() -> String? {
            // An equals sign starts no word.
            rest = rest.drop { $0 == "," || $0 == "=" || $0.isWhitespace }
            let word = rest.prefix { $0 != "," && $0 != "=" && !$0.isWhitespace }
            rest = rest.dropFirst(word.count)
            return word.isEmpty ? nil : String(word)
        }

        mutating func takeEquals() -> Bool {
            let after = rest.drop { $0 == " " || $0 == "\t" }
            guard after.first == "=" else { return false }
            rest = after.dropFirst().drop { $0 == " " || $0 == "\t" }
            return true
        }

        mutating func value() -> String {
            guard rest.first == "\"" else {
                let token = rest.prefix { $0 != "," && !$0.isWhitespace }
                rest = rest.dropFirst(token.count)
                return String(token)
            }
            rest = rest.dropFirst()
            var value = ""
            while let character = rest.popFirst(), character != "\"" {
                if character == "\\", let escaped = rest.popFirst() {
                    value.append(escaped)
                } else {
                    value.append(character)
                }
            }
            return value
        }
    }
}
