import Foundation
public import RemoteStorage

/// The environment's settings for S3, under the names that Amazon's own tools use.
///
/// Variables come first: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_REGION`,
/// `AWS_DEFAULT_REGION`, `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL`. Then comes the profile that `AWS_PROFILE` names, or
/// `default`, in `~/.aws/credentials` and `~/.aws/config` (`AWS_SHARED_CREDENTIALS_FILE`, `AWS_CONFIG_FILE`). Profiles whose
/// credentials come from another program or service aren't supported.
public struct S3Environment: Sendable {
    private let variables: [String: String]
    private let profileName: String
    /// The profile's settings; `nil` if the profile doesn't exist.
    private let profile: [String: String]?

    /// This process's environment.
    public static var process: S3Environment { S3Environment(ProcessInfo.processInfo.environment) }

    /// Reads an environment, and the files that it names.
    ///
    /// - Parameter variables: The environment's variables.
    public init(_ variables: [String: String]) {
        let variables = variables.filter { !$0.value.isEmpty }
        self.variables = variables
        profileName = variables["AWS_PROFILE"] ?? "default"
        let home = variables["HOME"] ?? URL.homeDirectory.path(percentEncoded: false)
        let configuration = Self.sections(of: variables["AWS_CONFIG_FILE"] ?? "\(home)/.aws/config", home: home)
        let credentials = Self.sections(
            of: variables["AWS_SHARED_CREDENTIALS_FILE"] ?? "\(home)/.aws/credentials",
            home: home
        )
        let found = [
            credentials[profileName], configuration["profile \(profileName)"],
            profileName == "default" ? configuration["default"] : nil,
        ].compactMap(\.self)
        profile = found.isEmpty ? nil : found.reduce([:]) { $0.merging($1) { first, _ in first } }
    }

    /// The region; `nil` if it isn't set.
    public var region: String? {
        variables["AWS_REGION"] ?? variables["AWS_DEFAULT_REGION"] ?? profile?["region"]
    }

    /// The server's URL; `nil` if it isn't set, which means Amazon's.
    public var endpoint: String? {
        variables["AWS_ENDPOINT_URL_S3"] ?? variables["AWS_ENDPOINT_URL"] ?? profile?["s3.endpoint_url"]
            ?? profile?["endpoint_url"]
    }

    /// The credentials.
    ///
    /// - Throws: ``/RemoteStorage/RemoteError/Code/unauthorized`` if there are none, with a message that says where to set them.
    public func credentials() throws(RemoteError) -> S3Credentials {
        if let identifier = variables["AWS_ACCESS_KEY_ID"], let secret = variables["AWS_SECRET_ACCESS_KEY"] {
            return S3Credentials(
                accessKeyID: identifier,
                secretAccessKey: secret,
                sessionToken: variables["AWS_SESSION_TOKEN"]
            )
        }
        if let profile, let identifier = profile["aws_access_key_id"], let secret = profile["aws_secret_access_key"] {
            return S3Credentials(
                accessKeyID: identifier,
                secretAccessKey: secret,
                sessionToken: profile["aws_session_token"]
            )
        }
        let reason =
            if profile != nil {
                "The profile \(profileName) has no access key of its own."
            } else if variables["AWS_PROFILE"] != nil {
                "There is no profile \(profileName)."
            } else {
                "The environment has none."
            }
        throw RemoteError(
            .unauthorized,
            """
            S3 needs an access key. \(reason) Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile \
            in AWS_PROFILE that has both in ~/.aws/credentials.
            """
        )
    }

    /// The sections of a file by name; empty if the file can't be read.
    private static func sections(of path: String, home: String) -> [String: [String: String]] {
        let path = path.hasPrefix("~/") ? home + path.dropFirst() : path
        guard let text = try? String(contentsOfFile: path, encoding: .utf8) else { return [:] }
        var sections: [String: [String: String]] = [:]
        var (section, group) = ("", "")
        for line in text.split(whereSeparator: \.isNewline) {
            let content = line.trimmingCharacters(in: .whitespaces)
            guard let first = content.first, first != "#", first != ";" else { continue }
            if first == "[", let end = content.firstIndex(of: "]") {
                let words = content[content.index(after: content.startIndex)..<end].split(
                    whereSeparator: \.isWhitespace
                )
                section = words.joined(separator: " ")
                group = ""
                sections[section, default: [:]] = [:]
                continue
            }
            guard let equals = content.firstIndex(of: "=") else { continue }
            let name = content[..<equals].trimmingCharacters(in: .whitespaces).lowercased()
            let value = content[content.index(after: equals)...].trimmingCharacters(in: .whitespaces)
            // An indented line belongs to the line above it that has no value: `s3 =`.
            let isNested = line.first?.isWhitespace == true && !group.isEmpty
            if !isNested { group = value.isEmpty ? name : "" }
            sections[section, default: [:]][isNested ? "\(group).\(name)" : name] = value
        }
        return sections
    }
}
