#include <linux/stat.h>

// Glibc declares it only for C programs that ask for GNU's extensions.
int statx(int directory, const char *path, int flags, unsigned int mask, struct statx *status);

// In Swift the name means the structure.
static inline int extendedStatus(int directory, const char *path, int flags, unsigned int mask, struct statx *status) {
    return statx(directory, path, flags, mask, status);
}

// So is this call. The constant is a macro of <linux/fs.h>, which can't be included beside Glibc.
int renameat2(int directory, const char *name, int otherDirectory, const char *newName, unsigned int flags);
static const unsigned int RENAME_NOREPLACE = 1;

// <malloc.h> declares this call, but Swift's Glibc module doesn't export that header.
int mallopt(int parameter, int value);
static const int M_TRIM_THRESHOLD = -1;
static const int M_MMAP_THRESHOLD = -3;
static const int M_ARENA_MAX = -8;

// <sys/xattr.h> declares these calls, with size_t and ssize_t, but Swift's Glibc module doesn't export that header.
long llistxattr(const char *path, char *names, long size);
long lgetxattr(const char *path, const char *name, void *value, long size);
int lsetxattr(const char *path, const char *name, const void *value, long size, int flags);
