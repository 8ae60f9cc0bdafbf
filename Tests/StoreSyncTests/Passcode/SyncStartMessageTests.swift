import Foundation
import SyncCryptography
import Testing

@testable import StoreSync

@Suite("The message that a setup starts with", .timeLimit(.minutes(60)))
struct SyncStartMessageTests {
    private static let secret = "Geheimnis-4711"

    private static func refusal(_ json: String) -> StoreSyncError? {
        refusal(Array(json.utf8))
    }

    private static func refusal(_ bytes: [UInt8]) -> StoreSyncError? {
        do {
            _ = try SyncStartMessage(requestData: bytes)
            return nil
        } catch {
            return error
        }
    }

    @Test("B1: A message's data and dictionary are its JSON, and are read back as the same message")
    func json() throws {
        var message = try SyncStartMessage(passcode: "correct horse", action: .new)
        #expect(message.requestDict == ["syncStart": ["action": "New", "passcode": "correct horse"]])
        #expect(message.requestData == #"{"syncStart":{"action":"New","passcode":"correct horse"}}"#)
        #expect(try SyncStartMessage(requestData: message.requestData) == message)
        message.action = .existing
        #expect(message.requestData == #"{"syncStart":{"action":"Existing","passcode":"correct horse"}}"#)
        let foreign = try JSONDecoder().decode([String: [String: String]].self, from: Data(message.requestData.utf8))
        #expect(foreign == message.requestDict)
    }

    @Test(
        "B2, B3: A message keeps its passcode, its action can be changed, and the default action deletes nothing"
    )
    func fields() throws {
        var message = try SyncStartMessage(passcode: "a")
        #expect(message.action == .existing)
        message.action = .new
        #expect(try message == SyncStartMessage(passcode: Password("a"), action: .new))
        #expect(SyncStartMessage.Action.allCases.map(\.rawValue) == ["New", "Existing"])
    }

    @Test("B15: A message without an action, from before actions existed, deletes nothing")
    func withoutAction() throws {
        let message = try SyncStartMessage(requestData: #" { "syncStart" : { "passcode" : "a" } } "#)
        #expect(try message == SyncStartMessage(passcode: "a", action: .existing))
    }

    @Test(
        "Every passcode is read back unchanged",
        arguments: [
            "a", " a ", "\"\\/", "\u{1}\u{1F}\t\n", "line\n\n", "line\r\n\n", "line\r", "Ä\u{10FFFF}🐎",
            "\u{7F}\u{85}\u{2028}",
            "\u{65}\u{301}", #"{"syncStart":{}}"#, String(repeating: "\u{1}", count: 1 << 16),
        ]
    )
    func roundTrip(passcode: String) throws {
        let message = try SyncStartMessage(passcode: passcode, action: .new)
        #expect(try SyncStartMessage(requestData: message.requestData) == message)
        let encoded = try JSONEncoder().encode(message.requestDict)
        #expect(try SyncStartMessage(requestData: encoded) == message)
    }

    @Test("An invalid message is refused with an error that quotes nothing of it")
    func refused() throws {
        let secret = Self.secret
        let corpus = [
            "", " ", "{", "{}", "[]", "null", "\"syncStart\"", "{\"syncStart\"}", #"{"syncStart":{}}"#,
            #"{"syncStart":null}"#, #"{"syncStart":"\#(secret)"}"#, #"{"syncStart":{"passcode":1}}"#,
            #"{"syncStart":{"passcode":null}}"#, #"{"syncStart":{"passcode":["\#(secret)"]}}"#,
            #"{"syncStart":{"action":"New"}}"#, #"{"syncStart":{"passcode":"\#(secret)","action":"new"}}"#,
            #"{"syncStart":{"passcode":"\#(secret)","action":"\#(secret)"}}"#,
            #"{"syncStart":{"passcode":"\#(secret)","action":""}}"#,
            #"{"syncStart":{"passcode":"\#(secret)","cookie":"x"}}"#,
            #"{"syncStart":{"\#(secret)":"x"}}"#,
            #"{"syncStart":{"passcode":"\#(secret)","passcode":"b"}}"#,
            #"{"syncStart":{"action":"Existing","passcode":"\#(secret)","action":"New"}}"#,
            #"{"syncStart":{"action":"Existing","p\u0061sscode":"\#(secret)","passcode":"b"}}"#,
            #"{"syncStart":{"passcode":"\#(secret)",}}"#, #"{"syncStart":{"passcode":"\#(secret)"}"#,
            #"{"syncStart":{"passcode":"\#(secret)"}}}"#, #"{"syncStart":{"passcode":"\#(secret)"}} x"#,
            #"{"syncStart":{"passcode":"\#(secret)"},"syncStart":{"passcode":"b"}}"#,
            #"{"syncPasscodeChange":{"passcode":"\#(secret)"}}"#, #"{"syncStart":{passcode:"\#(secret)"}}"#,
            #"{'syncStart':{'passcode':'\#(secret)'}}"#, #"{"syncStart":{"passcode":"\#(secret)\x"}}"#,
            #"{"syncStart":{"passcode":"\#(secret)\ud800"}}"#, #"{"syncStart":{"passcode":"\#(secret)\u12"}}"#,
            "{\"syncStart\":{\"passcode\":\"\(secret)\n\"}}", #"{"syncStart":{"passcode":"\#(secret)"#,
            #"{"syncStart":{"passcode":"\#(secret)\"#, "\u{FEFF}" + #"{"syncStart":{"passcode":"\#(secret)"}}"#,
            String(repeating: "{", count: 100_000), String(repeating: " ", count: 1 << 20),
        ]
        for json in corpus {
            let error = Self.refusal(json)
            #expect(error?.code == .invalidMessage, "\(json.prefix(80))")
            #expect(error.map { "\($0)".contains(secret) } == false, "\(json.prefix(80))")
        }
        #expect(
            Self.refusal(Array(#"{"syncStart":{"passcode":"a"#.utf8) + [0xFF] + Array("\"}}".utf8))?.code
                == .invalidMessage
        )
        #expect(Self.refusal(#"{"syncStart":{"passcode":""}}"#)?.code == .invalidPassword)
        let long = String(repeating: "a", count: Password.maximumBytes + 1)
        #expect(Self.refusal(#"{"syncStart":{"passcode":"\#(long)"}}"#)?.code == .invalidPassword)
    }

    @Test("A message with any byte changed, or cut anywhere, is another message or is refused")
    func changedBytes() throws {
        let bytes = Array(try SyncStartMessage(passcode: "ab", action: .new).requestData.utf8)
        for index in bytes.indices {
            #expect(Self.refusal(Array(bytes.prefix(index)))?.code == .invalidMessage)
            for value in UInt8.min...UInt8.max where value != bytes[index] {
                var changed = bytes
                changed[index] = value
                guard let message = try? SyncStartMessage(requestData: changed) else {
                    let refusal = Self.refusal(changed)?.code
                    #expect(refusal == .invalidMessage || refusal == .invalidPassword)
                    continue
                }
                #expect(try message != SyncStartMessage(passcode: "ab", action: .new))
            }
        }
    }

    @Test("D18: The passcode is in no description, dump or mirror")
    func redacted() throws {
        let message = try SyncStartMessage(passcode: Self.secret, action: .new)
        var dumped = ""
        dump(message, to: &dumped)
        for text in [
            "\(message)", String(reflecting: message), dumped, "\([message])",
            "\(Mirror(reflecting: message).children.map(\.value))",
        ] {
            #expect(!text.contains(Self.secret), "\(text)")
            #expect(text.contains("New") || text.contains("new"), "\(text)")
        }
    }
}
