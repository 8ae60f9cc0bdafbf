/// A set of this device, without its changes.
package struct OwnSet: Hashable, Sendable {
    /// The set.
    package let reference: SetReference
    /// The number of its changes.
    package let changeCount: Int

    init(_ reference: SetReference, changeCount: Int) {
        (self.reference, self.changeCount) = (reference, changeCount)
    }
}
