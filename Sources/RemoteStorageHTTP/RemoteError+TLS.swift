import NIOSSL
import RemoteStorage

extension RemoteError {
    /// Creates the error of a TLS connection that fails whenever it is tried; `nil` for any other failure.
    ///
    /// - Parameters:
    ///   - cause: The error of the connection.
    ///   - name: The storage's name.
    ///   - certificates: The paths of the files of trusted certificates.
    init?(ofTLS cause: any Error, to name: String, trusting certificates: [String]) {
        let advice =
            "If it is your own server, name its certificate, or the one of its authority: as trustedCertificates, or with --certificate in storesync."
        let words: String
        switch cause {
        case let error as NIOSSLExtraError
        where error == .failedToValidateHostname || error == .serverHostnameImpossibleToMatch:
            words = "\(name) has a certificate for another host name. Use a URL with the name in the certificate."
        case NIOSSLError.unableToValidateCertificate, NIOSSLError.noCertificateToValidate:
            words = "The certificate of \(name) isn't trusted. \(advice)"
        case NIOSSLError.handshakeFailed(.sslError(let stack)) where "\(stack)".contains("CERTIFICATE_VERIFY_FAILED"):
            words =
                "The certificate of \(name) isn't trusted: its authority is unknown here, or it has expired by this device's clock. \(advice)"
        case NIOSSLError.failedToLoadCertificate:
            let paths = certificates.map { "“\($0)”" }.joined(separator: ", ")
            words =
                "A file of trusted certificates can't be read. It must have certificates in PEM form. Check \(paths)."
        default: return nil
        }
        self.init(.unavailable, words, cause: cause)
    }
}
