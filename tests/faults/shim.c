/* Counts, logs and breaks the calls by which a program changes files. Linux, with LD_PRELOAD.
 *
 * Only what lies below FAULTS_ROOT counts. Each call that would change something there gets the next
 * number, from 1. Calls are made one at a time, so the log has them in the order in which the
 * kernel saw them; the order between threads is that of the run.
 *
 *   FAULTS_ROOT   the directory, an absolute path without symbolic links
 *   FAULTS_LOG    where to log, outside of the root: a line for each call
 *   FAULTS_DATA   if set, the log also has the bytes that are written
 *   FAULTS_GRAVE  a directory outside of the root, on the same file system: what loses its name gets
 *                 another one there, its inode number, so that the harness can undo the removal
 *   FAULTS_MODE   count   nothing happens (the default)
 *                 fail    call FAULTS_AT fails with FAULTS_ERRNO
 *                 sticky  it and all that follow do
 *                 full    a write gets only half of its bytes to the disk; from then on all calls
 *                         that need room fail with ENOSPC
 *                 before  SIGKILL in the place of the call
 *                 after   SIGKILL after it
 *                 torn    SIGKILL after half of the bytes of a write
 *                 pause   SIGSTOP after the call, so that others can do something meanwhile
 *
 * A line of the log: number, call, result (0 or errno), inode, offset, length, path, second path,
 * bytes in hexadecimal; separated by tabs. "fault" in place of the result marks the one that was
 * broken.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum mode { COUNT, FAIL, STICKY, FULL, BEFORE, AFTER, TORN, PAUSE };

static char root[PATH_MAX], cwd[PATH_MAX], grave[PATH_MAX];
static size_t root_len;
static enum mode mode;
static long at, calls;
static int broken_errno = EIO, log_fd = -1, with_data;
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) {
        fprintf(stderr, "shim: no %s\n", name);
        _exit(99);
    }
    return found;
}

__attribute__((constructor)) static void begin(void) {
    static const char *const modes[] = {"count",  "fail",  "sticky", "full",
                                        "before", "after", "torn",   "pause"};
    const char *value = getenv("FAULTS_ROOT");
    if (!value || !getcwd(cwd, sizeof cwd)) return;
    snprintf(root, sizeof root, "%s", value);
    root_len = strlen(root);
    if ((value = getenv("FAULTS_GRAVE"))) snprintf(grave, sizeof grave, "%s", value);
    if ((value = getenv("FAULTS_MODE")))
        for (int i = 0; i <= PAUSE; i++)
            if (!strcmp(value, modes[i])) mode = i;
    if ((value = getenv("FAULTS_AT"))) at = atol(value);
    if ((value = getenv("FAULTS_ERRNO"))) broken_errno = atoi(value);
    with_data = getenv("FAULTS_DATA") != NULL;
    if ((value = getenv("FAULTS_LOG")))
        log_fd = REAL(open)(value, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

/* Makes a path absolute and removes "." and ".."; true if it is the root or below. */
static int resolve(int dir, const char *path, char *out) {
    char joined[2 * PATH_MAX], base[PATH_MAX];
    if (!root_len || !path) return 0;
    if (path[0] == '/') {
        snprintf(joined, sizeof joined, "%s", path);
    } else if (dir == AT_FDCWD) {
        snprintf(joined, sizeof joined, "%s/%s", cwd, path);
    } else {
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
        ssize_t n = readlink(link, base, sizeof base - 1);
        if (n < 0) return 0;
        base[n] = 0;
        snprintf(joined, sizeof joined, "%s/%s", base, path);
    }
    size_t end = 0;
    char *rest = joined;
    for (char *part; (part = strsep(&rest, "/"));) {
        if (!*part || !strcmp(part, ".")) continue;
        if (!strcmp(part, "..")) {
            while (end && out[--end] != '/') {}
            continue;
        }
        if (end + strlen(part) + 2 > PATH_MAX) return 0;
        out[end++] = '/';
        strcpy(out + end, part);
        end += strlen(part);
    }
    out[end] = 0;
    return !strncmp(out, root, root_len) && (out[root_len] == '/' || !out[root_len]);
}

static int resolve_fd(int fd, char *out) {
    char link[64];
    if (!root_len || fd < 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, out, PATH_MAX - 1);
    if (n < 0) return 0;
    out[n] = 0;
    return !strncmp(out, root, root_len) && (out[root_len] == '/' || !out[root_len]);
}

static unsigned long inode_of(int fd) {
    struct stat stat;
    return fstat(fd, &stat) ? 0 : stat.st_ino;
}

static unsigned long inode_at(const char *path) {
    struct stat stat;
    return lstat(path, &stat) ? 0 : stat.st_ino;
}

/* One call that is under way. */
struct call {
    const char *name, *path, *second;
    unsigned long inode;
    long long offset, len;
    const void *data;
    int needs_room, is_write;
};

static void put(const struct call *call, const char *result) {
    static const char digits[] = "0123456789abcdef";
    static char line[4 * PATH_MAX];
    if (log_fd < 0) return;
    int n = snprintf(line, sizeof line, "%ld\t%s\t%s\t%lu\t%lld\t%lld\t%s\t%s\t", calls, call->name,
                     result, call->inode, call->offset, call->len, call->path,
                     call->second ? call->second : "");
    size_t bytes = with_data && call->data && call->len > 0 ? (size_t)call->len : 0;
    char *text = malloc(n + 2 * bytes + 1);
    memcpy(text, line, n);
    for (size_t i = 0; i < bytes; i++) {
        unsigned char byte = ((const unsigned char *)call->data)[i];
        text[n++] = digits[byte >> 4];
        text[n++] = digits[byte & 15];
    }
    text[n++] = '\n';
    ssize_t (*write_it)(int, const void *, size_t) = REAL(write);
    for (ssize_t done = 0, step; done < n; done += step)
        if ((step = write_it(log_fd, text + done, n - done)) <= 0) break;
    free(text);
}

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

enum verdict { GO, BREAK, HALF };

/* Numbers a call and says what is to become of it. The lock is held until leave(). */
static enum verdict enter(const struct call *call) {
    pthread_mutex_lock(&one_at_a_time);
    calls++;
    if (calls == at && mode != COUNT) put(call, "fault");
    if (calls == at && mode == BEFORE) die();
    if (calls == at && mode == FAIL) return BREAK;
    if (calls >= at && mode == STICKY) return BREAK;
    if (call->is_write && call->len > 1 && calls == at && (mode == FULL || mode == TORN)) return HALF;
    if (calls >= at && mode == FULL && call->needs_room) {
        broken_errno = ENOSPC;
        return BREAK;
    }
    return GO;
}

static void leave(const struct call *call, long result) {
    int error = errno;
    char text[16];
    snprintf(text, sizeof text, "%d", result < 0 ? error : 0);
    put(call, text);
    if (calls == at && (mode == AFTER || mode == TORN)) die();
    if (calls == at && mode == PAUSE) kill(getpid(), SIGSTOP);
    pthread_mutex_unlock(&one_at_a_time);
    errno = error;
}

#define GUARD(type, call, act)                      \
    ({                                              \
        type result_ = -1;                          \
        if (enter(&(call)) == GO) result_ = (act);  \
        else errno = broken_errno;                  \
        leave(&(call), result_);                    \
        result_;                                    \
    })

/* Keeps an inode alive whose last name may be about to go. */
static void bury(const char *path) {
    char to[PATH_MAX + 32];
    struct stat stat;
    if (!grave[0] || lstat(path, &stat) || S_ISDIR(stat.st_mode)) return;
    snprintf(to, sizeof to, "%s/%lu", grave, (unsigned long)stat.st_ino);
    REAL(linkat)(AT_FDCWD, path, AT_FDCWD, to, 0);
}

/* open and its kin */

static int open_with(const char *name, int dir, const char *path, int flags, mode_t mode_bits,
                     int (*act)(int, const char *, int, mode_t)) {
    char full[PATH_MAX];
    if (!(flags & (O_CREAT | O_TRUNC | O_WRONLY | O_RDWR)) || !resolve(dir, path, full))
        return act(dir, path, flags, mode_bits);
    unsigned long was = inode_at(full);
    struct call call = {.name = name, .path = full, .needs_room = (flags & O_CREAT) && !was};
    enum verdict verdict = enter(&call);
    int fd = -1;
    if (verdict == GO) fd = act(dir, path, flags, mode_bits);
    else errno = broken_errno;
    int error = errno;
    if (fd >= 0) {
        call.inode = inode_of(fd);
        /* What changed, in the terms of the replay. */
        if (!was) call.name = "create";
        else call.name = flags & O_TRUNC ? "truncate" : "open";
    }
    errno = error;
    leave(&call, fd);
    return fd;
}

static int by_open(int dir, const char *path, int flags, mode_t bits) {
    (void)dir;
    return REAL(open)(path, flags, bits);
}
static int by_openat(int dir, const char *path, int flags, mode_t bits) {
    return REAL(openat)(dir, path, flags, bits);
}

#define OPEN_BITS(flags)                                \
    mode_t bits = 0;                                    \
    if ((flags) & (O_CREAT | __O_TMPFILE)) {            \
        va_list list;                                   \
        va_start(list, flags);                          \
        bits = va_arg(list, mode_t);                    \
        va_end(list);                                   \
    }

int open(const char *path, int flags, ...) {
    OPEN_BITS(flags);
    return open_with("open", AT_FDCWD, path, flags, bits, by_open);
}
int open64(const char *path, int flags, ...) {
    OPEN_BITS(flags);
    return open_with("open", AT_FDCWD, path, flags | O_LARGEFILE, bits, by_open);
}
int openat(int dir, const char *path, int flags, ...) {
    OPEN_BITS(flags);
    return open_with("open", dir, path, flags, bits, by_openat);
}
int openat64(int dir, const char *path, int flags, ...) {
    OPEN_BITS(flags);
    return open_with("open", dir, path, flags | O_LARGEFILE, bits, by_openat);
}
int creat(const char *path, mode_t bits) {
    return open_with("open", AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, bits, by_open);
}
int creat64(const char *path, mode_t bits) { return creat(path, bits); }

/* Writes: at < 0 is the position of the file. */

static ssize_t write_with(const char *name, int fd, const void *data, size_t len, off_t at_offset) {
    char full[PATH_MAX];
    if (!resolve_fd(fd, full)) {
        return at_offset < 0 ? REAL(write)(fd, data, len) : REAL(pwrite)(fd, data, len, at_offset);
    }
    struct call call = {.name = name, .path = full, .inode = inode_of(fd), .data = data,
                        .len = len, .needs_room = 1, .is_write = 1};
    struct stat stat;
    if (at_offset >= 0) call.offset = at_offset;
    else if ((fcntl(fd, F_GETFL) & O_APPEND) && !fstat(fd, &stat)) call.offset = stat.st_size;
    else call.offset = lseek(fd, 0, SEEK_CUR);
    enum verdict verdict = enter(&call);
    ssize_t done = -1;
    if (verdict == BREAK) {
        errno = broken_errno;
    } else {
        if (verdict == HALF) len /= 2;
        done = at_offset < 0 ? REAL(write)(fd, data, len) : REAL(pwrite)(fd, data, len, at_offset);
    }
    if (done >= 0) call.len = done;
    leave(&call, done);
    return done;
}

ssize_t write(int fd, const void *data, size_t len) { return write_with("write", fd, data, len, -1); }
ssize_t pwrite(int fd, const void *data, size_t len, off_t offset) {
    return write_with("write", fd, data, len, offset);
}
ssize_t pwrite64(int fd, const void *data, size_t len, off64_t offset) {
    return write_with("write", fd, data, len, offset);
}

static ssize_t writev_with(int fd, const struct iovec *parts, int count, off_t offset) {
    size_t len = 0, end = 0;
    for (int i = 0; i < count; i++) len += parts[i].iov_len;
    char *joined = malloc(len ? len : 1);
    for (int i = 0; i < count; end += parts[i++].iov_len)
        memcpy(joined + end, parts[i].iov_base, parts[i].iov_len);
    ssize_t done = write_with("write", fd, joined, len, offset);
    int error = errno;
    free(joined);
    errno = error;
    return done;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    char full[PATH_MAX];
    if (!resolve_fd(fd, full)) return REAL(writev)(fd, parts, count);
    return writev_with(fd, parts, count, -1);
}
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) {
    return writev_with(fd, parts, count, offset);
}
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset) {
    return writev_with(fd, parts, count, offset);
}

/* Copies within the kernel are refused, as by kernels that have none: programs then read and write,
 * which is seen here with its bytes. */
ssize_t copy_file_range(int in, off64_t *in_at, int out, off64_t *out_at, size_t len, unsigned flags) {
    char full[PATH_MAX];
    if (!resolve_fd(out, full)) return REAL(copy_file_range)(in, in_at, out, out_at, len, flags);
    errno = ENOSYS;
    return -1;
}
ssize_t sendfile(int out, int in, off_t *offset, size_t len) {
    char full[PATH_MAX];
    if (!resolve_fd(out, full)) return REAL(sendfile)(out, in, offset, len);
    errno = ENOSYS;
    return -1;
}
ssize_t sendfile64(int out, int in, off64_t *offset, size_t len) {
    return sendfile(out, in, offset, len);
}

/* Other calls on open files */

#define ON_FD(label, fd, length, room, act)                                                     \
    char full[PATH_MAX];                                                                        \
    if (!resolve_fd(fd, full)) return act;                                                      \
    struct call call = {.name = label, .path = full, .inode = inode_of(fd), .len = length,      \
                        .needs_room = room};                                                    \
    return GUARD(int, call, act);

static int grows(int fd, off_t len) {
    struct stat stat;
    return !fstat(fd, &stat) && stat.st_size < len;
}

int ftruncate(int fd, off_t len) { ON_FD("resize", fd, len, grows(fd, len), REAL(ftruncate)(fd, len)) }
int ftruncate64(int fd, off64_t len) { return ftruncate(fd, len); }
int fsync(int fd) { ON_FD("sync", fd, 0, 0, REAL(fsync)(fd)) }
int fdatasync(int fd) { ON_FD("sync", fd, 0, 0, REAL(fdatasync)(fd)) }
int fchmod(int fd, mode_t bits) { ON_FD("chmod", fd, 0, 0, REAL(fchmod)(fd, bits)) }
/* These promise nothing, so the replay need not know of them. */
int sync_file_range(int fd, off64_t offset, off64_t len, unsigned flags) {
    ON_FD("hint", fd, 0, 0, REAL(sync_file_range)(fd, offset, len, flags))
}
int fallocate(int fd, int how, off_t offset, off_t len) {
    ON_FD("allocate", fd, offset + len, 1, REAL(fallocate)(fd, how, offset, len))
}
int fallocate64(int fd, int how, off64_t offset, off64_t len) {
    return fallocate(fd, how, offset, len);
}
int posix_fallocate(int fd, off_t offset, off_t len) {
    return fallocate(fd, 0, offset, len) ? errno : 0;
}
int posix_fallocate64(int fd, off64_t offset, off64_t len) {
    return posix_fallocate(fd, offset, len);
}

/* Calls on names */

#define ON_PATH(label, dir, path, room, act)                                                    \
    char full[PATH_MAX];                                                                        \
    if (!resolve(dir, path, full)) return act;                                                  \
    struct call call = {.name = label, .path = full, .inode = inode_at(full),                   \
                        .needs_room = room};                                                    \
    return GUARD(int, call, act);

int truncate(const char *path, off_t len) {
    char full[PATH_MAX];
    if (!resolve(AT_FDCWD, path, full)) return REAL(truncate)(path, len);
    struct call call = {.name = "resize", .path = full, .inode = inode_at(full), .len = len};
    return GUARD(int, call, REAL(truncate)(path, len));
}
int truncate64(const char *path, off64_t len) { return truncate(path, len); }
int unlink(const char *path) {
    ON_PATH("remove", AT_FDCWD, path, 0, (bury(full), REAL(unlink)(path)))
}
int rmdir(const char *path) { ON_PATH("rmdir", AT_FDCWD, path, 0, REAL(rmdir)(path)) }
int unlinkat(int dir, const char *path, int flags) {
    ON_PATH(flags & AT_REMOVEDIR ? "rmdir" : "remove", dir, path, 0,
            (bury(full), REAL(unlinkat)(dir, path, flags)))
}
int mkdir(const char *path, mode_t bits) {
    ON_PATH("mkdir", AT_FDCWD, path, 1, REAL(mkdir)(path, bits))
}
int mkdirat(int dir, const char *path, mode_t bits) {
    ON_PATH("mkdir", dir, path, 1, REAL(mkdirat)(dir, path, bits))
}
int chmod(const char *path, mode_t bits) {
    ON_PATH("chmod", AT_FDCWD, path, 0, REAL(chmod)(path, bits))
}
int fchmodat(int dir, const char *path, mode_t bits, int flags) {
    ON_PATH("chmod", dir, path, 0, REAL(fchmodat)(dir, path, bits, flags))
}
int symlink(const char *to, const char *path) {
    ON_PATH("symlink", AT_FDCWD, path, 1, REAL(symlink)(to, path))
}

#define ON_TWO(label, from_dir, from, to_dir, to, room, act)                                    \
    char full[PATH_MAX], second[PATH_MAX];                                                      \
    int below = resolve(from_dir, from, full);                                                  \
    if (!resolve(to_dir, to, second) && !below) return act;                                     \
    struct call call = {.name = label, .path = full, .second = second,                          \
                        .inode = inode_at(full), .needs_room = room};                           \
    return GUARD(int, call, act);

int rename(const char *from, const char *to) {
    ON_TWO("rename", AT_FDCWD, from, AT_FDCWD, to, 0, (bury(second), REAL(rename)(from, to)))
}
int renameat(int from_dir, const char *from, int to_dir, const char *to) {
    ON_TWO("rename", from_dir, from, to_dir, to, 0,
           (bury(second), REAL(renameat)(from_dir, from, to_dir, to)))
}
int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags) {
    ON_TWO(flags & RENAME_EXCHANGE ? "exchange" : "rename", from_dir, from, to_dir, to, 0,
           (flags ? (void)0 : bury(second), REAL(renameat2)(from_dir, from, to_dir, to, flags)))
}
int link(const char *from, const char *to) {
    ON_TWO("link", AT_FDCWD, from, AT_FDCWD, to, 1, REAL(link)(from, to))
}
int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags) {
    ON_TWO("link", from_dir, from, to_dir, to, 1, REAL(linkat)(from_dir, from, to_dir, to, flags))
}

/* Writes through a shared map cannot be seen: a program that makes one gets "map" into the log, and
 * the harness says that it cannot judge this program. */
static void *map_with(void *addr, size_t len, int prot, int flags, int fd, off_t offset) {
    char full[PATH_MAX];
    if ((prot & PROT_WRITE) && (flags & MAP_SHARED) && resolve_fd(fd, full)) {
        struct call call = {.name = "map", .path = full, .inode = inode_of(fd)};
        enter(&call);
        leave(&call, 0);
    }
    return REAL(mmap)(addr, len, prot, flags, fd, offset);
}
void *mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset) {
    return map_with(addr, len, prot, flags, fd, offset);
}
void *mmap64(void *addr, size_t len, int prot, int flags, int fd, off64_t offset) {
    return map_with(addr, len, prot, flags, fd, offset);
}

/* What Rust's standard library calls by number where the C library may be too old to have a name. */
long syscall(long number, ...) {
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
    va_end(list);
    switch (number) {
        case SYS_renameat2:
            return renameat2(a[0], (const char *)a[1], a[2], (const char *)a[3], a[4]);
        case SYS_copy_file_range:
            return copy_file_range(a[0], (off64_t *)a[1], a[2], (off64_t *)a[3], a[4], a[5]);
        default:
            return REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    }
}
