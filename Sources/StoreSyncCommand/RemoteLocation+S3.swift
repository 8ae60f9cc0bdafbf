#if S3
import Foundation
import RemoteStorage
import RemoteStorageS3

extension RemoteLocation {
    func s3Backend(_ access: Access) throws -> S3Backend {
        do {
            var configuration = try S3Configuration(url: url, endpoint: access.endpoint, region: access.region)
            configuration.allowsCredentialsWithoutTLS = access.isInsecure
            configuration.trustedCertificates = try access.trustedCertificates()
            guard !configuration.exposesCredentials else { throw exposedCredentials("an endpoint with https://") }
            return S3Backend(configuration)
        } catch let error as RemoteError where error.code == .invalidPath {
            throw UsageError(error.message)
        }
    }
}
#endif
