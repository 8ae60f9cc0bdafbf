import Foundation
import NIOHTTP1
import RemoteStorage
import RemoteStorageHTTP
import Testing

@testable import RemoteStorageS3

@Suite("A bucket is configured")
struct S3ConfigurationTests {
    private static func environment(_ variables: [String: String], files: [String: String] = [:]) throws
        -> S3Environment
    {
        let home = FileManager.default.temporaryDirectory.appending(path: "storesync-aws-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: home) }
        try FileManager.default.createDirectory(at: home.appending(path: ".aws"), withIntermediateDirectories: true)
        for (name, text) in files { try Data(text.utf8).write(to: home.appending(path: name)) }
        return S3Environment(
            variables.mapValues { $0.replacing("HOME", with: home.path) }.merging(["HOME": home.path]) { $1 }
        )
    }

    private static let keys = ["AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"]

    @Test(
        "A bucket stores files whatever sizes and numbers of parts the app configures",
        arguments: [Int.min, .max],
        [Int.min, .max]
    )
    func extremeParts(partSize: Int, parallelParts: Int) async throws {
        let bucket = ConditionalBucket()
        var configuration = try S3Configuration(bucket: "bucket", endpoint: URL(string: "http://127.0.0.1:9"))
        configuration.minimumPartSize = 8
        (configuration.partSize, configuration.parallelParts) = (partSize, parallelParts)
        let backend = S3Backend(configuration, transport: bucket)
        let bytes = [UInt8](0..<20)
        try await backend.write(bytes, to: RemotePath("large"), when: .always)
        #expect(bucket.files == ["large": bytes])
    }

    @Test("A bucket is configured by variables, which override every file")
    func variables() throws {
        let file = "[default]\naws_access_key_id = other\naws_secret_access_key = another\nregion = filed\n"
        let environment = try Self.environment(
            Self.keys.merging([
                "AWS_SESSION_TOKEN": "token", "AWS_REGION": "here", "AWS_DEFAULT_REGION": "there",
                "AWS_ENDPOINT_URL": "http://all", "AWS_ENDPOINT_URL_S3": "http://s3",
            ]) { $1 },
            files: [".aws/credentials": file]
        )
        let credentials = try environment.credentials()
        #expect(credentials.accessKeyID == "id" && credentials.secretAccessKey == "secret")
        #expect(credentials.sessionToken == "token")
        #expect(environment.region == "here" && environment.endpoint == "http://s3")
        let plain = try Self.environment(
            ["AWS_ENDPOINT_URL": "http://all", "AWS_REGION": ""],
            files: [".aws/credentials": file]
        )
        #expect(plain.endpoint == "http://all" && plain.region == "filed")
        #expect(try plain.credentials().accessKeyID == "other")
    }

    @Test("A bucket is configured by a profile in Amazon's files")
    func profiles() throws {
        let credentials = """
            # comment
            [default]
            aws_access_key_id=standard
            aws_secret_access_key=a=b
            [work] ; of the office
              aws_access_key_id = worker
            aws_secret_access_key = w/+=
            aws_session_token = t
            """
        let configuration = """
            [default]
            region = eu-west-1
            [profile work]
            region = eu-north-1
            endpoint_url = http://any
            s3 =
              endpoint_url = http://for-s3
              max_concurrent_requests = 20
            output = json
            [profile empty]
            sso_session = x
            """
        let files = [".aws/credentials": credentials, ".aws/config": configuration]
        let standard = try Self.environment([:], files: files)
        #expect(try standard.credentials().secretAccessKey == "a=b")
        #expect(standard.region == "eu-west-1" && standard.endpoint == nil)
        for variables in [
            ["AWS_PROFILE": "work"],
            [
                "AWS_PROFILE": "work", "AWS_CONFIG_FILE": "~/.aws/config",
                "AWS_SHARED_CREDENTIALS_FILE": "HOME/.aws/credentials",
            ],
        ] {
            let work = try Self.environment(variables, files: files)
            #expect(try work.credentials().accessKeyID == "worker")
            #expect(try work.credentials().secretAccessKey == "w/+=")
            #expect(try work.credentials().sessionToken == "t")
            #expect(work.region == "eu-north-1" && work.endpoint == "http://for-s3")
        }
        for (profile, words) in [("empty", "no access key of its own"), ("absent", "no profile absent")] {
            let error = #expect(throws: RemoteError.self) {
                try Self.environment(["AWS_PROFILE": profile], files: files).credentials()
            }
            #expect(
                error?.code == .unauthorized && error?.message.contains(words) == true,
                "\(String(describing: error))"
            )
        }
        let error = #expect(throws: RemoteError.self) { try Self.environment([:]).credentials() }
        #expect(error?.message.contains("AWS_ACCESS_KEY_ID") == true)
    }

    @Test("A bucket is configured by a URL, and has one identity however the URL is written")
    func urls() throws {
        let environment = try Self.environment(Self.keys)
        func configuration(_ text: String) throws -> S3Configuration {
            try S3Configuration(url: try #require(URL(string: text)), environment: environment)
        }
        let ways = ["s3://bucket/a%20b/c", "s3://bucket/a%20b/c/", "s3://bucket//a%20b/c?region=eu-west-1"]
        #expect(try Set(ways.map { S3Location(try configuration($0)).identity }) == ["s3://bucket/a%20b/c"])
        let own = ["http://Host:80/", "http://host", "HTTP://host"].map { "s3://bucket?endpoint=\($0)" }
        #expect(try Set(own.map { S3Location(try configuration($0)).identity }) == ["s3://bucket?endpoint=http://host"])
        let overridden = try S3Configuration(
            url: try #require(URL(string: "s3://bucket?endpoint=http://a&region=b")),
            endpoint: "http://c",
            region: "d",
            environment: environment
        )
        #expect(overridden.endpoint?.host() == "c" && overridden.region == "d")
        for wrong in [
            "https://bucket", "s3:///x", "s3://b", "s3://bucket/../x", "s3://user@bucket/", "s3://bucket:80/",
            "s3://bucket?secret=hidden",
            "s3://bucket?endpoint=ftp://x", "s3://bucket?endpoint=http://u:hidden@x", "s3://bucket?addressing=other",
            "s3://bucket#x",
            "s3://bucket?region=a/b",
        ] {
            let error = #expect(throws: RemoteError.self) { try configuration(wrong) }
            #expect(error?.code == .invalidPath && error?.message.contains("hidden") == false, "\(wrong)")
        }
    }

    @Test("A bucket is addressed by its name in the path or in the host name")
    func addressing() throws {
        func target(_ bucket: String, _ endpoint: String?, _ addressing: S3Configuration.Addressing) throws -> String {
            var configuration = try S3Configuration(
                bucket: bucket,
                prefix: "/a b/",
                region: "eu-west-1",
                endpoint: endpoint.flatMap { URL(string: $0) }
            )
            configuration.addressing = addressing
            let location = S3Location(configuration)
            return location.origin + location.target(location.key(try RemotePath("100%/+")), ["b": "/", "a": ""])
        }
        let rest = "/a%20b/100%25/%2B?a=&b=%2F"
        #expect(try target("bucket", nil, .automatic) == "https://bucket.s3.eu-west-1.amazonaws.com" + rest)
        #expect(try target("my.bucket", nil, .automatic) == "https://s3.eu-west-1.amazonaws.com/my.bucket" + rest)
        #expect(try target("bucket", nil, .path) == "https://s3.eu-west-1.amazonaws.com/bucket" + rest)
        #expect(try target("bucket", "http://[::1]:8/x", .automatic) == "http://[::1]:8/x/bucket" + rest)
        #expect(try target("bucket", "https://host:444", .virtualHost) == "https://bucket.host:444" + rest)
    }

    @Test("An S3 server is recognized by its name, unless a proxy may use the same name")
    func recognition() {
        func profile(_ server: String, isAmazon: Bool = false) -> S3ServerProfile? {
            S3ServerProfile.recognize(["Server": server], isAmazon: isAmazon)
        }
        #expect(profile("AmazonS3") == nil && profile("AmazonS3", isAmazon: true) == .amazon)
        for known in ["SeaweedFS 8000GB 4.48", "SeaweedFS 30GB 4.49", "SeaweedFS 30GB 5.0"] {
            #expect(profile(known) == .seaweedFS, "\(known)")
        }
        for unknown in ["SeaweedFS 30GB 3.99", "SeaweedFS 30GB 4.47", "SeaweedFS", "MinIO", "", "seaweedfs 4.48"] {
            #expect(profile(unknown) == nil, "\(unknown)")
        }
    }

    @Test("An S3 server's list is read up to its last page, and refused if it is anything else")
    func answers() throws {
        let list = try ObjectList(
            Array(
                """
                <?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><IsTruncated>true
                </IsTruncated><Contents><Key>a&amp;b</Key><Size>3</Size><LastModified>2026-11-21T19:18:38.123Z</LastModified>
                <ETag>&quot;x&quot;</ETag></Contents><CommonPrefixes><Prefix>c/</Prefix></CommonPrefixes>
                <NextContinuationToken>next</NextContinuationToken></ListBucketResult>
                """.replacing("true\n", with: "true").utf8
            )
        )
        #expect(list.objects.map(\.key) == ["a&b"] && list.prefixes == ["c/"] && list.continuation == "next")
        #expect(list.objects[0].tag == RemoteTag("\"x\"") && list.objects[0].size == 3)
        #expect(list.objects[0].modified == Date(timeIntervalSince1970: 1_795_288_718))
        for (flag, continuation) in [("", "2"), ("<IsTruncated>false</IsTruncated>", nil)] {
            let xml = "<ListBucketResult>\(flag)<NextContinuationToken>2</NextContinuationToken></ListBucketResult>"
            #expect(try ObjectList(Array(xml.utf8)).continuation == continuation)
        }
        for wrong in [
            "", "<", "<html/>", "<ListBucketResult>", "<Error><Code>x</Code></Error>", "\u{0}",
            "<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>",
            "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
            "<!DOCTYPE x [<!ENTITY a 'a'>]><ListBucketResult>&a;</ListBucketResult>",
        ] {
            #expect(throws: CheckedXML.Malformed.self, "\(wrong)") { try ObjectList(Array(wrong.utf8)) }
        }
    }

    @Test(
        "An S3 server's refusal is an error with a code and a remedy",
        arguments: [
            ("RequestTimeTooSkewed", 403, RemoteError.Code.unauthorized, "clock"),
            ("ExpiredToken", 400, .unauthorized, "new credentials"),
            ("SignatureDoesNotMatch", 403, .unauthorized, "secret"), ("AccessDenied", 403, .notAllowed, "rights"),
            ("NoSuchBucket", 404, .unavailable, "no bucket"), ("NoSuchKey", 404, .notFound, "doesn't exist"),
            ("KeyTooLongError", 400, .invalidPath, "name"), ("QuotaExceeded", 403, .noSpace, "room"),
            ("SlowDown", 503, .unavailable, "later"), ("InternalError", 200, .unavailable, "later"),
            ("NotImplemented", 501, .unsupported, "can't do"),
            ("BadDigest", 400, .unavailable, "as it was sent"),
        ]
    )
    func refusals(name: String, status: Int, code: RemoteError.Code, words: String) throws {
        let body = "<Error><Code>\(name)</Code><Message>m</Message></Error>"
        let response = HTTPResponse(status: status, headers: [:], bytes: Array(body.utf8))
        let error = try #require(S3Failure(response)).error(
            at: RemotePath("file"),
            in: S3Location(S3Configuration(bucket: "bucket"))
        )
        #expect(error.code == code && error.message.contains(words), "\(error)")
        #expect(S3Failure.isTransient(response) == ["SlowDown", "InternalError"].contains(name))
    }

    @Test(
        "An S3 server's redirect is an error that names the other server, and https if only that differs",
        arguments: [
            ("https://storage.example/bucket", "to https://storage.example, ", "Use an endpoint with https://."),
            ("https://Storage.example:9/bucket", "to https://Storage.example:9, ", "Use an endpoint with https://."),
            ("https://other.example/bucket", "to https://other.example, ", "Use that server's URL if you trust it."),
            (
                "http://storage.example:9/bucket", "to http://storage.example:9, ",
                "Use that server's URL if you trust it."
            ),
            ("/bucket", "to another server, ", "Use that server's URL if you trust it."),
        ]
    )
    func redirects(location: String, target: String, remedy: String) throws {
        let response = HTTPResponse(status: 307, headers: ["Location": location], bytes: [])
        let endpoint = try #require(URL(string: "http://storage.example"))
        let error = try #require(S3Failure(response)).error(
            at: RemotePath("file"),
            in: S3Location(S3Configuration(bucket: "bucket", endpoint: endpoint))
        )
        #expect(
            error.message.contains(target) && error.message.hasSuffix(remedy),
            "\(error)"
        )
        // The same server with TLS is no login page, which goes away by itself.
        let mayBeLoginPage = remedy.contains("trust")
        #expect(error.message.contains("login page") == mayBeLoginPage, "\(error)")
        #expect(error.code == (mayBeLoginPage ? .unavailable : .notAllowed))
    }
}
