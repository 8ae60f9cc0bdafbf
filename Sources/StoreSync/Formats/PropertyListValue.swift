public import Foundation

/// A property list, as a value that can be sent and compared.
public enum PropertyListValue: Sendable, Hashable {
    /// Text.
    case string(String)
    /// A whole number.
    case integer(Int)
    /// A number with a fraction.
    case real(Double)
    /// Yes or no.
    case boolean(Bool)
    /// A point in time.
    case date(Date)
    /// Bytes.
    case data(Data)
    /// Values in order.
    case array([PropertyListValue])
    /// Values by name.
    case dictionary([String: PropertyListValue])

    /// Why bytes could not be read as a property list.
    struct Malformed: Error, CustomStringConvertible {
        var description: String
    }

    /// Reads an XML property list from an untrusted source: neither its depth nor its content can do harm.
    ///
    /// - Parameter bytes: The file's content.
    /// - Throws: ``Malformed``.
    init(xml bytes: [UInt8]) throws {
        let source = try PropertyListSource(bytes)
        let object: Any
        do {
            object = try PropertyListSerialization.propertyList(from: Data(source.document), format: nil)
        } catch {
            throw Malformed(description: "it isn't a complete property list")
        }
        guard let value = Self(object) else { throw Malformed(description: "it holds a value of an unknown type") }
        self = value
    }

    private init?(_ object: Any) {
        switch object {
        case let value as String: self = .string(value)
        case let value as Date: self = .date(value)
        case let value as Data: self = .data(value)
        case let value as [Any]:
            let values = value.compactMap { Self($0) }
            guard values.count == value.count else { return nil }
            self = .array(values)
        case let value as [String: Any]:
            let values = value.compactMapValues { Self($0) }
            guard values.count == value.count else { return nil }
            self = .dictionary(values)
        default:
            guard let number = Self.number(object) else { return nil }
            self = number
        }
    }

    /// A Boolean or a number.
    ///
    /// Foundation has one class for all of them, so a cast doesn't distinguish them: 1.0 is an `Int` too, and so is `true` on
    /// Apple platforms.
    private static func number(_ object: Any) -> PropertyListValue? {
        #if canImport(Darwin)
        guard let number = object as? NSNumber else { return nil }
        if CFGetTypeID(number) == CFBooleanGetTypeID() { return .boolean(number.boolValue) }
        if CFNumberIsFloatType(number) { return .real(number.doubleValue) }
        #else
        if type(of: object) == Bool.self { return (object as? Bool).map(Self.boolean) }
        if let number = object as? NSNumber, ["d", "f"].contains(String(cString: number.objCType)) {
            return .real(number.doubleValue)
        }
        #endif
        return (object as? Int).map(Self.integer) ?? (object as? Double).map(Self.real)
    }

    /// The property list as XML.
    var xml: [UInt8] {
        guard
            let data = try? PropertyListSerialization.data(fromPropertyList: object, format: .xml, options: 0)
        else { preconditionFailure("a property list could not be written") }
        return Array(data)
    }

    private var object: Any {
        switch self {
        case .string(let value): value
        case .integer(let value): value
        case .real(let value): value
        case .boolean(let value): value
        case .date(let value): value
        case .data(let value): value
        case .array(let values): Self.foundationArray(values.map(\.object))
        case .dictionary(let values): values.mapValues(\.object)
        }
    }

    /// Returns an array as Foundation has it.
    ///
    /// A static Foundation lacks the conversion of arrays, unless the program names it. Without it, a property list with an
    /// array can neither be written nor read.
    private static func foundationArray(_ objects: [Any]) -> Any {
        #if canImport(Darwin)
        objects
        #else
        objects._bridgeToObjectiveC()
        #endif
    }
}

extension PropertyListValue {
    var string: String? {
        if case .string(let value) = self { value } else { nil }
    }
    var integer: Int? {
        if case .integer(let value) = self { value } else { nil }
    }
    var boolean: Bool? {
        if case .boolean(let value) = self { value } else { nil }
    }
    var date: Date? {
        if case .date(let value) = self { value } else { nil }
    }
    var array: [PropertyListValue]? {
        if case .array(let values) = self { values } else { nil }
    }
    var dictionary: [String: PropertyListValue]? {
        if case .dictionary(let values) = self { values } else { nil }
    }
}
