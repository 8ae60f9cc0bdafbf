// swift-tools-version: 6.3

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
    name: "swift-store-sync-benchmarks",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "swift-store-sync", path: ".."),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        // Without its allocation counters, which read 0 on Linux: `compare` queries the allocator itself.
        .package(url: "https://github.com/ordo-one/benchmark", from: "1.38.1", traits: []),
    ],
    targets: [
        // Prints the table of ratios. It runs itself once for each contender and measurement.
        .executableTarget(
            name: "compare",
            dependencies: [
                "Workloads",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ]
        ),
        // The program with which `buckets` measures the S3 backend. Only this target needs SwiftNIO.
        .executableTarget(
            name: "bucketcopy",
            dependencies: [
                "CLibsodium",
                .product(name: "RemoteStorage", package: "swift-store-sync"),
                .product(name: "RemoteStorageS3", package: "swift-store-sync"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ]
        ),
        // The same workloads under `swift package benchmark`, for thresholds and profiles.
        .executableTarget(
            name: "OperationsBenchmarks",
            dependencies: ["Workloads", .product(name: "Benchmark", package: "benchmark")],
            path: "Benchmarks/OperationsBenchmarks",
            plugins: [.plugin(name: "BenchmarkPlugin", package: "benchmark")]
        ),
        .target(
            name: "Workloads",
            dependencies: [
                "CLibsodium",
                .product(name: "Operations", package: "swift-store-sync"),
                .product(name: "SyncCryptography", package: "swift-store-sync"),
                .target(name: "CMalloc", condition: .when(platforms: [.linux])),
            ]
        ),
        .systemLibrary(name: "CMalloc"),
        .systemLibrary(
            name: "CLibsodium",
            pkgConfig: "libsodium",
            providers: [.apt(["libsodium-dev"]), .brew(["libsodium"])]
        ),
    ],
    swiftLanguageModes: [.v6]
)

// Here, so that no target can forget them.
for target in package.targets where target.type != .system {
    target.swiftSettings = settings + (target.swiftSettings ?? [])
}
