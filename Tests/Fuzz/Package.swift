// swift-tools-version: 6.3

// Fuzzes the parsers of data from the remote, with libFuzzer. It is a separate package because everything in it is built with
// other flags, which `Tests/Fuzz/run` sets.

import PackageDescription

let package = Package(
    name: "swift-store-sync-fuzz",
    platforms: [.macOS(.v15)],
    dependencies: [.package(name: "swift-store-sync", path: "../..")],
    targets: [
        .executableTarget(
            name: "Fuzz",
            dependencies: [
                .product(name: "Keychain", package: "swift-store-sync"),
                .product(name: "RemoteStorage", package: "swift-store-sync"),
                .product(name: "StoreChanges", package: "swift-store-sync"),
                .product(name: "StoreSync", package: "swift-store-sync"),
                .product(name: "SyncCryptography", package: "swift-store-sync"),
            ],
            // Without this flag, a target of one file is compiled as a script, which can't have `@main`.
            swiftSettings: [.unsafeFlags(["-parse-as-library"])],
            linkerSettings: [.unsafeFlags(["-sanitize=fuzzer,address", "-use-ld=lld"])]
        )
    ],
    swiftLanguageModes: [.v6]
)
