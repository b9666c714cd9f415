/* Failing disks for the tests of the ledger: a library between the process and its libc (LD_PRELOAD).
 *
 * It knows the files below one folder ("watched"), whoever opens them: SQLite, Python. Of their calls it can
 *
 *   - count them, by class, and make the n-th one fail: before it takes effect, after it did, or half done (a short
 *     write), once or from then on;
 *   - let every sync take some time;
 *   - record what happens to them in a trace (writes with their bytes, syncs with begin and end, names), in the order
 *     in which it happens, with marks of the test's own between. tests/faults/disk.py reads it.
 *
 * Of SQLite's memory it can make the n-th allocation fail (faults_watch_memory), and of the process' threads the start.
 *
 * The test steers it from inside the same process by the faults_* functions below (tests/faults/library.py). One lock
 * orders all watched calls; only a sync runs outside of it, so that the trace has what happens meanwhile.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* Classes of calls; the same in library.py. */
enum { OPEN, CLOSE, READ, WRITE, SYNC, TRUNCATE, LINK, RENAME, UNLINK, MAP, LOCK, LOOK, MEMORY, THREAD, CLASSES };

/* Ways to fail; the same in library.py. */
enum { BEFORE, AFTER, SHORT };

/* Kinds of trace records; the same in disk.py. */
enum { T_OPEN = 1, T_WRITE, T_TRUNCATE, T_SYNC_BEGIN, T_SYNC_END, T_LINK, T_RENAME, T_UNLINK, T_MARK };

enum { MOST_FILES = 65536 };

struct record {
    uint32_t kind, flag;   /* flag: the file was created by this open */
    uint64_t handle;       /* of an open, numbered from 1 */
    int64_t offset;        /* of a write; size of a truncation; number of a sync */
    uint64_t length, more; /* bytes that follow: data or a path, then a second path */
};

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static char folder[4096];
static size_t folder_length;
static uint64_t handle_of[MOST_FILES]; /* by descriptor; 0: not watched */
static uint64_t handles, syncs;
static long opened_now;
static int trace = -1;
static long delay_us;

static struct {
    unsigned classes;
    long left;  /* calls until the first failure; 0: not armed */
    long times; /* failures that are left; -1: no end */
    int error, way;
    long counted, fired;
} plan;
static long totals[CLASSES];

#define NEXT(name)                                                                                                    \
    static __typeof__(name) *next;                                                                                     \
    if (next == NULL)                                                                                                  \
        next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

/* ---- what the test calls ------------------------------------------------------------------------------------------ */

static void unlock_child(void) { pthread_mutex_init(&guard, NULL); }

__attribute__((constructor)) static void at_start(void) { pthread_atfork(NULL, NULL, unlock_child); }

/* Watch the files below this folder (absolute, without links), and the folder itself. */
void faults_watch(const char *path) {
    pthread_mutex_lock(&guard);
    folder_length = strlen(path);
    memcpy(folder, path, folder_length + 1);
    pthread_mutex_unlock(&guard);
}

/* Let the n-th call from now on of these classes (a bit set) fail with this errno, and times - 1 more after it. */
void faults_arm(unsigned classes, long n, int error, int way, long times) {
    pthread_mutex_lock(&guard);
    plan.classes = classes, plan.left = n, plan.error = error, plan.way = way, plan.times = times;
    plan.counted = plan.fired = 0;
    pthread_mutex_unlock(&guard);
}

/* End failing; returns how often a call failed. */
long faults_disarm(void) {
    pthread_mutex_lock(&guard);
    plan.classes = 0;
    long fired = plan.fired;
    pthread_mutex_unlock(&guard);
    return fired;
}

/* Calls of the armed classes since they were armed. */
long faults_counted(void) { return plan.counted; }

/* Calls of a class since the process began. */
long faults_total(int class) { return totals[class]; }

/* Watched files that are open. */
long faults_open_files(void) { return opened_now; }

/* Let each sync take so much longer. */
void faults_delay_syncs(long microseconds) { delay_us = microseconds; }

/* Record into this file from now on; NULL ends it. Returns 0, or -1. */
int faults_record(const char *path) {
    int before = trace;
    int opened = path == NULL ? -1 : open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    pthread_mutex_lock(&guard);
    trace = opened;
    pthread_mutex_unlock(&guard);
    if (before >= 0)
        close(before);
    return path == NULL || opened >= 0 ? 0 : -1;
}

static void note(uint32_t kind, uint32_t flag, uint64_t handle, int64_t offset, const void *data, size_t length,
                 const void *more, size_t more_length) {
    if (trace < 0)
        return;
    struct record head = {kind, flag, handle, offset, length, more_length};
    struct iovec parts[] = {{&head, sizeof head}, {(void *)data, length}, {(void *)more, more_length}};
    if (writev(trace, parts, 3) != (ssize_t)(sizeof head + length + more_length))
        abort(); /* a trace with a gap would prove nothing */
}

/* Write a mark of the test's own into the trace. */
void faults_mark(const char *text) {
    pthread_mutex_lock(&guard);
    note(T_MARK, 0, 0, 0, text, strlen(text), NULL, 0);
    pthread_mutex_unlock(&guard);
}

/* ---- deciding, with the lock held --------------------------------------------------------------------------------- */

enum verdict { PASS, FAIL_BEFORE, FAIL_AFTER, CUT };

static enum verdict judge(int class) {
    totals[class]++;
    if (!(plan.classes & 1u << class))
        return PASS;
    plan.counted++;
    if (plan.times == 0 || (plan.left > 1 && plan.left--))
        return PASS;
    plan.times -= plan.times > 0;
    plan.fired++;
    if (plan.way == SHORT)
        return class == WRITE && plan.fired == 1 ? CUT : FAIL_BEFORE;
    return plan.way == AFTER ? FAIL_AFTER : FAIL_BEFORE;
}

static bool below(const char *path) {
    return folder_length && path != NULL && !strncmp(path, folder, folder_length) &&
           (path[folder_length] == '/' || !path[folder_length]);
}

static uint64_t watched(int fd) { return fd >= 0 && fd < MOST_FILES ? handle_of[fd] : 0; }

static int lock_and_judge(int class) {
    pthread_mutex_lock(&guard);
    return judge(class);
}

static int judge_alone(int class) {
    int verdict = lock_and_judge(class);
    pthread_mutex_unlock(&guard);
    return verdict;
}

static int fail(void) {
    errno = plan.error;
    return -1;
}

static int unlock_and_fail(void) {
    pthread_mutex_unlock(&guard);
    return fail();
}

/* A call that is not recorded, and so needs no place in the order. */
#define SIMPLE(class, call)                                                                                           \
    do {                                                                                                               \
        int verdict = judge_alone(class);                                                                              \
        if (verdict == FAIL_BEFORE)                                                                                    \
            return fail();                                                                                             \
        __typeof__(call) outcome = call;                                                                               \
        return verdict == PASS ? outcome : fail();                                                                     \
    } while (0)

/* ---- files --------------------------------------------------------------------------------------------------------- */

static int opened(int fd, const char *path, int flags, bool created) {
    if (fd < 0 || fd >= MOST_FILES)
        return fd;
    handle_of[fd] = ++handles;
    opened_now++;
    note(T_OPEN, created, handles, 0, path, strlen(path), NULL, 0);
    if ((flags & O_TRUNC) && !created)
        note(T_TRUNCATE, 0, handles, 0, NULL, 0, NULL, 0);
    return fd;
}

static int open_watched(int (*next)(const char *, int, ...), const char *path, int flags, mode_t mode) {
    int verdict = lock_and_judge(OPEN);
    if (verdict == FAIL_BEFORE)
        return unlock_and_fail();
    bool created = (flags & O_CREAT) && faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) != 0;
    int fd = opened(next(path, flags, mode), path, flags, created);
    if (verdict == FAIL_AFTER && fd >= 0) { /* it was made, but the descriptor never came */
        static int (*really_close)(int);
        if (really_close == NULL)
            really_close = (int (*)(int))dlsym(RTLD_NEXT, "close");
        handle_of[fd] = 0;
        opened_now--;
        really_close(fd);
        return unlock_and_fail();
    }
    int error = errno;
    pthread_mutex_unlock(&guard);
    errno = error;
    return fd;
}

#define MODE_OF(flags, mode)                                                                                          \
    mode_t mode = 0;                                                                                                   \
    if ((flags) & (O_CREAT | __O_TMPFILE)) {                                                                           \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode = va_arg(rest, mode_t);                                                                                   \
        va_end(rest);                                                                                                  \
    }

int open(const char *path, int flags, ...) {
    NEXT(open);
    MODE_OF(flags, mode)
    return below(path) ? open_watched(next, path, flags, mode) : next(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    NEXT(open64);
    MODE_OF(flags, mode)
    return below(path) ? open_watched(next, path, flags, mode) : next(path, flags, mode);
}

int __open_2(const char *path, int flags) { return open(path, flags); }

int __open64_2(const char *path, int flags) { return open64(path, flags); }

/* With an absolute path, which all of ours are, openat is open. */
int openat(int base, const char *path, int flags, ...) {
    NEXT(openat);
    MODE_OF(flags, mode)
    return below(path) ? open64(path, flags, mode) : next(base, path, flags, mode);
}

int openat64(int base, const char *path, int flags, ...) {
    NEXT(openat64);
    MODE_OF(flags, mode)
    return below(path) ? open64(path, flags, mode) : next(base, path, flags, mode);
}

/* Whatever close says, the descriptor is gone afterwards, as on Linux. */
int close(int fd) {
    NEXT(close);
    if (!watched(fd))
        return next(fd);
    int verdict = lock_and_judge(CLOSE);
    handle_of[fd] = 0;
    opened_now--;
    int result = next(fd);
    if (verdict != PASS)
        return unlock_and_fail();
    pthread_mutex_unlock(&guard);
    return result;
}

ssize_t read(int fd, void *data, size_t length) {
    NEXT(read);
    if (!watched(fd))
        return next(fd, data, length);
    SIMPLE(READ, next(fd, data, length));
}

ssize_t pread(int fd, void *data, size_t length, off_t offset) {
    NEXT(pread);
    if (!watched(fd))
        return next(fd, data, length, offset);
    SIMPLE(READ, next(fd, data, length, offset));
}

ssize_t pread64(int fd, void *data, size_t length, off64_t offset) {
    NEXT(pread64);
    if (!watched(fd))
        return next(fd, data, length, offset);
    SIMPLE(READ, next(fd, data, length, offset));
}

ssize_t pwrite64(int fd, const void *data, size_t length, off64_t offset) {
    NEXT(pwrite64);
    if (!watched(fd))
        return next(fd, data, length, offset);
    int verdict = lock_and_judge(WRITE);
    if (verdict == CUT)
        length /= 2;
    if (verdict == FAIL_BEFORE || length == 0)
        return unlock_and_fail();
    ssize_t done = next(fd, data, length, offset);
    if (done > 0)
        note(T_WRITE, 0, watched(fd), offset, data, done, NULL, 0);
    if (verdict == FAIL_AFTER)
        return unlock_and_fail();
    int error = errno;
    pthread_mutex_unlock(&guard);
    errno = error;
    return done;
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) {
    NEXT(pwrite);
    return watched(fd) ? pwrite64(fd, data, length, offset) : next(fd, data, length, offset);
}

/* Nobody here shares a descriptor between threads, so its place is known; O_APPEND is not used. */
ssize_t write(int fd, const void *data, size_t length) {
    NEXT(write);
    if (!watched(fd))
        return next(fd, data, length);
    ssize_t done = pwrite64(fd, data, length, lseek64(fd, 0, SEEK_CUR));
    if (done > 0)
        lseek64(fd, done, SEEK_CUR);
    return done;
}

int ftruncate64(int fd, off64_t size) {
    NEXT(ftruncate64);
    if (!watched(fd))
        return next(fd, size);
    int verdict = lock_and_judge(TRUNCATE);
    if (verdict == FAIL_BEFORE)
        return unlock_and_fail();
    int result = next(fd, size);
    if (result == 0)
        note(T_TRUNCATE, 0, watched(fd), size, NULL, 0, NULL, 0);
    if (verdict == FAIL_AFTER)
        return unlock_and_fail();
    pthread_mutex_unlock(&guard);
    return result;
}

int ftruncate(int fd, off_t size) {
    NEXT(ftruncate);
    return watched(fd) ? ftruncate64(fd, size) : next(fd, size);
}

/* The writes before the begin are on the disk at the end; of a sync that fails, nobody knows: it has no end. */
static int sync_watched(int (*next)(int), int fd) {
    int verdict = lock_and_judge(SYNC);
    uint64_t handle = watched(fd), number = ++syncs;
    note(T_SYNC_BEGIN, 0, handle, number, NULL, 0, NULL, 0);
    if (verdict == FAIL_BEFORE)
        return unlock_and_fail();
    pthread_mutex_unlock(&guard);
    if (delay_us) {
        struct timespec time = {delay_us / 1000000, delay_us % 1000000 * 1000};
        nanosleep(&time, NULL);
    }
    int result = next(fd);
    pthread_mutex_lock(&guard);
    if (verdict == FAIL_AFTER)
        return unlock_and_fail();
    if (result == 0)
        note(T_SYNC_END, 0, handle, number, NULL, 0, NULL, 0);
    pthread_mutex_unlock(&guard);
    return result;
}

int fsync(int fd) {
    NEXT(fsync);
    return watched(fd) ? sync_watched(next, fd) : next(fd);
}

int fdatasync(int fd) {
    NEXT(fdatasync);
    return watched(fd) ? sync_watched(next, fd) : next(fd);
}

void *mmap64(void *at, size_t length, int protection, int flags, int fd, off64_t offset) {
    NEXT(mmap64);
    if (!watched(fd))
        return next(at, length, protection, flags, fd, offset);
    if (judge_alone(MAP) == PASS)
        return next(at, length, protection, flags, fd, offset);
    fail();
    return MAP_FAILED;
}

void *mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset) {
    NEXT(mmap);
    return watched(fd) ? mmap64(at, length, protection, flags, fd, offset)
                       : next(at, length, protection, flags, fd, offset);
}

/* ---- names --------------------------------------------------------------------------------------------------------- */

#define NAMED(class, kind, path, second, call)                                                                        \
    do {                                                                                                               \
        int verdict = lock_and_judge(class);                                                                           \
        if (verdict == FAIL_BEFORE)                                                                                    \
            return unlock_and_fail();                                                                                             \
        int result = call;                                                                                             \
        if (result == 0)                                                                                               \
            note(kind, 0, 0, 0, path, strlen(path), second, strlen(second));                                           \
        if (verdict == FAIL_AFTER)                                                                                     \
            return unlock_and_fail();                                                                                             \
        int error = errno;                                                                                             \
        pthread_mutex_unlock(&guard);                                                                                  \
        errno = error;                                                                                                 \
        return result;                                                                                                 \
    } while (0)

int link(const char *path, const char *name) {
    NEXT(link);
    if (!below(name))
        return next(path, name);
    NAMED(LINK, T_LINK, path, name, next(path, name));
}

int linkat(int base, const char *path, int other, const char *name, int flags) {
    NEXT(linkat);
    if (!below(name))
        return next(base, path, other, name, flags);
    NAMED(LINK, T_LINK, path, name, next(base, path, other, name, flags));
}

int rename(const char *path, const char *name) {
    NEXT(rename);
    if (!below(name))
        return next(path, name);
    NAMED(RENAME, T_RENAME, path, name, next(path, name));
}

int renameat(int base, const char *path, int other, const char *name) {
    NEXT(renameat);
    if (!below(name))
        return next(base, path, other, name);
    NAMED(RENAME, T_RENAME, path, name, next(base, path, other, name));
}

int unlink(const char *path) {
    NEXT(unlink);
    if (!below(path))
        return next(path);
    NAMED(UNLINK, T_UNLINK, path, "", next(path));
}

int unlinkat(int base, const char *path, int flags) {
    NEXT(unlinkat);
    if (!below(path))
        return next(base, path, flags);
    NAMED(UNLINK, T_UNLINK, path, "", next(base, path, flags));
}

/* ---- locks, and looks at files ------------------------------------------------------------------------------------ */

int flock(int fd, int operation) {
    NEXT(flock);
    if (!watched(fd) || operation == LOCK_UN)
        return next(fd, operation);
    SIMPLE(LOCK, next(fd, operation));
}

#define FCNTL                                                                                                         \
    va_list rest;                                                                                                      \
    va_start(rest, command);                                                                                           \
    void *argument = va_arg(rest, void *);                                                                             \
    va_end(rest);                                                                                                      \
    if (!watched(fd) || (command != F_SETLK && command != F_SETLKW))                                                   \
        return next(fd, command, argument);                                                                            \
    if (((struct flock *)argument)->l_type == F_UNLCK) /* the kernel lets go without fail */                           \
        return next(fd, command, argument);                                                                            \
    SIMPLE(LOCK, next(fd, command, argument))

int fcntl(int fd, int command, ...) {
    NEXT(fcntl);
    FCNTL;
}

int fcntl64(int fd, int command, ...) {
    NEXT(fcntl64);
    FCNTL;
}

#define LOOK_AT(name, type)                                                                                           \
    int name(const char *path, struct type *result) {                                                                  \
        NEXT(name);                                                                                                    \
        if (!below(path))                                                                                              \
            return next(path, result);                                                                                 \
        SIMPLE(LOOK, next(path, result));                                                                              \
    }

LOOK_AT(stat, stat)
LOOK_AT(stat64, stat64)
LOOK_AT(lstat, stat)
LOOK_AT(lstat64, stat64)

int fstat(int fd, struct stat *result) {
    NEXT(fstat);
    if (!watched(fd))
        return next(fd, result);
    SIMPLE(LOOK, next(fd, result));
}

int fstat64(int fd, struct stat64 *result) {
    NEXT(fstat64);
    if (!watched(fd))
        return next(fd, result);
    SIMPLE(LOOK, next(fd, result));
}

int access(const char *path, int mode) {
    NEXT(access);
    if (!below(path))
        return next(path, mode);
    SIMPLE(LOOK, next(path, mode));
}

/* ---- threads ------------------------------------------------------------------------------------------------------ */

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
    NEXT(pthread_create);
    return judge_alone(THREAD) == PASS ? next(thread, attributes, start, argument) : plan.error;
}

/* ---- SQLite's memory ----------------------------------------------------------------------------------------------- */

/* As sqlite3.h has it; the numbers are those of SQLITE_CONFIG_MALLOC and SQLITE_CONFIG_GETMALLOC. */
struct memory_methods {
    void *(*allocate)(int);
    void (*release)(void *);
    void *(*reallocate)(void *, int);
    int (*size)(void *);
    int (*round_up)(int);
    int (*begin)(void *);
    void (*end)(void *);
    void *data;
};
enum { CONFIG_MALLOC = 4, CONFIG_GETMALLOC = 5 };

static struct memory_methods memory;

static void *allocate(int size) { return judge_alone(MEMORY) == PASS ? memory.allocate(size) : NULL; }

static void *reallocate(void *old, int size) {
    return judge_alone(MEMORY) == PASS ? memory.reallocate(old, size) : NULL;
}

/* Stand before SQLite's allocator, given its sqlite3_config; between sqlite3_shutdown and sqlite3_initialize. */
int faults_watch_memory(int (*config)(int, ...)) {
    int failed = config(CONFIG_GETMALLOC, &memory);
    struct memory_methods ours = memory;
    ours.allocate = allocate, ours.reallocate = reallocate;
    return failed ? failed : config(CONFIG_MALLOC, &ours);
}
