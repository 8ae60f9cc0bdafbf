import ByteCoding
import Foundation
import Testing

@testable import RemoteStorageS3

@Suite("AWS Signature Version 4")
struct SignatureTests {
    /// An example from “Signature Calculations for the Authorization Header”, in Amazon's documentation of S3.
    private struct Example {
        var method = "GET"
        var target: String
        var headers: [(name: String, value: String)] = []
        var payload = SignatureV4.emptyPayload
        var signature: String
    }

    private static let examples = [
        Example(
            target: "/test.txt",
            headers: [("Range", "bytes=0-9")],
            signature: "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
        ),
        Example(
            method: "PUT",
            target: "/test%24file.text",
            headers: [("Date", "Fri, 24 May 2013 00:00:00 GMT"), ("x-amz-storage-class", "REDUCED_REDUNDANCY")],
            payload: S3Payload(Array("Welcome to Amazon S3.".utf8)).sha256.hexadecimal,
            signature: "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"
        ),
        Example(
            target: "/?lifecycle=",
            signature: "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"
        ),
        Example(
            target: "/?max-keys=2&prefix=J",
            signature: "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
        ),
    ]

    @Test("Signature Version 4 matches the examples in Amazon's documentation of S3")
    func published() {
        let credentials = S3Credentials(
            accessKeyID: "AKIAIOSFODNN7EXAMPLE",
            secretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
        )
        let date = SigningDate(Date(timeIntervalSince1970: 1_369_353_600))
        #expect(date.time == "20130524T000000Z")
        for example in Self.examples {
            let header = SignatureV4(credentials: credentials, region: "us-east-1").authorization(
                method: example.method,
                target: example.target,
                headers: example.headers + [
                    ("Host", "examplebucket.s3.amazonaws.com"), ("x-amz-date", date.time),
                    ("x-amz-content-sha256", example.payload),
                ],
                payload: example.payload,
                date: date
            )
            #expect(header.hasSuffix("Signature=\(example.signature)"), "\(header)")
            #expect(header.contains("Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"))
        }
    }

    /// Examples from the test suite that Amazon publishes for Signature Version 4.
    private static let suite = [
        Example(target: "/", signature: "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        Example(
            method: "POST",
            target: "/",
            signature: "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"
        ),
        Example(
            target: "/?Param1=value1&Param2=value2",
            signature: "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"
        ),
        Example(
            target: "/",
            headers: [("My-Header1", " value1"), ("My-Header2", " \"a   b   c\"")],
            signature: "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"
        ),
    ]

    @Test(
        "Signature Version 4 matches four examples of Amazon's test suite"
    )
    func testSuite() {
        let credentials = S3Credentials(
            accessKeyID: "AKIDEXAMPLE",
            secretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
        )
        let date = SigningDate(Date(timeIntervalSince1970: 1_440_938_160))
        #expect(date.time == "20150830T123600Z")
        for example in Self.suite {
            let header = SignatureV4(credentials: credentials, region: "us-east-1", service: "service").authorization(
                method: example.method,
                target: example.target,
                headers: example.headers + [("Host", "example.amazonaws.com"), ("X-Amz-Date", date.time)],
                payload: example.payload,
                date: date
            )
            #expect(header.hasSuffix("Signature=\(example.signature)"), "\(example.target) \(header)")
        }
    }
}
