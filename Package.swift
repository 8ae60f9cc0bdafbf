// swift-tools-version: 6.3

import PackageDescription

/// The settings of every target: Swift 6, upcoming features, and warnings as errors.
let settings: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    .enableUpcomingFeature("InferIsolatedConformances"),
    .enableUpcomingFeature("ImmutableWeakCaptures"),
    .treatAllWarnings(as: .error),
    .treatWarning("DeprecatedDeclaration", as: .warning),
]

/// What only servers' backends need: a package that disables both traits builds and fetches no SwiftNIO.
let servers = TargetDependencyCondition.when(traits: ["WebDAV", "S3"])

// libsodium and zstd come with the system on Linux, and as packages to Apple platforms. Only these read a privacy manifest.
#if os(Linux)
let privacyManifest: [Resource] = []
let excluded = ["PrivacyInfo.xcprivacy"]
let sodium = Target.Dependency.target(name: "CSodium")
let zstd = Target.Dependency.target(name: "CZstd")
let libraries: [Package.Dependency] = []
let systemLibraries: [Target] = [
    .systemLibrary(name: "CSodium", pkgConfig: "libsodium", providers: [.apt(["libsodium-dev"])]),
    .systemLibrary(name: "CZstd", pkgConfig: "libzstd", providers: [.apt(["libzstd-dev"])]),
]
#else
let privacyManifest: [Resource] = [.copy("PrivacyInfo.xcprivacy")]
let excluded: [String] = []
let sodium = Target.Dependency.product(name: "Clibsodium", package: "swift-sodium")
let zstd = Target.Dependency.product(name: "libzstd", package: "zstd")
let libraries: [Package.Dependency] = [
    .package(url: "https://github.com/jedisct1/swift-sodium", from: "0.9.1"),
    .package(url: "https://github.com/facebook/zstd", from: "1.5.2"),
]
let systemLibraries: [Target] = []
#endif

let package = Package(
    name: "swift-store-sync",
    platforms: [.macOS(.v15), .iOS(.v18)],
    products: [
        .executable(name: "storesync", targets: ["StoreSyncCommand"]),
        .library(name: "StoreSyncGRDB", targets: ["StoreSyncGRDB"]),
        .library(name: "StoreSync", targets: ["StoreSync"]),
        .library(name: "StoreChanges", targets: ["StoreChanges"]),
        .library(name: "SyncCryptography", targets: ["SyncCryptography"]),
        .library(name: "RemoteStorageS3", targets: ["RemoteStorageS3"]),
        .library(name: "RemoteStorageWebDAV", targets: ["RemoteStorageWebDAV"]),
        .library(name: "RemoteStorageTesting", targets: ["RemoteStorageTesting"]),
        .library(name: "RemoteStorage", targets: ["RemoteStorage"]),
        .library(name: "Keychain", targets: ["Keychain"]),
        .library(name: "OperationsTesting", targets: ["OperationsTesting"]),
        .library(name: "OperationsServiceLifecycle", targets: ["OperationsServiceLifecycle"]),
        .library(name: "Operations", targets: ["Operations"]),
    ],
    traits: [
        .trait(name: "WebDAV", description: "WebDAV shares as remotes of storesync."),
        .trait(name: "S3", description: "S3 buckets as remotes of storesync."),
        .default(enabledTraits: ["WebDAV", "S3"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-async-algorithms", from: "1.1.4"),
        .package(url: "https://github.com/apple/swift-collections", from: "1.6.0"),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
        .package(url: "https://github.com/apple/swift-distributed-tracing", from: "1.7.3"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.6"),
        .package(url: "https://github.com/apple/swift-service-context", from: "1.5.1"),
        .package(url: "https://github.com/apple/swift-system", from: "1.8.1"),
        .package(url: "https://github.com/swift-server/async-http-client", from: "1.37.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
    ],
    targets: [
        // Ordered from the command line down to threads: a target imports only targets below it.
        .executableTarget(
            name: "StoreSyncCommand",
            dependencies: [
                "StoreSync", "StoreChanges", "RemoteStorage", "SyncCryptography", "Operations", "ThreadSupport",
                .target(name: "CLinux", condition: .when(platforms: [.linux])),
                .target(name: "RemoteStorageS3", condition: .when(traits: ["S3"])),
                .target(name: "RemoteStorageWebDAV", condition: .when(traits: ["WebDAV"])),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "GRDB", package: "GRDB.swift"),
            ]
        ),
        // What `Benchmarks/records` measures. It's here because only this package sees the declarations that it calls.
        .executableTarget(
            name: "records",
            dependencies: ["StoreChanges"],
            path: "Benchmarks/Sources/records"
        ),
        // Synchronizes through the database connection of an app that uses GRDB.
        .target(
            name: "StoreSyncGRDB",
            dependencies: [
                "StoreSync", "Operations",
                .product(name: "GRDB", package: "GRDB.swift"),
            ]
        ),
        .target(
            name: "StoreSync",
            dependencies: [
                "Operations", "RemoteStorage", "Keychain", "SyncCryptography", "StoreChanges", "ContentDigests",
                "DatabaseSupport", "FileSupport", "ByteCoding", "ThreadSupport",
                .target(name: "CLinux", condition: .when(platforms: [.linux])),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "SystemPackage", package: "swift-system"),
            ]
        ),
        // Record-level changes of SQLite stores. It knows neither a remote nor operations.
        .target(
            name: "StoreChanges",
            dependencies: [
                "DatabaseSupport", "ContentDigests", "FileSupport", "ByteCoding", "CSQLite",
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
                .product(name: "HeapModule", package: "swift-collections"),
                .product(name: "SystemPackage", package: "swift-system"),
            ]
        ),
        // Only packages that depend on these targets build SwiftNIO.
        .target(
            name: "RemoteStorageWebDAV",
            dependencies: [
                "RemoteStorageHTTP", "RemoteStorage", "ByteCoding", "ThreadSupport",
                .product(name: "AsyncHTTPClient", package: "async-http-client", condition: servers),
                .product(name: "Crypto", package: "swift-crypto", condition: servers),
                .product(name: "NIOCore", package: "swift-nio", condition: servers),
                .product(name: "NIOHTTP1", package: "swift-nio", condition: servers),
            ]
        ),
        .target(
            name: "RemoteStorageS3",
            dependencies: [
                "RemoteStorageHTTP", "RemoteStorage", "ByteCoding", "ThreadSupport",
                .product(name: "Crypto", package: "swift-crypto", condition: servers),
                .product(name: "NIOHTTP1", package: "swift-nio", condition: servers),
            ]
        ),
        // The code that both backends share.
        .target(
            name: "RemoteStorageHTTP",
            dependencies: [
                "RemoteStorage", "ByteCoding", "ThreadSupport",
                .product(name: "AsyncAlgorithms", package: "swift-async-algorithms", condition: servers),
                .product(name: "AsyncHTTPClient", package: "async-http-client", condition: servers),
                .product(name: "Crypto", package: "swift-crypto", condition: servers),
                .product(name: "NIOCore", package: "swift-nio", condition: servers),
                .product(name: "NIOHTTP1", package: "swift-nio", condition: servers),
                .product(name: "NIOPosix", package: "swift-nio", condition: servers),
                .product(name: "NIOSSL", package: "swift-nio-ssl", condition: servers),
            ]
        ),
        .target(
            name: "RemoteStorageTesting",
            dependencies: ["RemoteStorage", "OperationsTesting", "ThreadSupport"]
        ),
        .target(
            name: "Keychain",
            dependencies: [
                "SyncCryptography", "DatabaseSupport", "FileSupport", "ByteCoding", "ThreadSupport",
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "SystemPackage", package: "swift-system"),
            ]
        ),
        .target(
            name: "SyncCryptography",
            dependencies: ["ContentDigests", sodium, zstd, "ByteCoding", "ThreadSupport"]
        ),
        // How two states of a file are compared, without keys.
        .target(
            name: "ContentDigests",
            dependencies: [sodium, "FileSupport", "ByteCoding", "ThreadSupport"]
        ),
        // How all of this package's databases are opened and read as files, and how a database is found unchanged.
        .target(
            name: "DatabaseSupport",
            dependencies: [
                "FileSupport", "ByteCoding", "CSQLite",
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
                .product(name: "SystemPackage", package: "swift-system"),
            ]
        ),
        .target(
            name: "RemoteStorage",
            dependencies: [
                "FileSupport", "ThreadSupport",
                .product(name: "SystemPackage", package: "swift-system"),
            ]
        ),
        .target(
            name: "OperationsTesting",
            dependencies: ["Operations", "ThreadSupport"]
        ),
        .target(
            name: "OperationsServiceLifecycle",
            dependencies: [
                "Operations",
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ]
        ),
        .target(
            name: "Operations",
            dependencies: [
                "FileSupport", "ThreadSupport",
                .product(name: "DequeModule", package: "swift-collections"),
                .product(name: "HeapModule", package: "swift-collections"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "Metrics", package: "swift-metrics"),
                .product(name: "ServiceContextModule", package: "swift-service-context"),
                .product(name: "SystemPackage", package: "swift-system"),
                .product(name: "Tracing", package: "swift-distributed-tracing"),
            ]
        ),
        .target(
            name: "FileSupport",
            dependencies: [
                "ThreadSupport",
                .target(name: "CLinux", condition: .when(platforms: [.linux])),
                .product(name: "SystemPackage", package: "swift-system"),
            ],
            exclude: excluded,
            resources: privacyManifest
        ),
        .target(
            name: "ThreadSupport",
            dependencies: [.product(name: "DequeModule", package: "swift-collections")]
        ),
        .target(name: "ByteCoding"),
        // Functions of SQLite that Swift can't call.
        .systemLibrary(
            name: "CSQLite",
            providers: [.apt(["libsqlite3-dev"])]
        ),
        // Functions of Glibc that Swift's Glibc module doesn't export.
        .systemLibrary(name: "CLinux"),

        // How thorough the tests are, and what several test targets need.
        .target(name: "TestSupport", path: "Tests/TestSupport"),
        .testTarget(name: "DocumentationTests"),
        .testTarget(
            name: "FileSupportTests",
            dependencies: [
                "FileSupport", "TestSupport", "ThreadSupport",
                .product(name: "SystemPackage", package: "swift-system"),
            ]
        ),
        .testTarget(name: "ByteCodingTests", dependencies: ["ByteCoding"]),
        .testTarget(name: "ThreadSupportTests", dependencies: ["ThreadSupport"]),
        .testTarget(
            name: "OperationsTests",
            dependencies: [
                "Operations", "OperationsTesting", "TestSupport", "ThreadSupport",
                .product(name: "InMemoryLogging", package: "swift-log"),
                .product(name: "InMemoryTracing", package: "swift-distributed-tracing"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "Metrics", package: "swift-metrics"),
                .product(name: "MetricsTestKit", package: "swift-metrics"),
                .product(name: "ServiceContextModule", package: "swift-service-context"),
                .product(name: "Tracing", package: "swift-distributed-tracing"),
            ]
        ),
        // Isolated to the main actor, as an app's module is by default in Xcode.
        .testTarget(
            name: "OperationsMainActorTests",
            dependencies: ["Operations", "OperationsTesting"],
            swiftSettings: [.defaultIsolation(MainActor.self)]
        ),
        .testTarget(
            name: "OperationsServiceLifecycleTests",
            dependencies: [
                "Operations", "OperationsServiceLifecycle", "OperationsTesting",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "ServiceLifecycleTestKit", package: "swift-service-lifecycle"),
            ]
        ),
        .testTarget(
            name: "OperationsTestingTests",
            dependencies: ["OperationsTesting", "Operations", "ThreadSupport"]
        ),
        .testTarget(
            name: "RemoteStorageTests",
            dependencies: ["RemoteStorage", "RemoteStorageTesting", "FileSupport", "ThreadSupport"]
        ),
        .testTarget(
            name: "RemoteStorageTestingTests",
            dependencies: ["RemoteStorageTesting", "OperationsTesting", "RemoteStorage", "ThreadSupport"]
        ),
        // Servers that tests start, and the proxies between them and a client.
        .target(
            name: "ServerFixtures",
            dependencies: ["RemoteStorage", "TestSupport", "ThreadSupport"],
            path: "Tests/ServerFixtures"
        ),
        .target(
            name: "WebDAVServers",
            dependencies: [
                "ServerFixtures", "RemoteStorageWebDAV", "RemoteStorage",
                .product(name: "Crypto", package: "swift-crypto", condition: servers),
            ],
            path: "Tests/WebDAVServers"
        ),
        .target(
            name: "S3Servers",
            dependencies: [
                "ServerFixtures", "RemoteStorageS3", "RemoteStorageHTTP", "RemoteStorage", "TestSupport",
                .product(name: "NIOHTTP1", package: "swift-nio", condition: servers),
            ],
            path: "Tests/S3Servers"
        ),
        .testTarget(
            name: "RemoteStorageWebDAVTests",
            dependencies: [
                "RemoteStorageWebDAV", "RemoteStorageHTTP", "RemoteStorageTesting", "RemoteStorage", "ThreadSupport",
                "ServerFixtures", "TestSupport", "WebDAVServers",
                .product(name: "NIOHTTP1", package: "swift-nio", condition: servers),
            ]
        ),
        .testTarget(
            name: "RemoteStorageS3Tests",
            dependencies: [
                "RemoteStorageS3", "RemoteStorageHTTP", "RemoteStorageTesting", "RemoteStorage", "ByteCoding",
                "ThreadSupport", "ServerFixtures", "S3Servers", "TestSupport",
                .product(name: "Crypto", package: "swift-crypto", condition: servers),
                .product(name: "NIOHTTP1", package: "swift-nio", condition: servers),
            ]
        ),
        .testTarget(
            name: "KeychainTests",
            dependencies: [
                "Keychain", "OperationsTesting", "SyncCryptography", "FileSupport", "TestSupport", "ThreadSupport",
                .product(name: "GRDB", package: "GRDB.swift"),
            ],
            // Tests read them from the source directory.
            exclude: ["Resources"]
        ),
        .testTarget(
            name: "ContentDigestsTests",
            dependencies: ["ContentDigests", "OperationsTesting", "TestSupport"]
        ),
        .testTarget(
            name: "SyncCryptographyTests",
            dependencies: [
                "SyncCryptography", "ContentDigests", "ByteCoding", "OperationsTesting", "TestSupport", "ThreadSupport",
            ],
            // Tests read them from the source directory, as does a program in another language.
            exclude: ["Resources"]
        ),
        .testTarget(
            name: "StoreSyncTests",
            dependencies: [
                "StoreSync", "StoreChanges", "RemoteStorageS3", "RemoteStorageWebDAV", "RemoteStorageHTTP",
                "RemoteStorage", "RemoteStorageTesting", "Keychain", "Operations", "OperationsTesting",
                "SyncCryptography", "ContentDigests", "ByteCoding", "ThreadSupport", "ServerFixtures", "S3Servers",
                "TestSupport",
                .product(name: "NIOHTTP1", package: "swift-nio", condition: servers),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "InMemoryLogging", package: "swift-log"),
                .product(name: "Logging", package: "swift-log"),
            ],
            // Tests read them from the source directory.
            exclude: ["Resources"]
        ),
        .testTarget(
            name: "StoreSyncGRDBTests",
            dependencies: [
                "StoreSyncGRDB", "StoreSync", "StoreChanges", "RemoteStorage", "SyncCryptography", "Operations",
                "FileSupport", "ThreadSupport",
                .product(name: "GRDB", package: "GRDB.swift"),
            ]
        ),
        .testTarget(
            name: "StoreChangesTests",
            dependencies: [
                "StoreChanges", "FileSupport", "OperationsTesting", "TestSupport",
                .product(name: "GRDB", package: "GRDB.swift"),
            ],
            // Tests read them from the source directory, as does a program in another language.
            exclude: ["Resources"]
        ),
        .testTarget(
            name: "StoreSyncCommandTests",
            dependencies: [
                "StoreSyncCommand", "StoreSync", "RemoteStorage", "Keychain", "SyncCryptography", "OperationsTesting",
                "ThreadSupport", "ServerFixtures", "S3Servers", "TestSupport", "WebDAVServers",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "GRDB", package: "GRDB.swift"),
            ]
        ),
    ],
    swiftLanguageModes: [.v6]
)

package.dependencies += libraries
package.targets += systemLibraries

// Here, so that no target can forget them. A target adds only settings of its own.
for target in package.targets where target.type != .system {
    target.swiftSettings = settings + (target.swiftSettings ?? [])
}
