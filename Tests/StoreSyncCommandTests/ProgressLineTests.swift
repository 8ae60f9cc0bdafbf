import Foundation
import Testing

@testable import StoreSyncCommand

@Suite("The line of the progress")
struct ProgressLineTests {
    @Test(
        "The progress line is never wrapped: it ends before the last column of the terminal",
        arguments: [
            ("notes.sqlite", 80, "notes.sqlite"), ("notes.sqlite", 6, "notes"), ("notes", 5, "note"), ("notes", 1, ""),
            ("\u{65E5}\u{672C}\u{8A9E}", 6, "\u{65E5}\u{672C}"),
            ("\u{65E5}\u{672C}\u{8A9E}", 7, "\u{65E5}\u{672C}\u{8A9E}"),
            ("a\u{1F511}b", 4, "a\u{1F511}"), ("██░░", 4, "██░"), ("Zu\u{308}rich", 4, "Zu\u{308}r"),
            ("\u{915}\u{93F}\u{915}\u{93F}", 4, "\u{915}\u{93F}"),
            ("\u{E01}\u{E33}\u{E01}\u{E33}", 5, "\u{E01}\u{E33}\u{E01}\u{E33}"),
            ("\u{E17}\u{E35}\u{E48}", 2, "\u{E17}\u{E35}\u{E48}"),
            ("\u{1112}\u{1161}\u{11AB}x", 4, "\u{1112}\u{1161}\u{11AB}x"),
        ]
    )
    func width(line: String, columns: Int, expected: String) {
        #expect(ProgressLine.fitted(line, columns: columns) == expected)
    }

    @Test("The progress line shows the control characters of a name, and doesn't obey them")
    func controls() {
        let line = ProgressLine.fitted("a\u{1B}[2Jb", columns: 80)
        #expect(!line.contains("\u{1B}") && line.hasPrefix("a") && line.hasSuffix("[2Jb"))
    }
}
