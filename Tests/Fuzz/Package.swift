// swift-tools-version: 6.3

// Fuzzes the parsers of what comes from the remote, with libFuzzer. A package of its own, since everything is built with other
// flags for it: `Tests/Fuzz/run` knows them.

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
                .product(name: "StoreSync", package: "swift-store-sync"),
                .product(name: "SyncCryptography", package: "swift-store-sync"),
            ],
            // What has `@main` is no script, though it is one file.
            swiftSettings: [.unsafeFlags(["-parse-as-library"])],
            linkerSettings: [.unsafeFlags(["-sanitize=fuzzer,address", "-use-ld=lld"])]
        )
    ],
    swiftLanguageModes: [.v6]
)
