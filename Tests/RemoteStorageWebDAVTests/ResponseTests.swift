import Foundation
import NIOHTTP1
import RemoteStorage
import RemoteStorageHTTP
import Testing

@testable import RemoteStorageWebDAV

@Suite("The answer of a WebDAV server")
struct ResponseTests {
    private func resources(_ xml: String) throws -> [Multistatus.Resource] {
        try Multistatus(Array(xml.utf8)).resources
    }

    @Test("A WebDAV answer is read with any namespace prefixes and extra elements")
    func multistatus() throws {
        let found = try resources(
            """
            <?xml version="1.0"?><x:multistatus xmlns:x="DAV:" xmlns:o="urn:other">
            <x:response><x:href> /a%20b/ </x:href><x:propstat><x:prop><x:resourcetype><x:collection/></x:resourcetype>
            <o:getcontentlength>9</o:getcontentlength></x:prop><x:status>HTTP/1.1 200 OK</x:status></x:propstat>
            <x:propstat><x:prop><x:getetag>"no"</x:getetag></x:prop><x:status>HTTP/1.1 404 Not Found</x:status></x:propstat>
            </x:response>
            <response xmlns="DAV:"><href><![CDATA[/a]]></href><propstat><prop><resourcetype/>
            <getcontentlength>12</getcontentlength><getlastmodified>Sun, 06 Nov 1994 08:49:37 GMT</getlastmodified>
            <getetag>W/"x&amp;y"</getetag></prop><status>HTTP/1.1 200</status></propstat></response></x:multistatus>
            """
        )
        #expect(found.map(\.reference) == ["/a%20b/", "/a"])
        #expect(found.map(\.isCollection) == [true, false])
        #expect(found.map(\.contentLength) == [nil, 12])
        #expect(found.map(\.entityTag) == [nil, "W/\"x&y\""])
        #expect(found[1].modified == Date(timeIntervalSince1970: 784_111_777))
        #expect(found.map(\.state) == [.known, .known])
    }

    @Test(
        "A WebDAV answer without properties doesn't make a resource an empty file",
        arguments: [
            ("<status>HTTP/1.1 404 Not Found</status>", .missing), ("<status>HTTP/1.1 410</status>", .missing),
            ("<status>HTTP/1.1 403 Forbidden</status>", .failed(status: 403)),
            ("<status>?</status>", .failed(status: nil)),
            ("", .failed(status: nil)), ("<status>HTTP/1.1 200 OK</status>", .failed(status: 200)),
            (
                "<propstat><prop><resourcetype/></prop><status>HTTP/1.1 404 Not Found</status></propstat>",
                .failed(status: 404)
            ),
            ("<propstat><prop><resourcetype/></prop><status>HTTP/1.1 200 OK</status></propstat>", .known),
            (
                """
                <propstat><prop><getcontentlength>1</getcontentlength></prop><status>HTTP/1.1 200 OK</status></propstat>\
                <propstat><prop><resourcetype/></prop><status>HTTP/1.1 404 Not Found</status></propstat>
                """, .known
            ),
        ] as [(String, Multistatus.State)]
    )
    func states(properties: String, state: Multistatus.State) throws {
        let found = try resources(
            "<multistatus xmlns='DAV:'><response><href>/a</href>\(properties)</response></multistatus>"
        )
        #expect(found.map(\.reference) == ["/a"])
        #expect(found.map(\.state) == [state])
    }

    @Test("A WebDAV answer may name several missing resources at once")
    func severalReferences() throws {
        let found = try resources(
            """
            <multistatus xmlns='DAV:'><response><href>/a</href><href>/b</href><status>HTTP/1.1 404</status></response>\
            </multistatus>
            """
        )
        #expect(found.map(\.reference) == ["/a", "/b"])
        #expect(found.map(\.state) == [.missing, .missing])
    }

    @Test(
        "A WebDAV answer is refused if it isn't a multistatus",
        arguments: [
            "", "<", "<html/>", "<multistatus xmlns='DAV:'>", "<multistatus/>", "\u{0}",
            "<multistatus xmlns='DAV:'/>\u{0}",
            "<!DOCTYPE x [<!ENTITY a 'aaaa'>]><multistatus xmlns='DAV:'>&a;</multistatus>",
        ]
    )
    func malformed(xml: String) {
        #expect(throws: CheckedXML.Malformed.self) { try resources(xml) }
    }

    @Test("A WebDAV answer is refused if its elements have long names, or are nested deeply")
    func longPaths() throws {
        func answer(_ name: String, depth: Int) -> String {
            let tags = Array(repeating: name, count: depth)
            let (start, end) = (tags.map { "<\($0)>" }.joined(), tags.map { "</\($0)>" }.joined())
            return "<multistatus xmlns='DAV:'>\(start)\(end)<response><href>/a</href></response></multistatus>"
        }
        #expect(try resources(answer(String(repeating: "x", count: 255), depth: 15)).map(\.reference) == ["/a"])
        for xml in [answer(String(repeating: "x", count: 256), depth: 1), answer("x", depth: 16)] {
            #expect(throws: CheckedXML.Malformed.self) { try resources(xml) }
        }
    }

    @Test("A WebDAV answer is refused if a tag has so many attributes that reading it would take hours")
    func longTags() throws {
        func answer(_ count: Int) -> String {
            // Attributes may contain the character that ends a tag.
            let attributes = (0..<count).map { " a\($0)='>'" }.joined()
            return "<multistatus xmlns='DAV:'><x\(attributes)/><response><href>/a</href></response></multistatus>"
        }
        #expect(try resources(answer(1_000)).map(\.reference) == ["/a"])
        let error = #expect(throws: CheckedXML.Malformed.self) { try resources(answer(10_000)) }
        #expect(error?.description.contains("longer than 64 KiB") == true)
    }

    @Test("A WebDAV answer is refused if a tag declares so many namespaces that looking them up would take a minute")
    func manyNamespaces() throws {
        func answer(_ count: Int) -> String {
            let declarations = (0..<count).map { " xmlns:n\($0)='urn:other'" }.joined()
            let tags = String(repeating: "<x\(declarations)>", count: 14) + String(repeating: "</x>", count: 14)
            return "<multistatus xmlns='DAV:'>\(tags)<response><href>/a</href></response></multistatus>"
        }
        #expect(try resources(answer(32)).map(\.reference) == ["/a"])
        let error = #expect(throws: CheckedXML.Malformed.self) { try resources(answer(33)) }
        #expect(error?.description.contains("many namespaces") == true)
    }

    @Test(
        "A WebDAV answer is refused if it declares another encoding than its own",
        arguments: [
            (#"<?xml version="1.0" encoding="UTF-8"?>"#, true), ("<?xml version='1.0' encoding = 'utf-8' ?>", true),
            ("\u{FEFF}<?xml version='1.0' encoding='utf8'?>", true), ("<?xml version='1.0'?>", true), ("", true),
            ("<?xml version='1.0' encoding='US-ASCII'?>", false),
            ("<!-- encoding='ISO-8859-1' ?> -->", true), (#"<?xml version="1.0" encoding="ISO-8859-1"?>"#, false),
            ("<?xml version='1.0'\n\tencoding = 'iso-8859-1' ?>", false),
            ("<?xml version='1.0' encoding='UTF-7'?>", false),
            ("\u{FEFF}<?xml version='1.0' encoding='windows-1252' standalone='yes'?>", false),
        ]
    )
    func encodings(declaration: String, isAccepted: Bool) throws {
        let xml = "\(declaration)<multistatus xmlns='DAV:'><response><href>/ü</href></response></multistatus>"
        guard !isAccepted else {
            #expect(try resources(xml).map(\.reference) == ["/ü"])
            return
        }
        let error = #expect(throws: CheckedXML.Malformed.self) { try resources(xml) }
        #expect(error?.description.contains("encoding") == true)
        let ascii = "<?xml version='1.0' encoding='US-ASCII'?><multistatus xmlns='DAV:'></multistatus>"
        for encoding in ["US-ASCII", "ISO-8859-1", "windows-1252"] {
            #expect(try resources(ascii.replacing("US-ASCII", with: encoding)) == [])
        }
        let long = String(repeating: " ", count: 1000)
        #expect(throws: CheckedXML.Malformed.self) {
            try resources(ascii.replacing(" encoding", with: long + " encoding"))
        }
    }

    @Test("A WebDAV answer never crashes the parser, even if any byte is changed or missing")
    func fuzzed() throws {
        let xml = Array(
            """
            <?xml version="1.0"?><D:multistatus xmlns:D="DAV:"><D:response><D:href>/f</D:href><D:propstat><D:prop>\
            <D:getcontentlength>6</D:getcontentlength></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat>\
            </D:response></D:multistatus>
            """.utf8
        )
        for index in xml.indices {
            _ = try? Multistatus(Array(xml[..<index]))
            for byte in [0, 0x3C, 0x26, 0xFF] as [UInt8] {
                var changed = xml
                changed[index] = byte
                _ = try? Multistatus(changed)
            }
        }
    }

    @Test(
        "A WebDAV answer refers to paths in the share, and to no others",
        arguments: [
            ("/dav/a%20share/x/y%2Fz", nil), ("/dav/a%20share/x/y", "x/y"), ("http://other/dav/a%20share/x", "x"),
            ("/dav/a share/%C3%BC", "ü"), ("/dav/a%20share/", "/"), ("/dav/a%20share/../x", nil), ("/dav/other", nil),
            ("/dav/a%20share/%FF", nil), ("/dav/a%20share/%2", nil), ("/dav/a%20share/%2e%2e", nil),
            ("/dav/a%20share/%00", nil), ("//dav//a%20share//x//", "x"), ("", nil),
        ]
    )
    func references(reference: String, expected: String?) throws {
        let location = ShareLocation(try #require(URL(string: "https://host/dav/a%20share/")))
        #expect(location.path(of: reference)?.description == expected)
    }

    @Test("The paths of WebDAV requests are encoded exactly once")
    func targets() throws {
        let location = ShareLocation(try #require(URL(string: "https://host/dav")))
        let path = try RemotePath(components: ["a b", "100%", "%2e", "#?+", "ü"])
        #expect(location.target(path) == "/dav/a%20b/100%25/%252e/%23%3F%2B/%C3%BC")
        #expect(location.target(.root) == "/dav/")
        #expect(location.path(of: location.target(path)) == path)
    }

    @Test("Dates in HTTP's format are read correctly")
    func dates() {
        #expect(Date(http: "Thu, 01 Jan 1970 00:00:00 GMT")?.timeIntervalSince1970 == 0)
        #expect(Date(http: "Thu, 29 Feb 2024 23:59:59 GMT")?.timeIntervalSince1970 == 1_709_251_199)
        #expect(Date(http: "Sat, 21 Nov 2026 15:54:46 GMT")?.timeIntervalSince1970 == 1_795_276_486)
        for wrong in ["", "yesterday", "Thu, 32 Jan 1970 00:00:00 GMT", "Thu, 01 Jan 1970 25:00:00 GMT", "1"] {
            #expect(Date(http: wrong) == nil)
        }
        let now = Date(timeIntervalSince1970: 0)
        #expect(RetrySchedule.retryAfter("120", now: now) == .seconds(120))
        #expect(RetrySchedule.retryAfter("Thu, 01 Jan 1970 00:01:00 GMT", now: now) == .seconds(60))
        #expect(RetrySchedule.retryAfter("-1", now: now) == nil)
        #expect(RetrySchedule.retryAfter("99999999999999999999", now: now) == nil)
        #expect(RetrySchedule.retryAfter(nil, now: now) == nil)
    }

    @Test("A wait until a date is measured by the server's clock, not by this device's")
    func busyUntil() {
        func delay(_ date: String?) -> Duration? {
            var response = HTTPResponse(
                status: 503,
                headers: ["Retry-After": "Sun, 06 Nov 1994 08:49:37 GMT"],
                bytes: []
            )
            if let date { response.headers.add(name: "Date", value: date) }
            return RetrySchedule.retryAfter(response)
        }
        #expect(delay("Sun, 06 Nov 1994 08:49:30 GMT") == .seconds(7))
        #expect(delay("Sun, 06 Nov 1994 08:50:00 GMT") == .zero)
        #expect(delay("yesterday") == .zero)
        #expect(delay(nil) == .zero)
    }

    @Test("Answers that the server is busy make the delays longer, and finally end the retries")
    func schedule() {
        var schedule = RetrySchedule(
            WebDAVConfiguration.Retries(attempts: 4, delay: .seconds(1), longestDelay: .seconds(3))
        )
        var delays: [Duration?] = []
        for _ in 0..<4 {
            schedule.begin()
            delays.append(schedule.delay(retryAfter: nil, random: 0.5))
        }
        #expect(delays == [.seconds(1), .seconds(2), .seconds(3), nil])
        schedule = RetrySchedule(WebDAVConfiguration.Retries())
        schedule.begin()
        #expect(schedule.delay(retryAfter: .seconds(60), random: 0) == .seconds(60))
        #expect(schedule.delay(retryAfter: .seconds(61), random: 0) == nil)
    }

    @Test("A second request without an answer in time ends the retries")
    func timeouts() {
        var schedule = RetrySchedule(WebDAVConfiguration.Retries(attempts: 5, delay: .seconds(1)))
        schedule.begin()
        schedule.noteTimeout()
        #expect(schedule.delay(retryAfter: nil, random: 0.5) == .seconds(1))
        schedule.begin()
        #expect(schedule.delay(retryAfter: nil, random: 0.5) == .seconds(2))
        schedule.begin()
        schedule.noteTimeout()
        #expect(schedule.delay(retryAfter: nil, random: 0.5) == nil)
    }

    @Test("A request for a digest is answered like the examples of RFC 7616 and RFC 2617")
    func digests() throws {
        let fields =
            #"realm="http-auth@example.org", qop="auth, auth-int", nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v", opaque="FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS""#
        let credentials = WebDAVCredentials(user: "Mufasa", password: "Circle of Life")
        let expected = [
            "MD5": "8ca523f5e9506fed4657c9700eebdbec",
            "SHA-256": "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1",
        ]
        for (algorithm, response) in expected {
            let challenges = AuthenticationChallenge.read(["Digest \(fields), algorithm=\(algorithm)"])
            let challenge = try #require(challenges.first.flatMap { DigestChallenge($0) })
            let header = challenge.authorization(
                credentials,
                method: "GET",
                target: "/dir/index.html",
                count: 1,
                clientNonce: "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ"
            )
            #expect(header.contains("response=\"\(response)\""), "\(header)")
        }
        let old = AuthenticationChallenge.read([
            #"Basic realm="x", Digest realm="testrealm@host.com", nonce="dcd98b7102dd2f0e8b11d0f600bfb0c093""#
        ])
        #expect(old.map(\.scheme) == ["basic", "digest"])
        #expect(old.compactMap { DigestChallenge($0) }.first?.usesQuality == false)
        #expect(AuthenticationChallenge.read(["", "=", "Digest =", "Digest nonce=", #"Digest nonce=""#]).count >= 0)
        let signs = String(repeating: "=", count: 100_000)
        #expect(AuthenticationChallenge.read([signs, #"\#(signs) Basic realm="r""#]).map(\.scheme) == ["basic"])
    }

    @Test("A WebDAV server is identified by its name and its DAV classes")
    func recognition() {
        #expect(ServerProfile.recognize(["Server": "Apache/2.4.1", "DAV": "1,2"]) == nil)
        #expect(
            ServerProfile.recognize(["Server": "Apache", "DAV": "1, 2, <http://apache.org/dav/propset/fs/1>"])
                == .apache
        )
        #expect(ServerProfile.recognize(["Server": "nginx", "DAV": "1, 3, extended-mkcol"]) == nil)
        #expect(ServerProfile.recognize(["Server": "nginx/1.2", "DAV": "2"]) == .nginx)
        #expect(ServerProfile.recognize([:]) == nil)
    }

    @Test("An answer with a part of a file names the range")
    func ranges() {
        #expect(ContentRange("bytes 0-499/1234")?.range == 0..<500)
        #expect(ContentRange("bytes 0-499/*")?.range == 0..<500)
        #expect(ContentRange("bytes 0-499/500")?.total == 500)
        for wrong in [
            "", "bytes */10", "bytes 5-4/10", "bytes 0-9223372036854775807/1", "bytes 0-99/50", "lines 1-2/3",
        ] {
            #expect(ContentRange(wrong) == nil)
        }
    }
}
