import Foundation

extension HTTPSettings {
    /// Whether an attacker on the network could read the credentials, or the data that they protect, against the settings.
    package var exposesCredentials: Bool {
        guard case .protected = credentials, let url = URL(string: origin), url.scheme == "http" else { return false }
        let host = (url.host() ?? "").trimmingCharacters(in: CharacterSet(charactersIn: "[]"))
        return host != "localhost" && host != "::1" && host.wholeMatch(of: /127\.\d+\.\d+\.\d+/) == nil
    }
}
