import Foundation
import StoreSync

/// A value of a property list as JSON: dates in ISO 8601, bytes in Base64.
struct JSONValue: Encodable {
    private let value: PropertyListValue

    init(_ value: PropertyListValue) { self.value = value }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch value {
        case .string(let value): try container.encode(value)
        case .integer(let value): try container.encode(value)
        // JSON has no infinities.
        case .real(let value) where value.isFinite: try container.encode(value)
        case .real(let value): try container.encode("\(value)")
        case .boolean(let value): try container.encode(value)
        case .date(let value): try container.encode(value)
        case .data(let value): try container.encode(value.base64EncodedString())
        case .array(let values): try container.encode(values.map(JSONValue.init))
        case .dictionary(let values): try container.encode(values.mapValues(JSONValue.init))
        }
    }
}
