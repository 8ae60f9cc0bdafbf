// What Darwin and Glibc share, as far as the sources use it, and what only Darwin's Dispatch has.
@_exported import DarwinDeclarations
@_exported import Dispatch

@_exported import var Glibc.AT_FDCWD
@_exported import var Glibc.AT_REMOVEDIR
@_exported import var Glibc.AT_SYMLINK_NOFOLLOW
@_exported import var Glibc.EAGAIN
@_exported import var Glibc.ECHO
@_exported import var Glibc.EEXIST
@_exported import var Glibc.EINTR
@_exported import var Glibc.ENOENT
@_exported import var Glibc.EOPNOTSUPP
@_exported import var Glibc.EPIPE
@_exported import var Glibc.EWOULDBLOCK
@_exported import var Glibc.EX_CANTCREAT
@_exported import var Glibc.EX_DATAERR
@_exported import var Glibc.EX_NOINPUT
@_exported import var Glibc.EX_NOPERM
@_exported import var Glibc.EX_SOFTWARE
@_exported import var Glibc.EX_TEMPFAIL
@_exported import var Glibc.EX_UNAVAILABLE
@_exported import var Glibc.EX_USAGE
@_exported import var Glibc.F_GETFD
@_exported import var Glibc.F_OK
@_exported import var Glibc.LOCK_EX
@_exported import var Glibc.LOCK_NB
@_exported import var Glibc.LOCK_SH
@_exported import var Glibc.LOCK_UN
@_exported import var Glibc.O_APPEND
@_exported import var Glibc.O_CLOEXEC
@_exported import var Glibc.O_CREAT
@_exported import var Glibc.O_DIRECTORY
@_exported import var Glibc.O_EXCL
@_exported import var Glibc.O_NOFOLLOW
@_exported import var Glibc.O_NONBLOCK
@_exported import var Glibc.O_RDONLY
@_exported import var Glibc.O_RDWR
@_exported import var Glibc.O_WRONLY
@_exported import var Glibc.PIPE_BUF
@_exported import var Glibc.POLLIN
@_exported import var Glibc.POLLOUT
@_exported import var Glibc.RTLD_NOW
@_exported import var Glibc.R_OK
@_exported import var Glibc.SIGHUP
@_exported import var Glibc.SIGINT
@_exported import var Glibc.SIGPIPE
@_exported import var Glibc.SIGQUIT
@_exported import var Glibc.SIGTERM
@_exported import var Glibc.SIGTSTP
@_exported import var Glibc.SIG_DFL
@_exported import var Glibc.SIG_IGN
@_exported import var Glibc.STDERR_FILENO
@_exported import var Glibc.STDIN_FILENO
@_exported import var Glibc.STDOUT_FILENO
@_exported import var Glibc.S_IFDIR
@_exported import var Glibc.S_IFIFO
@_exported import var Glibc.S_IFLNK
@_exported import var Glibc.S_IFMT
@_exported import var Glibc.S_IFREG
@_exported import var Glibc.TCSAFLUSH
@_exported import var Glibc.TIOCGWINSZ
@_exported import var Glibc.W_OK
@_exported import func Glibc._exit
@_exported import func Glibc.access
@_exported import func Glibc.chmod
@_exported import func Glibc.close
@_exported import func Glibc.closedir
@_exported import func Glibc.dlopen
@_exported import func Glibc.dlsym
@_exported import var Glibc.errno
@_exported import func Glibc.exit
@_exported import func Glibc.fchmod
@_exported import func Glibc.fchown
@_exported import func Glibc.fcntl
@_exported import func Glibc.fdopendir
@_exported import func Glibc.fflush
@_exported import func Glibc.free
@_exported import func Glibc.fsync
@_exported import func Glibc.ftruncate
@_exported import func Glibc.getcwd
@_exported import func Glibc.getenv
@_exported import func Glibc.geteuid
@_exported import func Glibc.getpid
@_exported import struct Glibc.gid_t
@_exported import func Glibc.ioctl
@_exported import func Glibc.isatty
@_exported import func Glibc.link
@_exported import func Glibc.linkat
@_exported import func Glibc.memcmp
@_exported import func Glibc.memcpy
@_exported import func Glibc.mkdirat
@_exported import struct Glibc.mode_t
@_exported import struct Glibc.off_t
@_exported import func Glibc.open
@_exported import func Glibc.openat
@_exported import func Glibc.pipe
@_exported import func Glibc.poll
@_exported import struct Glibc.pollfd
@_exported import func Glibc.pthread_getspecific
@_exported import func Glibc.pthread_key_create
@_exported import struct Glibc.pthread_key_t
@_exported import func Glibc.pthread_setspecific
@_exported import func Glibc.read
@_exported import func Glibc.readdir
@_exported import func Glibc.realpath
@_exported import func Glibc.rename
@_exported import func Glibc.renameat
@_exported import func Glibc.signal
@_exported import func Glibc.strcmp
@_exported import func Glibc.strerror
@_exported import func Glibc.strlen
@_exported import struct Glibc.tcflag_t
@_exported import func Glibc.tcgetattr
@_exported import func Glibc.tcsetattr
@_exported import struct Glibc.termios
@_exported import func Glibc.time
@_exported import struct Glibc.time_t
@_exported import struct Glibc.timespec
@_exported import struct Glibc.uid_t
@_exported import func Glibc.unlink
@_exported import func Glibc.unlinkat
@_exported import func Glibc.unsetenv
@_exported import struct Glibc.winsize
@_exported import func Glibc.write

/// A source of events of a file.
public protocol DispatchSourceFileSystemObject: DispatchSourceProtocol, Sendable {}

extension DispatchSource {
    /// Creates a source of a file's events.
    public static func makeFileSystemObjectSource(
        fileDescriptor: Int32,
        eventMask: FileSystemEvent,
        queue: DispatchQueue?
    ) -> any DispatchSourceFileSystemObject {
        fatalError("never called")
    }
}
