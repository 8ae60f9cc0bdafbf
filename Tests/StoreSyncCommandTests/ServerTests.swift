import Foundation
import OperationsTesting
import S3Servers
import ServerFixtures
import TestSupport
import Testing
import ThreadSupport
import WebDAVServers

extension CommandTests {
    @Suite("On real servers", .serialized, .timeLimit(.minutes(60)))
    struct ServerTests {
        private static let kills = TestDepth.choose(quick: 2, deep: 100)
        private static let races = TestDepth.choose(quick: 1, deep: 20)

        enum Kind: String, CaseIterable, Sendable {
            case apache, lighttpd, seaweedFS

            var isInstalled: Bool {
                switch self {
                case .apache: ServerKind.apache.isInstalled
                case .lighttpd: ServerKind.lighttpd.isInstalled
                case .seaweedFS: S3ServerKind.seaweedFS.isInstalled
                }
            }
        }

        /// A storage on a server, reached through any port.
        private final class Place: Sendable {
            private let webDAV: WebDAVShare?
            private let s3: S3Server?
            private let prefix = UUID().uuidString

            init(_ kind: Kind) async throws {
                switch kind {
                case .apache: (webDAV, s3) = (try await WebDAVShare(on: .apache), nil)
                case .lighttpd: (webDAV, s3) = (try await WebDAVShare(on: .lighttpd), nil)
                case .seaweedFS: (webDAV, s3) = (nil, try await S3Server.shared(.seaweedFS))
                }
            }

            var port: Int { webDAV?.port ?? s3?.port ?? 0 }

            func options(port: Int) -> [String] {
                if let webDAV {
                    let path = webDAV.url(port: port).path(percentEncoded: true)
                    return ["--remote", "webdav://user@localhost:\(port)\(path)"]
                }
                return ["--remote", "s3://\(S3Server.bucket)/\(prefix)", "--endpoint", "http://localhost:\(port)"]
            }

            static let environment = [
                "STORESYNC_WEBDAV_PASSWORD": "correct horse",
                "AWS_ACCESS_KEY_ID": S3Server.accessKeyID, "AWS_SECRET_ACCESS_KEY": S3Server.secret,
                "STORESYNC_PASSWORD": "sealed under this",
            ]
        }

        /// Kills a process at its request with a given index.
        private final class Killer: Sendable {
            private struct Plan {
                var left: Int?
                var fault = FaultProxy.Fault.none
                var victim: ChildProcess?
            }

            private let plan = Locked(Plan())

            /// Plans a kill; ``aim(at:)`` has to name the victim before its first request.
            func arm(_ left: Int?, _ fault: FaultProxy.Fault) {
                plan.withLock { $0 = Plan(left: left, fault: fault) }
            }

            func aim(at victim: ChildProcess) {
                plan.withLock { $0.victim = victim }
            }

            func decide() -> FaultProxy.Fault {
                let (victim, fault) = plan.withLock { plan -> (ChildProcess?, FaultProxy.Fault) in
                    guard let left = plan.left else { return (nil, .none) }
                    plan.left = left - 1
                    return left == 0 ? (plan.victim, plan.fault) : (nil, .none)
                }
                guard let victim else { return .none }
                victim.signal(SIGKILL)
                return fault
            }
        }

        @Test(
            "D13: A device that is killed at any request of a push or a pull continues with the next command",
            arguments: Kind.allCases.filter(\.isInstalled)
        )
        func kills(kind: Kind) async throws {
            let place = try await Place(kind)
            let killer = Killer()
            let proxy = try FaultProxy(to: place.port) { _, _ in killer.decide() }
            let fixture = try Fixture()
            let devices = [try fixture.device("laptop"), try fixture.device("desktop")]

            func run(
                _ device: Device,
                _ command: [String],
                killedAt request: Int? = nil,
                _ fault: FaultProxy.Fault = .none
            )
                async throws -> CommandResult
            {
                killer.arm(request, fault)
                let child = try fixture.start(
                    command + place.options(port: proxy.port) + [
                        "--app", "org.example.notes", "--state", device.state.path, "--json",
                    ],
                    environment: Place.environment
                )
                killer.aim(at: child)
                return await child.finish()
            }

            func push(_ device: Device) -> [String] { ["push", device.store.path, "--document", "notes"] }
            func pull(_ device: Device) -> [String] { ["pull", device.store.path, "--document", "notes"] }

            for (device, command) in zip(
                devices,
                [["register", "--encrypt", "--password-memory", "64"], ["register"]]
            ) {
                let result = try await run(device, command)
                #expect(result.status == 0, "\(result)")
            }
            var generator = SplitMix64(seed: 1)
            var killed = 0
            var notes: [String] = []
            var round = 0
            while killed < Self.kills, round < 10 * Self.kills {
                round += 1
                let writer = devices[round % 2]
                let reader = devices[(round + 1) % 2]
                notes.append("note \(round)")
                try writer.write("note \(round)", bytes: Int.random(in: 0..<300_000, using: &generator))
                for (device, command) in [(writer, push(writer)), (reader, pull(reader))] {
                    let fault =
                        [FaultProxy.Fault.none, .loseRequest, .loseReply, .cutRequest(after: 500)]
                        .randomElement(using: &generator) ?? .none
                    let first = try await run(
                        device,
                        command,
                        killedAt: Int.random(in: 0..<24, using: &generator),
                        fault
                    )
                    if first.signal == SIGKILL { killed += 1 } else { #expect(first.status == 0, "\(first)") }
                    let next = try await run(device, command)
                    #expect(next.status == 0, "\(kind), round \(round), after \(first): \(next)")
                }
                #expect(try reader.notes() == notes, "\(kind), round \(round)")
            }
            print("\(kind): \(killed) killed in \(round) rounds")
            #expect(killed >= Self.kills)
            let verify = try await run(devices[0], ["verify"])
            #expect(verify.status == 0, "\(verify)")
            #expect(try verify.json()["problems"] == .array([]), "\(verify)")
        }

        @Test(
            "D13: After a kill during the upload of a large store to a bucket, the next push sends only the missing parts",
            .enabled(if: Kind.seaweedFS.isInstalled),
            arguments: TestDepth.choose(quick: [95], ci: [10, 50, 95], deep: [10, 50, 95])
        )
        func cuts(percent: Int) async throws {
            let place = try await Place(.seaweedFS)
            let (parts, parallel) = (12, 4)
            let deadly = max(1, parts * percent / 100)
            let plan = Locked((sent: [Int](), victim: ChildProcess?.none))
            let proxy = try FaultProxy(to: place.port) { _, line in
                guard line.hasPrefix("PUT"), let match = line.firstMatch(of: /partNumber=(\d+)/),
                    let part = Int(match.1)
                else { return .none }
                let victim = plan.withLock { plan -> ChildProcess? in
                    plan.sent.append(part)
                    return part == deadly ? plan.victim.take() : nil
                }
                victim?.signal(SIGKILL)
                return victim == nil ? .none : .loseRequest
            }
            let fixture = try Fixture()
            let device = try fixture.device("laptop")
            let options =
                place.options(port: proxy.port) + [
                    "--app", "org.example.notes", "--state", device.state.path, "--json",
                ]
            let register = try await fixture.run(
                ["register", "--encrypt", "--password-memory", "64"] + options,
                environment: Place.environment
            )
            #expect(register.status == 0, "\(register)")
            // Random bytes, which don't get shorter when they're sealed.
            try device.write("large", bytes: parts * 8 << 20 - 1 << 20)
            let push = ["push", device.store.path, "--document", "notes"] + options
            let child = try fixture.start(push, environment: Place.environment)
            plan.withLock { $0.victim = child }
            let killed = await child.finish()
            #expect(killed.signal == SIGKILL, "\(killed)")
            let before = plan.withLock { $0.sent.count }
            let next = try await fixture.run(push, environment: Place.environment)
            #expect(next.status == 0, "\(next)")
            // The first part that was in progress at the kill, and all parts after it, are sent once more.
            let again = plan.withLock { $0.sent.dropFirst(before) }.sorted()
            print("killed at part \(deadly) of \(parts): parts \(again) are sent by the next push")
            let first = try #require(again.first)
            #expect(again == Array(first...parts))
            #expect(first <= deadly)
            // So many parts can't have overtaken the first one.
            if deadly > 2 * parallel { #expect(first > 1, "nothing was kept") }
            let other = try fixture.device("desktop")
            let pull =
                ["pull", other.store.path, "--document", "notes"] + place.options(port: place.port) + [
                    "--app", "org.example.notes", "--state", other.state.path,
                ]
            let pulled = try await fixture.run(pull, environment: Place.environment)
            #expect(pulled.status == 0, "\(pulled)")
            #expect(try other.notes() == ["large"])
        }

        @Test(
            "If eight devices register at the same time, one of them creates the application and all join it",
            arguments: Kind.allCases.filter(\.isInstalled)
        )
        func races(kind: Kind) async throws {
            let place = try await Place(kind)
            let fixture = try Fixture()
            for round in 0..<Self.races {
                let options = place.options(port: place.port) + ["--app", "org.example.round\(round)", "--json"]
                let results = try await withThrowingTaskGroup(of: CommandResult.self) { group in
                    for number in 0..<8 {
                        let device = try fixture.device("device \(number)")
                        group.addTask {
                            try await fixture.run(
                                ["register", "--no-encrypt", "--state", device.state.path] + options,
                                environment: Place.environment.filter { $0.key != "STORESYNC_PASSWORD" }
                            )
                        }
                    }
                    return try await group.reduce(into: []) { $0.append($1) }
                }
                for result in results where result.status != 0 { Issue.record("\(kind), round \(round): \(result)") }
                let winners = try results.filter { try $0.json()["created"]?.boolean == true }
                #expect(winners.count == 1, "\(kind), round \(round)")
                let status = try await fixture.run(
                    ["status", "--state", fixture.folder.appending(path: "device 0/state").path] + options,
                    environment: Place.environment.filter { $0.key != "STORESYNC_PASSWORD" }
                )
                #expect(try status.json()["clients"]?.array?.count == 8, "\(kind), round \(round): \(status)")
            }
        }
    }
}
