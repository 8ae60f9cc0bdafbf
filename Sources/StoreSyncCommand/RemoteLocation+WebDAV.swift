#if WebDAV
import Foundation
import RemoteStorage
import RemoteStorageWebDAV
import StoreSync

extension RemoteLocation {
    func webDAVBackend(_ access: Access) throws -> WebDAVBackend {
        guard url.password() == nil else {
            // The message omits the URL: printed text may be stored, and the URL contains the password.
            throw UsageError("A remote's URL can't hold a password. Give it in STORESYNC_WEBDAV_PASSWORD or in a file.")
        }
        var credentials: WebDAVCredentials?
        if let user = url.user(percentEncoded: false), !user.isEmpty {
            guard let password = try password(access.passwordFile) else {
                throw StoreSyncError(
                    .remoteUnauthorized,
                    "The password of \(user) is missing: give --remote-password-file or STORESYNC_WEBDAV_PASSWORD."
                )
            }
            credentials = WebDAVCredentials(user: user, password: password)
        }
        do {
            var configuration = try WebDAVConfiguration(url: url, credentials: credentials)
            configuration.allowsCredentialsWithoutTLS = access.isInsecure
            configuration.trustedCertificates = try access.trustedCertificates()
            guard !configuration.exposesCredentials else { throw exposedCredentials("webdavs://") }
            return WebDAVBackend(configuration)
        } catch let error as RemoteError {
            throw UsageError(error.message)
        }
    }

    /// The server's password: the file's text without its last line end, or the environment variable's value.
    private func password(_ file: String?) throws -> String? {
        guard let file else {
            guard let bytes = Environment.bytes(of: "STORESYNC_WEBDAV_PASSWORD") else { return nil }
            guard let text = String(validating: bytes, as: UTF8.self) else {
                throw UsageError("STORESYNC_WEBDAV_PASSWORD isn't UTF-8. Set it in a UTF-8 locale, or name a file.")
            }
            return text
        }
        guard let bytes = try Data(ofFile: file, upTo: 1 << 16), let text = String(validating: bytes, as: UTF8.self)
        else {
            throw UsageError("The remote's password can't be read from \(file). Name a text file that can be read.")
        }
        return text.hasSuffix("\r\n") || text.hasSuffix("\n") ? String(text.dropLast()) : text
    }
}
#endif
