import Foundation
import ServerFixtures

// OpenStack Swift with its s3api: a proxy, three servers for accounts, containers and objects, and the cache that logins need.
extension S3Server {
    private static let account = "ci"
    private static let user = "tester"
    package static let swiftAccessKeyID = "\(account):\(user)"
    package static let swiftSecret = "testing"

    /// Writes the servers' configurations, and returns the command that starts them all, each in one process.
    func configureSwift() throws -> [String] {
        let rings = ["account", "container", "object"]
        let ports = try rings.map { _ in try freePort() }
        let cache = try freePort()
        let user = NSUserName()
        // `workers = 0` runs each server in one process.
        let common = """
            [DEFAULT]
            bind_ip = 127.0.0.1
            user = \(user)
            swift_dir = \(folder.path)
            workers = 0
            log_address = /dev/null
            """
        try write(
            "[swift-hash]\nswift_hash_path_suffix = tests\n[storage-policy:0]\nname = standard\ndefault = yes\n",
            to: "swift.conf"
        )
        try FileManager.default.createDirectory(
            at: folder.appending(path: "data/disk"),
            withIntermediateDirectories: true
        )
        for (ring, port) in zip(rings, ports) {
            try write(
                """
                \(common)
                bind_port = \(port)
                devices = \(folder.path)/data
                mount_check = false
                disable_fallocate = true
                [pipeline:main]
                pipeline = \(ring)-server
                [app:\(ring)-server]
                use = egg:swift#\(ring)

                """,
                to: "\(ring).conf"
            )
        }
        let filters = [
            "catch_errors", "healthcheck", "cache", "listing_formats", "s3api", "tempauth", "copy", "slo", "dlo",
            "versioned_writes", "symlink",
        ]
        let settings = [
            "cache": "memcache_servers = 127.0.0.1:\(cache)",
            "s3api": "location = us-east-1\ns3_acl = false",
            "tempauth": "user_\(Self.account)_\(Self.user) = \(Self.swiftSecret) .admin",
            "versioned_writes": "allow_versioned_writes = true",
        ]
        let sections = filters.map { filter in
            "[filter:\(filter)]\nuse = egg:swift#\(filter == "cache" ? "memcache" : filter)\n\(settings[filter] ?? "")\n"
        }
        try write(
            """
            \(common)
            bind_port = \(port)
            [pipeline:main]
            pipeline = \(filters.joined(separator: " ")) proxy-server
            [app:proxy-server]
            use = egg:swift#proxy
            account_autocreate = true
            conn_timeout = 30
            node_timeout = 60
            error_suppression_limit = 1000000
            \(sections.joined())
            """,
            to: "proxy.conf"
        )
        let builders = zip(rings, ports).map { ring, port in
            """
            swift-ring-builder \(ring).builder create 4 1 1
            swift-ring-builder \(ring).builder add r1z1-127.0.0.1:\(port)/disk 1
            swift-ring-builder \(ring).builder rebalance
            swift-\(ring)-server \(ring).conf & echo $! >>pids
            """
        }
        try write(
            """
            cd "$1" || exit 1
            PATH=$PATH:/usr/bin
            memcached -u "\(user)" -l 127.0.0.1 -p \(cache) & echo $! >>pids
            \(builders.joined(separator: "\n"))
            exec swift-proxy-server proxy.conf
            """,
            to: "start"
        )
        return ["/bin/sh", "\(folder.path)/start", folder.path]
    }

    private func write(_ text: String, to name: String) throws {
        try Data(text.utf8).write(to: folder.appending(path: name))
    }

    /// Creates the bucket, which is a Swift container, if the servers answer already.
    func makesContainer() -> Bool {
        let login = ["X-Auth-User: \(Self.swiftAccessKeyID)", "X-Auth-Key: \(Self.swiftSecret)"]
        guard let head = LoopbackSocket.exchange("GET", "/auth/v1.0", login, port: port),
            let token = head.split(separator: "\r\n").first(where: { $0.lowercased().hasPrefix("x-auth-token:") })
        else { return false }
        let target = "/v1/AUTH_\(Self.account)/\(Self.bucket)"
        return LoopbackSocket.exchange("PUT", target, [String(token)], port: port)?.hasPrefix("HTTP/1.1 20") == true
    }
}
