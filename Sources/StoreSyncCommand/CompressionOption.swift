import ArgumentParser
import StoreSync

/// The values of `--compression`.
enum CompressionOption: String, ExpressibleByArgument, CaseIterable {
    case fast, auto, strong

    var compression: StoreCompression {
        switch self {
        case .fast: .fast
        case .auto: .automatic
        case .strong: .strong
        }
    }
}
