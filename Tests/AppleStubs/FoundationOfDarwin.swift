// Foundation without what it exports of Glibc, and with what only Apple's has.
@_exported public import Darwin
@_exported public import FoundationEssentials

@_exported public import struct Foundation.CharacterSet
@_exported public import class Foundation.FileHandle
@_exported public import class Foundation.NSError
@_exported public import class Foundation.NSNumber
@_exported public import class Foundation.NSObject
@_exported public import struct Foundation.ObjCBool
@_exported public import enum Foundation.POSIXErrorCode
@_exported public import class Foundation.PropertyListSerialization
@_exported public import class Foundation.Thread
@_exported public import struct Foundation.URLResourceValues
@_exported public import class FoundationXML.XMLParser
@_exported public import protocol FoundationXML.XMLParserDelegate

/// Any object.
public typealias CFTypeRef = Any

/// Returns what tells an object's type.
public func CFGetTypeID(_ object: CFTypeRef) -> UInt { 0 }

/// Returns what tells the type of Booleans.
public func CFBooleanGetTypeID() -> UInt { 0 }

/// Returns whether a number is one with a fraction.
public func CFNumberIsFloatType(_ number: NSNumber) -> Bool { false }

extension URL {
    /// Finds a file by its bookmark.
    public init(resolvingBookmarkData bookmark: Data, bookmarkDataIsStale isStale: inout Bool) throws {
        self.init(filePath: String(decoding: bookmark, as: UTF8.self))
    }

    /// Begins to use a file that the user picked.
    public func startAccessingSecurityScopedResource() -> Bool { true }

    /// Ends that.
    public func stopAccessingSecurityScopedResource() {}
}
