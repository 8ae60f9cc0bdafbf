import Foundation

/// libFuzzer's own loop; SwiftPM wants the program's `main` to be ours.
@_silgen_name("LLVMFuzzerRunDriver")
private func runFuzzer(
    _ count: UnsafeMutablePointer<CInt>,
    _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>,
    _ testOneInput: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

/// What libFuzzer calls with each input.
@_cdecl("LLVMFuzzerTestOneInput")
public func testOneInput(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    Fuzz.parser.parse(Array(UnsafeBufferPointer(start: start, count: count)))
    return 0
}

@main
enum Fuzz {
    /// The parser that the variable `FUZZ_PARSER` names.
    static let parser: FuzzedParser = {
        let name = ProcessInfo.processInfo.environment["FUZZ_PARSER"] ?? ""
        guard let parser = FuzzedParser(rawValue: name) else {
            fatalError("set FUZZ_PARSER to one of \(FuzzedParser.allCases.map(\.rawValue))")
        }
        return parser
    }()

    static func main() {
        var count = CommandLine.argc
        var arguments = CommandLine.unsafeArgv
        exit(runFuzzer(&count, &arguments, testOneInput))
    }
}
