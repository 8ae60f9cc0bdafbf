import Foundation
import NIOHTTP1
import RemoteStorageHTTP

/// Signs each request again each time it is sent.
struct S3Authentication: HTTPAuthentication {
    let signature: SignatureV4?
    var now: @Sendable () -> Date = { Date() }

    func headers(for request: HTTPRequest, host: String) -> [(String, String)] {
        guard let signature else { return [] }
        let date = SigningDate(now())
        let payload = request.headers.first { $0.0 == S3Payload.header }?.1
        var added = [("X-Amz-Date", date.time)]
        if payload == nil { added.append((S3Payload.header, SignatureV4.emptyPayload)) }
        if let token = signature.credentials.sessionToken { added.append(("X-Amz-Security-Token", token)) }
        let authorization = signature.authorization(
            method: request.method.rawValue,
            target: request.target,
            headers: request.headers + added + [("Host", host)],
            payload: payload ?? SignatureV4.emptyPayload,
            date: date
        )
        return added + [("Authorization", authorization)]
    }

    func isChallenged(by headers: HTTPHeaders, after sent: String?, _ count: Int) -> Bool { false }
}
