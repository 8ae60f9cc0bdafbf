import Foundation

/// Runs libFuzzer's loop: SwiftPM requires the program to define its own `main`.
@_silgen_name("LLVMFuzzerRunDriver")
private func runFuzzer(
    _ count: UnsafeMutablePointer<CInt>,
    _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>,
    _ testOneInput: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

/// Parses an input, as libFuzzer's callback.
@_cdecl("LLVMFuzzerTestOneInput")
public func testOneInput(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    Fuzz.parse(Array(UnsafeBufferPointer(start: start, count: count)))
    return 0
}

@main
enum Fuzz {
    /// The parser that the variable `FUZZ_PARSER` names.
    static let parse: @Sendable ([UInt8]) -> Void = {
        let name = ProcessInfo.processInfo.environment["FUZZ_PARSER"] ?? ""
        if let parser = FuzzedParser(rawValue: name) { return { parser.parse($0) } }
        if let parser = FuzzedKeychainParser(rawValue: name) { return { parser.parse($0) } }
        if let parser = FuzzedChangesParser(rawValue: name) { return { parser.parse($0) } }
        if let parser = FuzzedRemoteParser(rawValue: name) { return { parser.parse($0) } }
        let names =
            FuzzedParser.allCases.map(\.rawValue) + FuzzedKeychainParser.allCases.map(\.rawValue)
            + FuzzedChangesParser.allCases.map(\.rawValue) + FuzzedRemoteParser.allCases.map(\.rawValue)
        fatalError("FUZZ_PARSER names no parser. Set it to one of \(names).")
    }()

    static func main() {
        var count = CommandLine.argc
        var arguments = CommandLine.unsafeArgv
        exit(runFuzzer(&count, &arguments, testOneInput))
    }
}
