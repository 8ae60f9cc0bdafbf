// swift-tools-version: 6.3

// A package that uses swift-store-sync as an app does: only its products, without `@testable`. It composes a pipeline of the
// managers' operations and its own ones, and tests its own operation with the suites that swift-store-sync ships. The
// command `notes` is an app with GRDB.

import PackageDescription

let settings: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    .treatAllWarnings(as: .error),
    .treatWarning("DeprecatedDeclaration", as: .warning),
]

let package = Package(
    name: "diary",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "swift-store-sync", path: "../.."),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
    ],
    targets: [
        .target(
            name: "Diary",
            dependencies: [
                .product(name: "Operations", package: "swift-store-sync"),
                .product(name: "RemoteStorage", package: "swift-store-sync"),
                .product(name: "StoreSync", package: "swift-store-sync"),
            ]
        ),
        // An app with GRDB, on two devices.
        .executableTarget(
            name: "notes",
            dependencies: [
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "Operations", package: "swift-store-sync"),
                .product(name: "RemoteStorage", package: "swift-store-sync"),
                .product(name: "StoreChanges", package: "swift-store-sync"),
                .product(name: "StoreSync", package: "swift-store-sync"),
                .product(name: "StoreSyncGRDB", package: "swift-store-sync"),
                .product(name: "SyncCryptography", package: "swift-store-sync"),
            ],
            path: "Sources/Notes"
        ),
        .testTarget(
            name: "DiaryTests",
            dependencies: [
                "Diary",
                .product(name: "Operations", package: "swift-store-sync"),
                .product(name: "OperationsTesting", package: "swift-store-sync"),
                .product(name: "RemoteStorage", package: "swift-store-sync"),
                .product(name: "StoreSync", package: "swift-store-sync"),
                .product(name: "SyncCryptography", package: "swift-store-sync"),
            ]
        ),
    ]
)

// Here, so that no target can forget them.
for target in package.targets where target.type != .system {
    target.swiftSettings = settings + (target.swiftSettings ?? [])
}
