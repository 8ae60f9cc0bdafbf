import Foundation

/// Assembles the stores of a document that are pushed as deltas, one after the other, and checks each as a whole.
///
/// It needs the space of one store in the temporary directory. Consecutive deltas are applied to the store assembled
/// there, so each is read once.
struct DeltaVerification {
    let assembler: StoreAssembler
    let url: URL
    /// The manifests that could be read so far; a generation builds only on lower ones.
    var manifests: [StoreManifest] = []
    /// The manifest of the store in the temporary directory.
    private var assembled: StoreManifest?

    init(_ assembler: StoreAssembler, at url: URL) {
        self.assembler = assembler
        self.url = url
    }

    /// Checks a store that is a delta.
    ///
    /// - Throws: ``StoreSyncError`` that says what is wrong; `CancellationError`.
    mutating func check(_ manifest: StoreManifest) async throws {
        let path = assembler.hierarchy.manifest(manifest.name)
        let chain: StoreChain
        do throws(StoreChain.Failure) {
            chain = try StoreChain(manifest, among: manifests)
        } catch {
            switch error {
            case .notArrived(let name):
                throw StoreSyncError(
                    .noUploadedStore,
                    "It builds on \(name), which has not arrived, or was removed. If it stays missing, push with --whole, or run storesync vacuum if the document synchronizes."
                )
            case .misfit: throw StoreSyncError.corrupt(path, "it doesn't fit the upload that it builds on")
            }
        }
        let former = assembled
        assembled = nil
        if let former, chain.manifests.dropLast().last == former {
            try await assembler.apply(manifest, to: former, at: url)
            try await assembler.check(manifest, at: url)
        } else {
            removeFile()
            try await assembler.assemble(chain, at: url)
        }
        assembled = manifest
    }

    /// Removes the assembled store.
    func removeFile() {
        try? FileManager.default.removeItem(at: url)
    }
}
