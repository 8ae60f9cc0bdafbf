import Foundation

// Two devices edit their notes at once, and synchronize over a folder. Each one's observation sees the other's notes.

let folder = FileManager.default.temporaryDirectory.appending(path: "notes-\(UUID().uuidString)")
defer { try? FileManager.default.removeItem(at: folder) }
let share = folder.appending(path: "share")
try FileManager.default.createDirectory(at: share, withIntermediateDirectories: true)

// An observation that never shows what it should doesn't end by itself.
Task.detached {
    try await Task.sleep(for: .seconds(60))
    print("A device doesn't show the other one's notes.")
    exit(EXIT_FAILURE)
}

let laptop = try await NotesApp(on: "laptop", home: folder.appending(path: "laptop"), share: share)
try await laptop.add("milk")
try await laptop.synchronize()
let phone = try await NotesApp(on: "phone", home: folder.appending(path: "phone"), share: share)

// The observations begin before anything is synchronized, and end when they show all notes.
let all: Set = ["milk", "bread", "tea"]
async let laptopShowsAll: Void = laptop.observe(all)
async let phoneShowsAll: Void = phone.observe(all)

try await laptop.add("bread")
try await phone.add("tea")
for app in [laptop, phone, laptop] { try await app.synchronize() }

try await laptopShowsAll
try await phoneShowsAll
print("Both devices show all notes.")
