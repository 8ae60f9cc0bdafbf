import Foundation
import Testing

@testable import SyncCryptography

@Suite("The corpus of inputs that fuzzing found", .timeLimit(.minutes(60)))
struct CorpusTests {
    @Test(
        "Every cryptographic parser parses each input that fuzzing found, without a crash, with typed errors only",
        arguments: FuzzedParser.allCases
    )
    func replay(parser: FuzzedParser) throws {
        let corpus = FormatVectors.resources.appending(path: "Corpus/\(parser.rawValue)")
        let files = try FileManager.default.contentsOfDirectory(at: corpus, includingPropertiesForKeys: nil)
        #expect(!files.isEmpty)
        for file in files {
            let bytes = Array(try Data(contentsOf: file))
            for parser in FuzzedParser.allCases { parser.parse(bytes) }
        }
    }
}
