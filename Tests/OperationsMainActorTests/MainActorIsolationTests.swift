import Operations
import OperationsTesting
import Testing

// This target is compiled with the main actor as its default isolation, as an app's module is in Xcode.

// DOC: nonisolated
nonisolated struct Photo: Equatable, Sendable {
    var name: String
}

actor Develop: Operation {
    let former: Photo
    init(_ former: Photo) { self.former = former }

    func main(_ context: OperationContext) async throws -> Photo {
        let photo = Photo(name: "developed")
        return photo == former ? former : photo
    }
}
// DOC: end

/// A view's model, on the main actor by default isolation.
final class Album {
    private(set) var photos: [Photo] = []
    private(set) var isAsking = false
    private let supervisor = OperationSupervisor(width: 2)

    func develop() async throws {
        photos.append(try await supervisor.add(Develop(Photo(name: "raw"))).value)
    }

    func print() async throws -> String { try await supervisor.add(Print(self)).value }
}

protocol PaperChoosing: AnyObject, Sendable {
    func paper() async -> String
}

extension Album: PaperChoosing {
    func paper() async -> String {
        isAsking = true
        return "A4"
    }
}

/// An operation that asks a question on the main actor, and has a phase there.
actor Print: Operation {
    weak let chooser: (any PaperChoosing)?
    init(_ chooser: any PaperChoosing) { self.chooser = chooser }

    func main(_ context: OperationContext) async throws -> String {
        guard let chooser else { throw CancellationError() }
        return try await context.pause(awaiting: "the paper") { await chooser.paper() }
    }

    @MainActor func operationDidComplete(_ output: String) async {}
}

@Suite("Operations in a module whose default isolation is the main actor", .timeLimit(.minutes(60)))
nonisolated struct MainActorIsolationTests {
    @Test("An output can be used in the operation and on the main actor") @MainActor
    func output() async throws {
        let album = Album()
        try await album.develop()
        #expect(album.photos == [Photo(name: "developed")])
        #expect(try await Develop(Photo(name: "raw")).run() == Photo(name: "developed"))
    }

    @Test("An operation calls its delegate on the main actor") @MainActor
    func delegate() async throws {
        let album = Album()
        #expect(try await album.print() == "A4")
        #expect(album.isAsking)
    }

    @Test("A phase on the main actor counts as implemented") @MainActor
    func phases() async {
        let album = Album()
        #expect(await phasesImplemented(by: Print(album), output: "A4") == [.completion])
    }
}
