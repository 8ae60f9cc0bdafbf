#include <linux/stat.h>

// Glibc declares it for C programs only that ask for GNU's extensions.
int statx(int directory, const char *path, int flags, unsigned int mask, struct statx *status);

// Swift gives the name to the structure.
static inline int extendedStatus(int directory, const char *path, int flags, unsigned int mask, struct statx *status) {
    return statx(directory, path, flags, mask, status);
}
