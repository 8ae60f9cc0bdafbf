/// What an app saves with a client or a document.
extension [String: PropertyListValue] {
    /// Far less than readers accept, so that a list of a thousand clients stays small.
    private static var maximumBytes: Int { 1 << 20 }

    /// Refuses values that no device could read from the file that is to hold them.
    ///
    /// - Parameters:
    ///   - description: The description in the same file.
    ///   - subject: The client or document, for the error.
    /// - Throws: ``StoreSyncError/Code/invalidUserInfo``.
    func refuseUnreadable(with description: String, of subject: String) throws(StoreSyncError) {
        let file = PropertyListValue.dictionary(["description": .string(description), "userInfo": .dictionary(self)])
            .xml
        var reason: String?
        if file.count > Self.maximumBytes {
            reason = "as a property list they have \(file.count) bytes"
        } else {
            do {
                _ = try PropertyListValue(xml: file)
            } catch {
                reason = "in the property list that holds them, \(error)"
            }
        }
        guard let reason else { return }
        throw StoreSyncError(
            .invalidUserInfo,
            """
            The description and the user info of \(subject) can't be saved: \(reason). They may have 1 MiB together, 2,048 \
            keys in each dictionary, and 30 levels. Nothing was written.
            """
        )
    }
}
