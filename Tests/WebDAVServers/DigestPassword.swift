import Crypto

/// Apache's password entry of a user with digest authentication.
enum DigestPassword {
    static func entry(user: String, realm: String, password: String) -> String {
        let digest = Insecure.MD5.hash(data: Array("\(user):\(realm):\(password)".utf8))
        return "\(user):\(realm):" + digest.map { String(UInt($0) | 0x100, radix: 16).dropFirst() }.joined()
    }
}
