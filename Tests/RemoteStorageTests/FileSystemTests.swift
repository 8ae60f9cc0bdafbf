#if os(Linux)
import Foundation
import Testing

@testable import RemoteStorage

@Suite("The file system of a folder", .timeLimit(.minutes(60)))
struct FileSystemTests {
    private static let mounts = """
        /dev/vda / ext4 rw 0 0
        tmpfs /mnt tmpfs rw 0 0
        server:/a /mnt/a nfs4 rw 0 0
        //server/b /mnt/my\\040share cifs rw 0 0
        remote: /mnt/cloud fuse.rclone rw 0 0
        /dev/vdb /mnt/a/b xfs rw 0 0
        none /mnt/twice ext4 rw 0 0
        none /mnt/twice nfs rw 0 0
        """

    @Test(
        "A folder's file system is the innermost mount around it, and the last of several mounts at one path",
        arguments: [
            ("/", "ext4"), ("/home/x", "ext4"), ("/mnt", "tmpfs"), ("/mntx", "ext4"), ("/mnt/a", "nfs4"),
            ("/mnt/ab", "tmpfs"), ("/mnt/a/x/y", "nfs4"), ("/mnt/a/b/c", "xfs"), ("/mnt/my share/x", "cifs"),
            ("/mnt/cloud/x", "fuse.rclone"), ("/mnt/twice/x", "nfs"),
        ]
    )
    func innermost(path: String, type: String) {
        #expect(Folder.fileSystem(of: path, in: Self.mounts) == type)
        #expect(Folder.fileSystem(of: path, in: "") == nil)
    }

    @Test(
        "A file system is local only if its type is known to be",
        arguments: [
            ("ext4", true), ("xfs", true), ("btrfs", true), ("zfs", true), ("tmpfs", true), ("overlay", true),
            ("vfat", true), ("nfs4", false), ("cifs", false), ("9p", false), ("virtiofs", false), ("vboxsf", false),
            ("lustre", false), ("ocfs2", false), ("gfs2", false), ("fuse.sshfs", false), ("fuseblk", false),
            ("unheardof", false),
        ]
    )
    func known(type: String, isLocal: Bool) {
        let mounts = "/dev/vda / \(isLocal ? "nfs" : "ext4") rw 0 0\ndevice /mnt \(type) rw 0 0"
        #expect(Folder.isLocal("/mnt/share", in: mounts) == isLocal)
    }

    @Test("A folder on this device is known as such")
    func local() {
        #expect(Folder(path: FileManager.default.temporaryDirectory.path).isOnThisDevice)
    }
}
#endif
