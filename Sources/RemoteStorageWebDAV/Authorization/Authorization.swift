import Foundation
import NIOHTTP1
import RemoteStorage
import RemoteStorageHTTP
import ThreadSupport

/// The authentication scheme of a user, which the server's first challenge decides.
///
/// No credentials are sent before the server asks, so a server that asks for a digest never receives the password.
struct Authorization: Sendable {
    private enum Scheme {
        case none
        case basic
        case digest(DigestChallenge, count: UInt32)
    }

    private let credentials: WebDAVCredentials?
    private var scheme = Scheme.none

    init(_ credentials: WebDAVCredentials?) {
        self.credentials = credentials
    }

    /// Returns the value of the `Authorization` header for one request; `nil` for no header.
    mutating func header(method: String, target: String, clientNonce: @autoclosure () -> String) -> String? {
        guard let credentials else { return nil }
        switch scheme {
        case .none: return nil
        case .basic:
            return "Basic " + Data("\(credentials.user):\(credentials.password)".utf8).base64EncodedString()
        case .digest(let challenge, let count):
            scheme = .digest(challenge, count: count &+ 1)
            return challenge.authorization(
                credentials,
                method: method,
                target: target,
                count: count &+ 1,
                clientNonce: clientNonce()
            )
        }
    }

    /// Handles an answer that asks for credentials.
    ///
    /// - Parameters:
    ///   - sent: The request's `Authorization` header.
    ///   - challenges: The challenges in the answer.
    ///   - count: How often the request was refused.
    /// - Returns: Whether to send the request again.
    mutating func challenged(after sent: String?, _ challenges: [AuthenticationChallenge], _ count: Int) -> Bool {
        guard credentials != nil else { return false }
        // A server names all its schemes: takes the strongest known one.
        let digests = challenges.compactMap { DigestChallenge($0) }
        let digest = digests.first { $0.algorithm == .sha256 || $0.algorithm == .sha256Session } ?? digests.first
        if let digest {
            // The first refusal may be of a nonce that the server has forgotten, as after a restart. A password that was
            // refused is refused with another nonce, too, unless the former nonce was only stale.
            guard count == 1 || sent?.hasPrefix("Digest ") != true || digest.isStale else { return false }
            if case .digest(let current, _) = scheme, current.nonce == digest.nonce { return true }
            scheme = .digest(digest, count: 0)
            return true
        }
        // A server that has asked for a digest before doesn't get the password now.
        if case .digest = scheme { return false }
        guard challenges.contains(where: { $0.scheme == "basic" }), sent == nil else { return false }
        scheme = .basic
        return true
    }
}

/// A share's ``Authorization``, for concurrent requests.
struct WebDAVAuthentication: HTTPAuthentication {
    private let state: Locked<Authorization>
    private let advice: String
    private let name: String

    init(_ credentials: WebDAVCredentials?, name: String) {
        state = Locked(Authorization(credentials))
        advice =
            credentials == nil ? "It requires a user name and a password." : "Check the user name and the password."
        self.name = name
    }

    func headers(for request: HTTPRequest, host: String) -> [(String, String)] {
        let clientNonce = String(UInt64.random(in: .min ... .max), radix: 36)
        let header = state.withLock {
            $0.header(method: request.method.rawValue, target: request.target, clientNonce: clientNonce)
        }
        return header.map { [("Authorization", $0)] } ?? []
    }

    func isChallenged(by headers: HTTPHeaders, after sent: String?, _ count: Int) throws -> Bool {
        let asked = AuthenticationChallenge.read(headers["WWW-Authenticate"])
        guard count <= 3, state.withLock({ $0.challenged(after: sent, asked, count) }) else {
            throw RemoteError(.unauthorized, "\(name) refuses access. \(advice)")
        }
        return true
    }
}
