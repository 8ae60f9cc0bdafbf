import Foundation
import Testing

@Suite("The corpus of inputs that fuzzing found in the keychain's parsers", .timeLimit(.minutes(60)))
struct KeychainCorpusTests {
    private static let corpus = URL(filePath: #filePath).deletingLastPathComponent()
        .appending(path: "Resources/Corpus")

    @Test(
        "Every keychain parser parses each input that fuzzing found, without a crash, with typed errors only",
        arguments: FuzzedKeychainParser.allCases
    )
    func replay(parser: FuzzedKeychainParser) throws {
        let folder = Self.corpus.appending(path: parser.rawValue)
        let files = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
        #expect(!files.isEmpty)
        for file in files {
            let bytes = Array(try Data(contentsOf: file))
            for parser in FuzzedKeychainParser.allCases { parser.parse(bytes) }
        }
    }
}
