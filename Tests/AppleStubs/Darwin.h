// Declarations of Apple's system headers that the sources use, from the manual pages.
#include <stdint.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

// <sys/stat.h>. The C names differ from Glibc's, because clang allows one definition of a name; Swift sees Apple's.
struct __attribute__((swift_name("stat"))) apple_stat {
    int32_t st_dev;
    mode_t st_mode;
    uint16_t st_nlink;
    uint64_t st_ino;
    uid_t st_uid;
    gid_t st_gid;
    int32_t st_rdev;
    struct timespec st_atimespec;
    struct timespec st_mtimespec;
    struct timespec st_ctimespec;
    struct timespec st_birthtimespec;
    int64_t st_size;
    int64_t st_blocks;
    int32_t st_blksize;
    uint32_t st_flags;
    uint32_t st_gen;
};
int apple_stat_of(const char *path, struct apple_stat *status) __attribute__((swift_name("stat(_:_:)")));
int apple_lstat(const char *path, struct apple_stat *status) __attribute__((swift_name("lstat(_:_:)")));
int apple_fstat(int file, struct apple_stat *status) __attribute__((swift_name("fstat(_:_:)")));
int apple_fstatat(int file, const char *path, struct apple_stat *status, int flags)
    __attribute__((swift_name("fstatat(_:_:_:_:)")));

// <sys/signal.h>
union apple_sigaction_u {
    void (*__sa_handler)(int);
};
struct __attribute__((swift_name("sigaction"))) apple_sigaction {
    union apple_sigaction_u __sigaction_u;
    uint32_t sa_mask;
    int sa_flags;
};
int apple_sigaction_of(int number, const struct apple_sigaction *action, struct apple_sigaction *former)
    __attribute__((swift_name("sigaction(_:_:_:)")));

// <fcntl.h>
#define F_FULLFSYNC 51
#define O_EVTONLY 0x8000

// <sys/stdio.h>, <stdio.h>
#define RENAME_EXCL 0x00000004
int renameatx_np(int directory, const char *name, int other, const char *newName, unsigned int flags);

// <sys/clonefile.h>
#define CLONE_NOFOLLOW 0x0001
int fclonefileat(int source, int directory, const char *name, uint32_t flags);

// <sys/sysctl.h>
int sysctlbyname(const char *name, void *value, size_t *size, void *newValue, size_t newSize);

// <os/lock.h>
typedef struct os_unfair_lock_s { uint32_t _os_unfair_lock_opaque; } os_unfair_lock;
void os_unfair_lock_lock(os_unfair_lock *lock);
void os_unfair_lock_unlock(os_unfair_lock *lock);

// <string.h>. The conformance suite calls it.
static inline int memset_s(void *bytes, size_t size, int byte, size_t count) {
    for (size_t index = 0; index < count && index < size; index++) ((volatile char *)bytes)[index] = (char)byte;
    return 0;
}

// <sys/file.h>. Swift sees a structure of this name too.
int apple_flock(int file, int operation) __attribute__((swift_name("flock(_:_:)")));

// <sys/xattr.h>
#define XATTR_NOFOLLOW 0x0001
ssize_t apple_listxattr(const char *path, char *names, size_t size, int options)
    __attribute__((swift_name("listxattr(_:_:_:_:)")));
ssize_t apple_getxattr(const char *path, const char *name, void *value, size_t size, uint32_t position, int options)
    __attribute__((swift_name("getxattr(_:_:_:_:_:_:)")));
int apple_setxattr(const char *path, const char *name, const void *value, size_t size, uint32_t position, int options)
    __attribute__((swift_name("setxattr(_:_:_:_:_:_:)")));

// <sys/acl.h>
typedef struct _acl *acl_t;
typedef enum { ACL_TYPE_EXTENDED = 0x00000100 } acl_type_t;
acl_t acl_get_file(const char *path, acl_type_t type);
int acl_set_file(const char *path, acl_type_t type, acl_t list);
int acl_free(void *object);
