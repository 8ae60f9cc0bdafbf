import Foundation

/// A JSON value for inspection.
enum JSON: Decodable, Hashable {
    case null
    case boolean(Bool)
    case number(Double)
    case string(String)
    case array([JSON])
    case object([String: JSON])

    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .null
        } else if let value = try? container.decode(Bool.self) {
            self = .boolean(value)
        } else if let value = try? container.decode(Double.self) {
            self = .number(value)
        } else if let value = try? container.decode(String.self) {
            self = .string(value)
        } else if let value = try? container.decode([JSON].self) {
            self = .array(value)
        } else {
            self = .object(try container.decode([String: JSON].self))
        }
    }

    subscript(key: String) -> JSON? { object?[key] }
    subscript(index: Int) -> JSON? { array.flatMap { $0.indices.contains(index) ? $0[index] : nil } }

    var object: [String: JSON]? { if case .object(let value) = self { value } else { nil } }
    var array: [JSON]? { if case .array(let value) = self { value } else { nil } }
    var string: String? { if case .string(let value) = self { value } else { nil } }
    var number: Double? { if case .number(let value) = self { value } else { nil } }
    var boolean: Bool? { if case .boolean(let value) = self { value } else { nil } }
    var keys: Set<String> { Set((object ?? [:]).keys) }
}

extension CommandResult {
    struct NotOneObject: Error {
        let result: CommandResult
    }

    /// The JSON object on standard output; throws unless it's exactly one, on one line.
    func json() throws -> JSON {
        guard output.hasSuffix("\n"), !output.dropLast().contains("\n"),
            let value = try? JSONDecoder().decode(JSON.self, from: Data(output.utf8)), value.object != nil
        else { throw NotOneObject(result: self) }
        return value
    }

    /// The code of the error that the command reported as a JSON object.
    func errorCode() throws -> String? {
        let object = try json()
        guard object.keys == ["error"], object["error"]?.keys == ["code", "message"] else { return nil }
        return object["error"]?["code"]?.string
    }

    func errorMessage() throws -> String { try json()["error"]?["message"]?.string ?? "" }
}
