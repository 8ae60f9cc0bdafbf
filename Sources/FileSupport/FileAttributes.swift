#if canImport(Darwin)
import Darwin
import Foundation
#else
import CLinux
import Glibc
#endif

/// What a file has besides its content, its owner and its mode.
///
/// All calls take a path. They open no file: closing one would release the locks that SQLite has on it in this process.
package enum FileAttributes {
    /// Gives a file the extended attributes, the access list and, where there are such, the protection class of another file.
    ///
    /// What the file system refuses is left out: no attribute is worth the failure of what the file is for.
    ///
    /// - Parameters:
    ///   - path: The file that has them.
    ///   - newPath: The file that gets them, with its final mode: on Linux an access list is part of it.
    package static func copy(from path: String, to newPath: String) {
        for name in names(path) {
            guard let value = value(name, path) else { continue }
            set(name, to: value, newPath)
        }
        #if canImport(Darwin)
        if let list = acl_get_file(path, ACL_TYPE_EXTENDED) {
            _ = acl_set_file(newPath, ACL_TYPE_EXTENDED, list)
            acl_free(UnsafeMutableRawPointer(list))
        }
        let attributes = try? FileManager.default.attributesOfItem(atPath: path)
        if let protection = attributes?[.protectionKey] {
            try? FileManager.default.setAttributes([.protectionKey: protection], ofItemAtPath: newPath)
        }
        #endif
    }

    /// The names of a file's extended attributes.
    package static func names(_ path: String) -> [String] {
        let bytes = filled { buffer, size in
            #if canImport(Darwin)
            listxattr(path, buffer?.assumingMemoryBound(to: CChar.self), size, XATTR_NOFOLLOW)
            #else
            llistxattr(path, buffer?.assumingMemoryBound(to: CChar.self), size)
            #endif
        }
        return (bytes ?? []).split(separator: 0).map { String(decoding: $0, as: UTF8.self) }
    }

    /// The value of an extended attribute; `nil` if the file doesn't have it.
    package static func value(_ name: String, _ path: String) -> [UInt8]? {
        filled { buffer, size in
            #if canImport(Darwin)
            getxattr(path, name, buffer, size, 0, XATTR_NOFOLLOW)
            #else
            lgetxattr(path, name, buffer, size)
            #endif
        }
    }

    /// Sets an extended attribute; returns whether the file system did it.
    @discardableResult
    package static func set(_ name: String, to value: [UInt8], _ path: String) -> Bool {
        #if canImport(Darwin)
        setxattr(path, name, value, value.count, 0, XATTR_NOFOLLOW) == 0
        #else
        lsetxattr(path, name, value, value.count, 0) == 0
        #endif
    }

    /// The bytes that a call writes; `nil` if it fails, as it does when they have become more since they were counted.
    private static func filled(_ call: (UnsafeMutableRawPointer?, Int) -> Int) -> [UInt8]? {
        let count = call(nil, 0)
        guard count > 0 else { return count == 0 ? [] : nil }
        var bytes = [UInt8](repeating: 0, count: count)
        let written = bytes.withUnsafeMutableBytes { call($0.baseAddress, count) }
        guard written >= 0 else { return nil }
        return Array(bytes.prefix(written))
    }
}
