import Dispatch
import Testing
import ThreadSupport

@testable import Operations

@Suite("The set of the addresses of live operations")
struct AddressSetTests {
    @Test("An address is inserted once, until it is removed; its neighbours and distant addresses are others")
    func membership() {
        let set = AddressSet()
        // Next to one another in a word, in the next word, page and table, and at the end of the address space.
        let addresses: [UInt] = [0x1_0000, 0x1_0010, 0x1_0400, 0x11_0000, 0x4_0001_0000, 0xffff_ffff_fff0]
        for address in addresses { #expect(set.insert(address)) }
        for address in addresses { #expect(!set.insert(address)) }
        set.remove(addresses[1])
        #expect(addresses.map { set.insert($0) } == [false, true, false, false, false, false])
    }

    @Test("Threads that insert and remove neighbouring addresses lose none of them")
    func threads() {
        let set = AddressSet()
        let failures = Locked(0)
        DispatchQueue.concurrentPerform(iterations: 4) { thread in
            for round in 0..<20 {
                // The threads share every word, and create the pages at the same time.
                let addresses = (0..<512).map { UInt(round << 20 | $0 << 6 | thread << 4) }
                let inserted = addresses.count { set.insert($0) }
                let insertedAgain = addresses.count { set.insert($0) }
                for address in addresses.dropFirst() { set.remove(address) }
                if (inserted, insertedAgain) != (512, 0) || set.insert(addresses[0]) {
                    failures.withLock { $0 += 1 }
                }
            }
        }
        #expect(failures.withLock { $0 } == 0)
    }
}
