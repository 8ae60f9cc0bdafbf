import Foundation
import StoreChanges
import TestSupport
import Testing

@Suite("Inputs that fuzzing found")
struct ChangesCorpusTests {
    private static let corpus = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "Resources/Corpus")

    @Test("No input crashes a parser, and none is accepted in two forms", arguments: FuzzedChangesParser.allCases)
    func replay(parser: FuzzedChangesParser) throws {
        let folder = Self.corpus.appending(path: parser.rawValue)
        let files = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
        #expect(!files.isEmpty)
        for file in files {
            let bytes = try [UInt8](Data(contentsOf: file))
            for parser in FuzzedChangesParser.allCases { parser.parse(bytes) }
        }
    }
}
