import RemoteStorage

// Checks of names: they stay unchanged, and no name leads out of its directory.
extension BackendCheck {
    /// Checks names with characters that have a meaning in URLs.
    public static let plainNames = BackendCheck(
        "Spaces, %, + and # in names stay unchanged"
    ) { trial in
        let names = [
            " leading", "trailing ", "a b", "%", "100%", "%20", "%2e%2e", "%252f", "+plus+", "#hash?&=", "a;b", "a:b@c",
            "semi;colon=1", "comma,", "~tilde", "$&'()*+,;=", "[brackets]", "-rf", "Index.HTML",
        ]
        try await keeps(names, trial)
    }

    /// Checks names that some programs hide.
    public static let dottedNames = BackendCheck(
        "Names that begin with a dot are kept and listed"
    ) { trial in
        try await keeps([".hidden", "...", ".registering-1", ".a b%"], trial)
    }

    /// Checks names beyond ASCII.
    public static let unicodeNames = BackendCheck(
        "Names beyond ASCII are kept, in either normal form"
    ) { trial in
        try await keeps(["ü文書👩‍👩‍👧", "שלום", "a\u{301}\u{323}", "İstanbul", "ﬁ"], trial)
        for (form, name) in [("composed", "caf\u{E9}"), ("decomposed", "cafe\u{301}")] {
            let directory = try RemotePath(form)
            try await trial.backend.write(Array(form.utf8), to: directory.appending(name), when: .ifAbsent)
            try await trial.requireNames([name], in: directory, "a name in \(form) form")
            try await trial.requireBytes(Array(form.utf8), at: directory.appending(name), "a name in \(form) form")
        }
    }

    /// Checks names that some storages don't support.
    public static let oddNames = BackendCheck(
        "An unusual name stays unchanged, or is refused before anything is written"
    ) { trial in
        let names = [
            "back\\slash", "\"'`$(x);|*", "<tag>&amp;", "new\nline", "tab\t", "\u{1}", "\u{7F}", "CON", "aux.txt",
            String(repeating: "x", count: 255),
        ]
        var kept: [String] = []
        let directory = try RemotePath("odd")
        try await trial.backend.createDirectory(at: directory)
        for name in names {
            let path = try directory.appending(name)
            do {
                try await trial.backend.write(Array(name.utf8), to: path, when: .ifAbsent)
                kept.append(name)
            } catch let error as RemoteError where [.invalidPath, .unsupported].contains(error.code) {
                try trial.require(error.path == path, "the refusal of the name “\(name)” doesn't name it: \(error)")
            }
        }
        try await trial.requireNames(kept.sorted(), in: directory, "odd names")
        for name in kept {
            try await trial.requireBytes(Array(name.utf8), at: directory.appending(name), "the name “\(name)”")
        }
    }

    /// Checks names that leave their directory if they are decoded once too often.
    public static let insideTheRoot = BackendCheck(
        "No name leads out of its directory"
    ) { trial in
        let backend = trial.backend
        let names = [
            "%2e%2e%2fcanary", "..%2fcanary", "%2e%2e", "%252e%252e%252fcanary", "..\\canary", "%2fcanary", "%00",
            "..%c0%afcanary", "．．∕canary", "canary%00.txt", "~root", "..;", "?..", "#..", "...",
        ]
        let (canary, inner) = (try RemotePath("canary"), try RemotePath("jail/inner"))
        try await backend.write([1, 2, 3], to: canary, when: .always)
        try await backend.write([4], to: RemotePath("jail/canary"), when: .always)
        try await backend.createDirectory(at: inner)
        for name in names {
            let path = try inner.appending(name)
            do {
                _ = try await backend.status(of: path)
                try trial.require(try await backend.read(path) == nil, "“\(path)” was never written, but can be read")
                try await backend.write([9], to: path, when: .ifAbsent)
                try await trial.requireBytes([9], at: path, "a name that tries to leave")
                try await backend.remove(path)
            } catch let error as RemoteError where [.invalidPath, .unsupported].contains(error.code) {
                // A refusal is as good: the request left its directory unchanged.
            }
            try await trial.requireNames([], in: inner, "after “\(name)”")
            try await trial.requireNames(["canary", "inner"], in: RemotePath("jail"), "after “\(name)”")
            try await trial.requireNames(["canary", "jail"], in: .root, "after “\(name)”")
        }
        try await trial.requireBytes([1, 2, 3], at: canary, "a file outside")
    }

    /// Requires that files and directories of these names are found by every request.
    private static func keeps(_ names: [String], _ trial: BackendTrial) async throws {
        let directory = try RemotePath("odd")
        for name in names {
            try await trial.backend.write(Array(name.utf8), to: directory.appending(name), when: .ifAbsent)
        }
        try await trial.requireNames(names.sorted(), in: directory, "names")
        for name in names {
            let path = try directory.appending(name)
            try await trial.requireBytes(Array(name.utf8), at: path, "the name “\(name)”")
            try trial.requireEqual(try await trial.backend.status(of: path)?.name, name, "the name in the status")
        }
        // The same names as directories, and as destinations of copies and moves.
        for name in names {
            let path = try RemotePath("directories").appending(name)
            try await trial.backend.write([1], to: path.appending(name), when: .always)
            try await trial.backend.copy(path.appending(name), to: path.appending("copy " + name), when: .ifAbsent)
            try await trial.backend.move(path, to: RemotePath("moved").appending(name))
            try await trial.requireNames(
                [name, "copy " + name].sorted(),
                in: RemotePath("moved").appending(name),
                "a moved directory"
            )
        }
        try await trial.requireNames(names.sorted(), in: RemotePath("moved"), "names of directories")
    }
}
