import StoreChanges
import Testing

/// Two devices whose apps have the same schema.
struct DevicePair {
    let laptop: SimulatedDevice
    let phone: SimulatedDevice

    init(_ sql: String, rules: SyncRules = .none) throws {
        laptop = try SimulatedDevice("laptop", schemaSQL: sql, rules: rules)
        phone = try SimulatedDevice("phone", schemaSQL: sql, rules: rules)
    }

    /// Lets both devices capture, integrate and write until they have nothing for each other.
    func exchange() throws {
        for _ in 0..<3 {
            let captured = try [laptop, phone].map { device in
                let former = device.sets.count
                try device.capture()
                return Array(device.sets.dropFirst(former))
            }
            try laptop.integrate(captured[1])
            try phone.integrate(captured[0])
            for device in [laptop, phone] { try device.write() }
        }
        #expect(try laptop.capture() == nil && phone.capture() == nil, "no write is taken for an edit")
        #expect(try laptop.content() == phone.content())
    }
}
