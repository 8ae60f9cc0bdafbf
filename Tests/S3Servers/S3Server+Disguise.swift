import Foundation
import NIOHTTP1
package import RemoteStorageHTTP
package import RemoteStorageS3

// A server that a client takes for Amazon's, so that the client uses all of Amazon's capabilities.
extension S3Server {
    /// The configuration of a client that sends its requests through a ``DisguisedTransport``.
    package func disguisedConfiguration(prefix: String = UUID().uuidString) throws -> S3Configuration {
        var configuration = try S3Configuration(
            bucket: Self.bucket,
            prefix: prefix,
            region: "us-east-1",
            credentials: Self.credentials
        )
        configuration.addressing = .path
        return configuration
    }
}

/// The connection to a server that claims to be Amazon's.
package struct DisguisedTransport: HTTPSending {
    private let base: any HTTPSending

    package init(_ base: any HTTPSending) { self.base = base }

    package func send(_ request: HTTPRequest) async throws -> HTTPResponse { disguised(try await base.send(request)) }

    package func sendWithoutRetries(_ request: HTTPRequest) async throws -> HTTPResponse {
        disguised(try await base.sendWithoutRetries(request))
    }

    private func disguised(_ response: HTTPResponse) -> HTTPResponse {
        var response = response
        response.headers.replaceOrAdd(name: "Server", value: "AmazonS3")
        // moto names the list of an upload's parts differently.
        let text = String(decoding: response.bytes.prefix(1 << 16), as: UTF8.self)
        if text.hasSuffix("</ListPartsResponse>") {
            response.bytes = Array(text.replacing("ListPartsResponse", with: "ListPartsResult").utf8)
        }
        return response
    }
}
