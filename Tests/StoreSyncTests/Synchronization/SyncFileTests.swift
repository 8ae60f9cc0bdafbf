import Foundation
import RemoteStorage
import Testing

@testable import StoreSync

@Suite("The names of heads and segments, and the origin's versions")
struct SyncFileTests {
    @Test(
        "A name of another form is no segment's",
        arguments: [
            "1-2-0123456789abcdef.syncch", "1-2-0123456789abcdef", "01-2-0123456789abcdef.syncchg",
            "1-+2-0123456789abcdef.syncchg", "2-1-0123456789abcdef.syncchg", "0-1-0123456789abcdef.syncchg",
            "1-2-0123456789ABCDEF.syncchg", "1-2-0123456789abcde.syncchg", "1-2-0-0123456789abcdef.syncchg",
            "1-4611686018427387904-0123456789abcdef.syncchg", "1-2-0123456789abcdeg.syncchg", "",
        ]
    )
    func otherSegments(name: String) {
        #expect(SyncSegment(name) == nil)
    }

    @Test(
        "A name of another form is no head's",
        arguments: [
            "laptop-1-2-0123456789abcdef.recentsyncs", "laptop-01-2-0123456789abcdef.recentsync",
            "laptop-1-+2-0123456789abcdef.recentsync", "-1-2-0123456789abcdef.recentsync",
            "1-2-0123456789abcdef.recentsync", "laptop-1-2-0123456789ABCDEF.recentsync",
            "laptop-1-4611686018427387904-0123456789abcdef.recentsync", "laptop.recentsync",
        ]
    )
    func otherHeads(name: String) {
        #expect(SyncHeadName(name) == nil)
    }

    @Test("Names of heads and segments are parsed as written, also with hyphens in the client's name")
    func names() throws {
        let head = SyncHeadName(client: try RemoteIdentifier("my-laptop-2"), sequence: 3, number: 4)
        #expect(SyncHeadName(head.name) == head)
        let segment = SyncSegment(3...4)
        #expect(SyncSegment(segment.name) == segment)
    }

    @Test(
        "An origin of another format, or of other rules of merging, is refused",
        arguments: ["formatVersion", "foldVersion"]
    )
    func versions(key: String) throws {
        let upload = UploadName(client: try RemoteIdentifier("laptop"), generation: 1, upload: UUID().uuidString)
        let xml = SyncOrigin(baseline: upload).xml
        #expect(try SyncOrigin(xml, at: .root).baseline == upload)
        var values = try PropertyListValue.dictionary(in: xml, at: .root)
        #expect(values[key] == .integer(1))
        values[key] = .integer(2)
        let error = #expect(throws: StoreSyncError.self) {
            try SyncOrigin(PropertyListValue.dictionary(values).xml, at: .root)
        }
        #expect(error?.code == .unsupportedFormat)
    }
}
