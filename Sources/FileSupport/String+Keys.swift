import Foundation

extension String {
    /// A path, in the form that it's remembered by.
    ///
    /// File systems of Apple platforms take two forms of one text (“é” as one character or as two) for the same name, and programs
    /// use both. So this is the composed form (NFC) there. On other systems the two are different names.
    package var asKey: String {
        #if canImport(Darwin)
        precomposedStringWithCanonicalMapping
        #else
        self
        #endif
    }
}
