import Foundation
import Testing

@Suite("Inputs that fuzzing found for the parsers of files on the remote", .timeLimit(.minutes(60)))
struct RemoteCorpusTests {
    private static let corpus = URL(filePath: #filePath).deletingLastPathComponent()
        .appending(path: "Resources/Corpus")

    @Test(
        "Every parser parses each input again without a crash, and throws only errors of this package",
        arguments: FuzzedRemoteParser.allCases
    )
    func replay(parser: FuzzedRemoteParser) throws {
        let folder = Self.corpus.appending(path: parser.rawValue)
        let files = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
        #expect(!files.isEmpty)
        for file in files {
            let bytes = Array(try Data(contentsOf: file))
            for parser in FuzzedRemoteParser.allCases { parser.parse(bytes) }
        }
    }
}
