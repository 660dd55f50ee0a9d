/* Preloaded into a process: a log of what it does to the files below POWER_ROOT, from which tests/power.py makes what a power cut leaves.

   A record: kind, length of the path, offset, length of the data, path, data. Kinds: c(reate), w(rite), t(runcate), s(ync), m(ove), u(nlink).
   Files but databases are recorded whole when they are synced: what C libraries write to them by stdio is not seen here. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FILES 4096
static char *names[FILES];
static int to = -1;
static pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

static int below(const char *path) {
    const char *root = getenv("POWER_ROOT");
    return root && path && strncmp(path, root, strlen(root)) == 0 && !strstr(path, "-shm");
}

static void note(char kind, const char *path, int64_t at, const void *data, int64_t length) {
    struct __attribute__((packed)) { char kind; int32_t path; int64_t at, length; } head = {kind, strlen(path), at, length};
    if (to < 0) to = syscall(SYS_openat, AT_FDCWD, getenv("POWER_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    syscall(SYS_write, to, &head, sizeof head);
    syscall(SYS_write, to, path, head.path);
    for (const char *p = data; length > 0;) {
        long n = syscall(SYS_write, to, p, length);
        if (n <= 0) abort();
        p += n, length -= n;
    }
}

static const char *name_of(int fd) { return fd >= 0 && fd < FILES ? names[fd] : NULL; }
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define LOCKED(...) pthread_mutex_lock(&mutex); __VA_ARGS__; pthread_mutex_unlock(&mutex)

static int opened(int at, const char *path, int flags, int mode) {
    struct stat before;
    int there = fstatat(at, path, &before, AT_SYMLINK_NOFOLLOW) == 0;
    int fd = syscall(SYS_openat, at, path, flags, mode);
    if (fd >= 0 && fd < FILES) {
        LOCKED(
            free(names[fd]); names[fd] = below(path) ? strdup(path) : NULL;
            if (names[fd] && !there && flags & O_CREAT) note('c', path, 0, NULL, 0);
            if (names[fd] && there && flags & O_TRUNC) note('t', path, 0, NULL, 0)
        );
    }
    return fd;
}

#define MODE int mode = 0; if (flags & O_CREAT) { va_list rest; va_start(rest, flags); mode = va_arg(rest, int); va_end(rest); }
int open(const char *path, int flags, ...) { MODE return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE return opened(AT_FDCWD, path, flags | O_LARGEFILE, mode); }
int openat(int at, const char *path, int flags, ...) { MODE return opened(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE return opened(at, path, flags | O_LARGEFILE, mode); }

int close(int fd) {
    if (fd >= 0 && fd < FILES && names[fd]) { LOCKED(free(names[fd]); names[fd] = NULL); }
    return syscall(SYS_close, fd);
}

ssize_t write(int fd, const void *data, size_t length) {
    if (!name_of(fd)) return syscall(SYS_write, fd, data, length);
    ssize_t n;
    LOCKED(
        off_t at = lseek(fd, 0, SEEK_CUR); n = syscall(SYS_write, fd, data, length);
        if (n > 0) note('w', names[fd], at, data, n)
    );
    return n;
}

ssize_t pwrite64(int fd, const void *data, size_t length, off64_t at) {
    ssize_t n;
    LOCKED(n = syscall(SYS_pwrite64, fd, data, length, at); if (n > 0 && name_of(fd)) note('w', names[fd], at, data, n));
    return n;
}
ssize_t pwrite(int fd, const void *data, size_t length, off_t at) { return pwrite64(fd, data, length, at); }

int ftruncate64(int fd, off64_t length) {
    int done;
    LOCKED(done = syscall(SYS_ftruncate, fd, length); if (!done && name_of(fd)) note('t', names[fd], length, NULL, 0));
    return done;
}
int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

static void synced(int fd) {
    const char *path = name_of(fd);
    struct stat facts;
    if (!path || fstat(fd, &facts)) return;
    if (S_ISREG(facts.st_mode) && !strstr(path, "index.db")) {
        char *whole = malloc(facts.st_size + 1);
        int again = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY, 0); /* the descriptor may be for writing alone */
        ssize_t n = pread(again, whole, facts.st_size, 0);
        syscall(SYS_close, again);
        if (n >= 0) { note('t', path, 0, NULL, 0); note('w', path, 0, whole, n); }
        free(whole);
    }
    note('s', path, 0, NULL, 0);
}
int fsync(int fd) { int done; LOCKED(done = syscall(SYS_fsync, fd); synced(fd)); return done; }
int fdatasync(int fd) { int done; LOCKED(done = syscall(SYS_fdatasync, fd); synced(fd)); return done; }

int rename(const char *from, const char *name) {
    int done;
    LOCKED(done = syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, name, 0); if (!done && below(name)) note('m', from, 0, name, strlen(name)));
    return done;
}

int unlink(const char *path) {
    int done;
    LOCKED(done = syscall(SYS_unlinkat, AT_FDCWD, path, 0); if (!done && below(path)) note('u', path, 0, NULL, 0));
    return done;
}
