import Foundation
import InMemoryLogging
import Logging
import Operations
import RemoteStorage
import Testing
import ThreadSupport

@testable import StoreSync
@testable import SyncCryptography

/// The forms in which a secret could appear.
private struct Canaries {
    private let needles: [String]

    init(texts: [String], keys: [[UInt8]]) {
        let secrets = texts.map { Array($0.utf8) } + keys
        needles =
            texts
            + secrets.flatMap { secret in
                let start = secret.prefix(6)
                let numbers = start.map { "\($0)" }
                return [
                    start.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined(),
                    Data(secret).base64EncodedString().prefix(8).lowercased(),
                    numbers.joined(separator: ","), "-" + numbers.joined(separator: "-"),
                ]
            }
    }

    /// Returns whether a text contains a secret, ignoring case and white space.
    func show(in text: String) -> Bool {
        let squeezed = text.lowercased().filter { !$0.isWhitespace }
        return needles.contains { squeezed.contains($0.filter { !$0.isWhitespace }) }
    }

    /// Returns whether a secret is in any text that can be produced from a value of unknown type.
    func show(in value: Any) -> Bool {
        var text = String(describing: value) + String(reflecting: value) + "\(value)"
        dump(value, to: &text, maxDepth: 12, maxItems: 20_000)
        for child in Mirror(reflecting: value).children { text += String(reflecting: child.value) }
        if let value = value as? any Encodable, let json = try? JSONEncoder().encode(value) {
            text += String(decoding: json, as: UTF8.self)
        }
        return show(in: text)
    }
}

/// Answers every question with one password.
private final class Answers: ApplicationSyncDelegate {
    let password: Password

    init(_ password: Password) { self.password = password }

    func decideEncryption(
        _ question: EncryptionQuestion,
        of application: RemoteIdentifier
    ) async throws -> EncryptionDecision {
        .encrypted(password)
    }
}

@Suite("No secret in any description, log or error", .timeLimit(.minutes(60)))
struct NoSecretTests {
    @Test("D18: No description of a manager, operation or result, no log record and no file shows a secret")
    func values() async throws {
        let fixture = try Fixture()
        let text = "canary battery staple"
        let (password, second) = (try Password.cheap(text), try Password.cheap("canary for another time"))
        let log = InMemoryLogHandler()
        let logger = Logger(label: "trace") { _ in
            var handler = log
            handler.logLevel = .trace
            return handler
        }
        let configuration = OperationSupervisor.Configuration(
            logger: logger,
            temporaryDirectory: fixture.temporary
        )
        let backend = LocalFolderBackend(root: fixture.share)
        let state = try StateDirectory(url: fixture.folder.appending(path: "state"))
        let store = fixture.folder.appending(path: "store.sqlite")
        try Store.write(["one"], to: store)
        let answers = await Answers(password)
        let manager = ApplicationSyncManager(
            application: fixture.application,
            clientDescription: "laptop",
            backend: backend,
            state: state,
            supervisor: OperationSupervisor(configuration),
            delegate: answers
        )
        let document = manager.document(fixture.document)
        let registered = try await manager.register().value
        let key = try #require(registered.seal.key)
        let canaries = Canaries(
            texts: [text, "canary for another time"],
            keys: [key.master.bytes.withBytes { Array($0) }]
        )

        let upload = document.upload(storeAt: store)
        let request = WholeStoreDownloadRequest(url: store)
        let change = PasswordChangeOperation(
            to: second,
            of: fixture.application,
            parameters: .interactive,
            backend: backend,
            state: state
        )
        var values: [(String, Any)] = [
            ("manager", manager), ("document manager", document), ("configuration", configuration),
            ("registration", registered), ("seal", registered.seal), ("delegate", answers),
            ("decision", EncryptionDecision.encrypted(password)), ("state", state), ("backend", backend),
            ("question", EncryptionQuestion.joiningEncrypted(passwordWasWrong: true)), ("request", request),
            ("upload", try await upload.value), ("handle", upload),
            ("download", try await document.download(request).value),
            ("document", try await document.register().value), ("status", try await manager.status().value),
            ("report", try await manager.verify().value), ("change", change),
        ]
        values.append(("version", try await manager.supervisor.add(change).value))
        values.append(("operation", manager.registration(mayCreate: true)))
        values.append(("failure", try #require(await answers.failing(manager, fixture))))
        for (name, value) in values {
            let isShown = canaries.show(in: value)
            #expect(!isShown, "the \(name) shows a secret")
        }
        let entries = log.entries
        #expect(!entries.isEmpty)
        for entry in entries {
            let isShown = canaries.show(in: "\(entry.message) \(entry.metadata)")
            #expect(!isShown, "a log record shows a secret")
        }
        for (name, bytes) in try Self.files(below: fixture.folder) {
            for secret in [Data(text.utf8), Data(key.master.bytes.withBytes { Array($0) })] {
                #expect(bytes.range(of: secret) == nil, "\(name) holds a secret")
            }
        }
        // The check itself works: it finds each form of a secret.
        #expect(canaries.show(in: [text]) && canaries.show(in: key.master.bytes.withBytes { Array($0) }))
        #expect(canaries.show(in: key.master.bytes.withBytes { Data($0).base64EncodedString() }))
    }

    @Test("D18: No error that an attack causes shows a secret")
    func errors() async throws {
        let application = try await AttackedApplication()
        let key = try #require(try await application.reader.register().value.seal.key)
        let canaries = Canaries(
            texts: [AttackedApplication.password, AttackedApplication.secondPassword],
            keys: [key.master.bytes.withBytes { Array($0) }]
        )
        for (name, bytes) in application.sorted {
            for changed in [nil, bytes.prefix(bytes.count / 2), Data("canary".utf8)] {
                _ = try await application.outcome(of: name, [name: changed])
            }
            for former in application.former {
                for (place, old) in former where AttackedApplication.Kind(place) == AttackedApplication.Kind(name) {
                    _ = try await application.outcome(of: name, [name: old])
                }
            }
        }
        let wrong = application.reader.registration { _ in .encrypted(try Password.cheap("canary, and wrong")) }
        _ = try? await application.reader.supervisor.add(wrong).value
        let errors = application.errors.withLock { $0 }
        #expect(errors.count > 50 && Set(errors.map(\.code)).count >= 8)
        for error in errors {
            let isShown = canaries.show(in: error)
            #expect(!isShown, "\(error.code) shows a secret")
        }
    }

    private static func files(below folder: URL) throws -> [(String, Data)] {
        let names = try FileManager.default.subpathsOfDirectory(atPath: folder.path)
        return names.compactMap { name in
            (try? Data(contentsOf: folder.appending(path: name))).map { (name, $0) }
        }
    }
}

extension Answers {
    /// Returns the error that a manager gets whose delegate answers with a wrong password.
    fileprivate func failing(_ manager: ApplicationSyncManager, _ fixture: Fixture) async -> (any Error)? {
        let state = try? StateDirectory(url: fixture.folder.appending(path: "other state"))
        guard let state, let wrong = try? Password.cheap("canary, and wrong") else { return nil }
        let operation = StatusOperation(manager.application, backend: manager.backend, state: state) { question in
            guard question == .joiningEncrypted(passwordWasWrong: false) else {
                throw StoreSyncError(.wrongPassword, "The password was wrong.")
            }
            return .encrypted(wrong)
        }
        do {
            _ = try await manager.supervisor.add(operation).value
            return nil
        } catch {
            return error
        }
    }
}
