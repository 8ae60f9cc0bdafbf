import RemoteStorage

/// An application's registration, and its bytes on the remote, to which the key file is bound.
struct StoredRegistration: Hashable, Sendable {
    let info: RegistrationInfo
    /// `Information/registration.plist`, byte for byte.
    let bytes: [UInt8]

    /// A registration that is to be written.
    init(_ info: RegistrationInfo) {
        self.info = info
        bytes = info.xml
    }

    /// Reads the file; errors are those of ``RegistrationInfo``.
    init(_ bytes: [UInt8], at path: RemotePath) throws(StoreSyncError) {
        info = try RegistrationInfo(bytes, at: path)
        self.bytes = bytes
    }
}
