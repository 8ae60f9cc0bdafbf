import Foundation

/// The status of a store with the times that another one has: by a file system whose clock stands still, the two have the same.
///
/// - Parameters:
///   - status: The status.
///   - other: Where its times are from.
/// - Returns: The status with these times.
/// - Throws: An error if a status has another form.
package func status<Status: Codable>(_ status: Status, withTimesOf other: Status) throws -> Status {
    /// Of every file device, inode and size, then its two times, and then its counters.
    func files(_ status: Status) throws -> [[Int64]] {
        let form = try JSONDecoder().decode([String: [[Int64]]].self, from: JSONEncoder().encode(status))
        return form["files", default: []]
    }
    let others = try files(other)
    var result = try files(status)
    for index in result.indices where !result[index].isEmpty && !others[index].isEmpty {
        result[index].replaceSubrange(3..<7, with: others[index][3..<7])
    }
    return try JSONDecoder().decode(Status.self, from: JSONEncoder().encode(["files": result]))
}
