import Foundation
import Testing

extension CommandTests {
    @Suite("Credentials need TLS, unless the user says otherwise", .serialized)
    struct InsecureTests {
        private static let credentials = [
            "STORESYNC_WEBDAV_PASSWORD": "hidden", "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "hidden",
        ]

        private func register(_ remote: [String]) async throws -> CommandResult {
            let fixture = try Fixture()
            return try await fixture.run(
                ["register", "--no-encrypt", "--json", "--app", "org.example.notes", "--remote"] + remote,
                environment: Self.credentials
            )
        }

        @Test("Plain HTTP to another machine is wrong usage, and the error names --insecure and the scheme with TLS")
        func refused() async throws {
            for (remote, remedy) in [
                (["webdav://user@storage.example.invalid/dav"], "webdavs://"),
                (["s3://bucket/x?endpoint=http://storage.example.invalid"], "https://"),
                (["s3://bucket/x", "--endpoint", "http://storage.example.invalid"], "https://"),
            ] {
                let result = try await register(remote)
                try expectFailure(result, 64, "usage")
                let message = try result.errorMessage()
                #expect(message.contains("--insecure") && message.contains(remedy), "\(message)")
            }
        }

        @Test("A share without a host is wrong usage, and the error shows a scheme that --remote takes")
        func noHost() async throws {
            let result = try await register(["webdav:///dav"])
            try expectFailure(result, 64, "usage")
            #expect(try result.errorMessage().contains("Write webdavs://host:port/path"))
        }
    }
}
