#if os(Linux)
import Foundation

/// The control groups of this process, by which a container or a service manager limits its memory.
struct ControlGroups {
    /// Where control groups are mounted.
    var root = "/sys/fs/cgroup"
    /// The file that names this process's groups.
    var membership = "/proc/self/cgroup"

    /// The smallest limit of the process's groups and of the groups above them, in bytes; `nil` without a limit.
    var memoryLimit: UInt64? {
        guard let text = try? String(contentsOfFile: membership, encoding: .utf8) else { return nil }
        return text.split(separator: "\n").flatMap(limits).min()
    }

    /// Returns the limits that a line of the membership leads to: `0::<path>`, or `<number>:memory:<path>` in version 1.
    private func limits(_ line: Substring) -> [UInt64] {
        let fields = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
        guard fields.count == 3 else { return [] }
        let file: String
        if fields[1].isEmpty {
            file = "memory.max"
        } else if fields[1].split(separator: ",").contains("memory") {
            file = "memory/memory.limit_in_bytes"
        } else {
            return []
        }
        return limits(of: fields[2].split(separator: "/"), file)
    }

    /// Returns the limits of a group and of all groups above it.
    ///
    /// A container may not see the groups above its own, and finds its own at the root.
    private func limits(of path: [Substring], _ file: String) -> [UInt64] {
        let parts = file.split(separator: "/")
        return (0...path.count).compactMap { count in
            let components = [root[...]] + parts.dropLast() + path.prefix(count) + parts.suffix(1)
            let text = try? String(contentsOfFile: components.joined(separator: "/"), encoding: .utf8)
            // Without a limit, version 2 says "max" and version 1 gives a number close to the largest one.
            return text.flatMap { UInt64($0.trimmingCharacters(in: .whitespacesAndNewlines)) }
        }
    }
}
#endif
