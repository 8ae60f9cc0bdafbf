import ArgumentParser
import StoreSync

/// The values of `--compression`.
enum CompressionOption: String, ExpressibleByArgument, CaseIterable {
    case off, fast, auto, strong

    var compression: StoreCompression {
        switch self {
        case .off: .off
        case .fast: .fast
        case .auto: .automatic
        case .strong: .strong
        }
    }
}
