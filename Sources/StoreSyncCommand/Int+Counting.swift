extension Int {
    /// This many things, for people: "1 file", "2 files".
    func of(_ thing: String) -> String { self == 1 ? "1 \(thing)" : "\(self) \(thing)s" }
}
