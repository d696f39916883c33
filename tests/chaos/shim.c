/*
 * Preloaded into a program: the nth call of a kind fails, or does less than it was asked for; clocks jump.
 *
 *   LK_SHIM_IN=PROGRAM        the program (the name of its file) that it acts in; others pass through
 *   LK_SHIM_FILE=PATH         SHIM_SLOTS slots (struct slot), all zero at first: how often each kind was called and
 *                             struck, of all processes of that program together
 *   LK_SHIM_FAULT=KIND:N:TIMES:WHAT[;…]
 *                             calls N (from 1) to N + TIMES - 1 of that kind fail with errno WHAT (a number), or,
 *                             WHAT being "short", do one byte or half of what they were asked for, or, WHAT being
 *                             "stop", are made when somebody has sent SIGCONT: before that the process stands still.
 *                             Of several, at most SHIM_FAULTS, slot SHIM_FIRST + i tells how often the calls of
 *                             number i were made, and how often it struck
 *   LK_SHIM_CLOCK=CLOCK@MS=SECONDS,…
 *                             so many milliseconds after the first call in any process, the clock "real" or "mono"
 *                             is so many seconds off; "mono" only ever leaps forward
 *
 * A kind is the name of a call; ".ipc" is added to read, write, readv and writev of what is no file, and ".nng" to all
 * that libnng makes. A fault that the kernel would never give in that place (EAGAIN where a call may block, a short count
 * of a message) is passed over.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SHIM_SLOTS 256
#define SHIM_FAULTS 32
#define SHIM_FIRST 192
#define SHIM_IOV 64
#define SHORT (-1)
#define STOP (-2)

#define KINDS(X)                                                                                   \
    X(open, "open") X(openat, "openat") X(mkostemp, "mkostemp") X(read, "read")                    \
    X(read_ipc, "read.ipc") X(pread, "pread") X(readv, "readv") X(readv_ipc, "readv.ipc")          \
    X(write, "write") X(write_ipc, "write.ipc") X(pwrite, "pwrite") X(writev, "writev")            \
    X(writev_ipc, "writev.ipc") X(fsync, "fsync") X(fdatasync, "fdatasync")                        \
    X(ftruncate, "ftruncate") X(fallocate, "fallocate") X(rename, "rename") X(linkat, "linkat")    \
    X(unlink, "unlink") X(mkdir, "mkdir") X(rmdir, "rmdir") X(opendir, "opendir")                  \
    X(readdir, "readdir") X(stat, "stat") X(lstat, "lstat") X(fstat, "fstat")                      \
    X(fstatat, "fstatat") X(mmap, "mmap") X(madvise, "madvise") X(memfd_create, "memfd_create")    \
    X(flock, "flock") X(fcntl, "fcntl") X(socket, "socket") X(socketpair, "socketpair")            \
    X(bind, "bind") X(listen, "listen") X(connect, "connect") X(accept4, "accept4")                \
    X(accept, "accept") X(send, "send") X(sendmsg, "sendmsg") X(recv, "recv")                      \
    X(recvmsg, "recvmsg") X(epoll_create1, "epoll_create1") X(epoll_ctl, "epoll_ctl")              \
    X(epoll_wait, "epoll_wait") X(poll, "poll") X(eventfd, "eventfd") X(signalfd, "signalfd")      \
    X(timerfd_create, "timerfd_create") X(timerfd_settime, "timerfd_settime")                      \
    X(posix_spawn, "posix_spawn") X(pthread_create, "pthread_create") X(waitpid, "waitpid")        \
    X(pidfd_open, "pidfd_open") X(getrandom, "getrandom") X(setrlimit, "setrlimit")                \
    X(fcntl64, "fcntl64") X(realpath, "realpath") X(readlink, "readlink") X(chmod, "chmod")

enum kind {
#define KIND(name, text) K_##name,
    KINDS(KIND)
#undef KIND
    K_COUNT
};

struct slot {
    char name[24];
    _Atomic uint64_t calls, struck;
};

_Static_assert(2 * K_COUNT <= SHIM_FIRST && SHIM_FIRST + SHIM_FAULTS < SHIM_SLOTS, "kinds, faults, and the clock's");

struct fault {
    int kind; /* a slot: an enum kind, or that plus K_COUNT for nng's */
    uint64_t n, times;
    int what; /* an errno, SHORT or STOP */
};

struct shim {
    struct slot *slot; /* NULL: not in this program */
    struct fault fault[SHIM_FAULTS];
    int n_faults;
    char clock[256];
    uintptr_t nng, nng_end; /* where libnng lies */
};

static struct shim shim; /* a preloaded library has no other place */

static void load(void) __attribute__((constructor));

static void read_faults(const char *text)
{
    static const char *const names[] = {
#define KIND(name, text) text,
        KINDS(KIND)
#undef KIND
    };
    char kind[24], what[16];
    for (int i = 0; i < K_COUNT; i++) {
        (void)snprintf(shim.slot[i].name, sizeof shim.slot[i].name, "%s", names[i]);
        (void)snprintf(shim.slot[K_COUNT + i].name, sizeof shim.slot[i].name, "%s.nng", names[i]);
    }
    while (text != NULL && shim.n_faults < SHIM_FAULTS) {
        struct fault *f = &shim.fault[shim.n_faults];
        f->kind = -1;
        if (sscanf(text, "%23[^:]:%lu:%lu:%15[^;]", kind, &f->n, &f->times, what) != 4)
            return;
        for (int i = 0; i < 2 * K_COUNT; i++) {
            if (strcmp(shim.slot[i].name, kind) == 0)
                f->kind = i;
        }
        f->what = strcmp(what, "short") == 0 ? SHORT : strcmp(what, "stop") == 0 ? STOP : atoi(what);
        shim.n_faults++;
        text = strchr(text, ';');
        text = text != NULL ? text + 1 : NULL;
    }
}

static int find_nng(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    if (strstr(info->dlpi_name, "libnng") == NULL)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD)
            continue;
        uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        if (shim.nng == 0 || begin < shim.nng)
            shim.nng = begin;
        if (begin + info->dlpi_phdr[i].p_memsz > shim.nng_end)
            shim.nng_end = begin + info->dlpi_phdr[i].p_memsz;
    }
    return 1;
}

static void load(void)
{
    const char *in = getenv("LK_SHIM_IN"), *path = getenv("LK_SHIM_FILE");
    const char *clock = getenv("LK_SHIM_CLOCK");
    size_t bytes = sizeof(struct slot) * SHIM_SLOTS;
    if (in == NULL || path == NULL || strcmp(program_invocation_short_name, in) != 0)
        return;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
    void *at = fd < 0 ? MAP_FAILED
                      : (void *)syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        (void)syscall(SYS_close, fd);
    if (at == MAP_FAILED)
        return;
    shim.slot = at;
    if (clock != NULL)
        (void)snprintf(shim.clock, sizeof shim.clock, "%s", clock);
    (void)dl_iterate_phdr(find_nng, NULL);
    read_faults(getenv("LK_SHIM_FAULT"));
}

static struct slot *slot_of(enum kind kind, const void *caller)
{
    return &shim.slot[kind + ((uintptr_t)caller - shim.nng < shim.nng_end - shim.nng ? K_COUNT : 0)];
}

/* Counts a call, and stops before it if it is to. What it is to fail with, SHORT, or 0; @ret_slot then counts how
 * often it did. */
static int due(enum kind kind, const void *caller, struct slot **ret_slot)
{
    if (shim.slot == NULL)
        return 0;
    struct slot *slot = *ret_slot = slot_of(kind, caller);
    uint64_t n = slot->calls++ + 1;
    const struct fault *now = NULL;
    for (int i = 0; i < shim.n_faults && now == NULL; i++) {
        const struct fault *f = &shim.fault[i];
        if (f->kind >= 0 && slot == &shim.slot[f->kind] && n >= f->n && n - f->n < f->times)
            now = f;
    }
    if (now == NULL)
        return 0;
    *ret_slot = &shim.slot[SHIM_FIRST + (now - shim.fault)];
    (*ret_slot)->calls++;
    if (now->what != STOP)
        return now->what;
    (*ret_slot)->struck++;
    /* To this thread: it does not come back from here before all of them stand still. */
    (void)syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGSTOP);
    return 0;
}

static bool may_block(int fd, int flags)
{
    return (flags & MSG_DONTWAIT) == 0 &&
           (syscall(SYS_fcntl, fd, F_GETFL) & O_NONBLOCK) == 0;
}

static bool is_file(int fd)
{
    struct stat st;
    return syscall(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH) == 0 && S_ISREG(st.st_mode);
}

/* An eventfd, a timer, signals: reading and writing these, when it does not wait, fails of nothing. */
static bool fails_never(int fd)
{
    struct stat st;
    return syscall(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH) == 0 && (st.st_mode & S_IFMT) == 0;
}

/* What may come in parts: a file, a pipe, a stream; not what has messages, or an eventfd. */
static bool has_parts(int fd)
{
    struct stat st;
    int type = 0;
    socklen_t len = sizeof type;
    if (syscall(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH) != 0)
        return false;
    if (S_ISSOCK(st.st_mode))
        return syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 &&
               type == SOCK_STREAM;
    return S_ISREG(st.st_mode) || S_ISFIFO(st.st_mode);
}

/* True: the call is to fail, errno is set. */
static bool fails_at(enum kind kind, const void *caller)
{
    struct slot *slot;
    int what = due(kind, caller, &slot);
    if (what <= 0)
        return false;
    slot->struck++;
    errno = what;
    return true;
}

/* As fails(), for one that transfers *@len bytes, which becomes less where that is the fault and it is at
 * least @least. */
static bool fails_or_cuts_at(enum kind kind, const void *caller, int fd, int flags, size_t least,
                             size_t *len)
{
    struct slot *slot;
    int what = due(kind, caller, &slot);
    if (what == 0 || fails_never(fd))
        return false;
    if ((what == EAGAIN && may_block(fd, flags)) || (what == EINTR && !is_file(fd) && !may_block(fd, flags)))
        return false;
    if (what != SHORT) {
        slot->struck++;
        errno = what;
        return true;
    }
    if (*len < least || !has_parts(fd))
        return false;
    slot->struck++;
    *len = shim.fault[slot - &shim.slot[SHIM_FIRST]].n % 2 == 0 ? 1 : *len / 2;
    return false;
}

#define fails(kind) fails_at(kind, __builtin_return_address(0))
#define fails_or_cuts(kind, fd, flags, len)                                                        \
    fails_or_cuts_at(kind, __builtin_return_address(0), fd, flags, 2, len)
#define SEND_MIN 257 /* a socket takes a few bytes, or none */
#define fails_or_cuts_sent(kind, fd, flags, len)                                                   \
    fails_or_cuts_at(kind, __builtin_return_address(0), fd, flags, SEND_MIN, len)

static size_t total(const struct iovec *iov, size_t n)
{
    size_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += iov[i].iov_len;
    return sum;
}

/* The first @len bytes of @iov; the number of pieces. */
static size_t cut(struct iovec *to, const struct iovec *iov, size_t n, size_t len)
{
    size_t used = 0;
    for (size_t i = 0; i < n && i < SHIM_IOV && len > 0; i++) {
        to[used] = iov[i];
        if (to[used].iov_len > len)
            to[used].iov_len = len;
        len -= to[used++].iov_len;
    }
    return used;
}

#define REAL(name)                                                                                 \
    static __typeof__(name) *real;                                                                 \
    if (real == NULL)                                                                              \
        real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

/* Calls that fail with -1 and errno, and do nothing by halves. */
#define WHOLE(type, name, parameters, ...)                                                         \
    type name parameters                                                                           \
    {                                                                                              \
        REAL(name);                                                                                \
        return fails(K_##name) ? (type)-1 : real(__VA_ARGS__);                                     \
    }

/* Those that return the error. */
#define TELLING(name, parameters, ...)                                                             \
    int name parameters                                                                            \
    {                                                                                              \
        REAL(name);                                                                                \
        return fails(K_##name) ? errno : real(__VA_ARGS__);                                        \
    }

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

WHOLE(int, fsync, (int fd), fd)
WHOLE(int, fdatasync, (int fd), fd)
WHOLE(int, ftruncate, (int fd, off_t len), fd, len)
WHOLE(int, fallocate, (int fd, int mode, off_t at, off_t len), fd, mode, at, len)
WHOLE(int, rename, (const char *from, const char *to), from, to)
WHOLE(int, linkat, (int a, const char *from, int b, const char *to, int flags), a, from, b, to, flags)
WHOLE(int, unlink, (const char *path), path)
WHOLE(int, mkdir, (const char *path, mode_t mode), path, mode)
WHOLE(int, rmdir, (const char *path), path)
WHOLE(int, chmod, (const char *path, mode_t mode), path, mode)
WHOLE(int, stat, (const char *path, struct stat *st), path, st)
WHOLE(int, lstat, (const char *path, struct stat *st), path, st)
WHOLE(int, fstat, (int fd, struct stat *st), fd, st)
WHOLE(int, fstatat, (int fd, const char *path, struct stat *st, int flags), fd, path, st, flags)
WHOLE(ssize_t, readlink, (const char *path, char *to, size_t len), path, to, len)
WHOLE(int, madvise, (void *at, size_t len, int advice), at, len, advice)
WHOLE(int, memfd_create, (const char *name, unsigned flags), name, flags)
WHOLE(int, mkostemp, (char *name, int flags), name, flags)
WHOLE(int, flock, (int fd, int how), fd, how)
WHOLE(int, socket, (int domain, int type, int protocol), domain, type, protocol)
WHOLE(int, socketpair, (int domain, int type, int protocol, int fd[2]), domain, type, protocol, fd)
WHOLE(int, listen, (int fd, int backlog), fd, backlog)
WHOLE(int, epoll_create1, (int flags), flags)
WHOLE(int, epoll_wait, (int fd, struct epoll_event *events, int n, int ms), fd, events, n, ms)
WHOLE(int, poll, (struct pollfd *fds, nfds_t n, int ms), fds, n, ms)
WHOLE(int, eventfd, (unsigned count, int flags), count, flags)
WHOLE(int, signalfd, (int fd, const sigset_t *set, int flags), fd, set, flags)
WHOLE(int, timerfd_create, (clockid_t clock, int flags), clock, flags)
WHOLE(int, pidfd_open, (pid_t pid, unsigned flags), pid, flags)
WHOLE(pid_t, waitpid, (pid_t pid, int *status, int options), pid, status, options)
TELLING(posix_spawn,
        (pid_t *restrict pid, const char *restrict path,
         const posix_spawn_file_actions_t *restrict actions, const posix_spawnattr_t *restrict attr,
         char *const *restrict argv, char *const *restrict env),
        pid, path, actions, attr, argv, env)
TELLING(pthread_create,
        (pthread_t *restrict thread, const pthread_attr_t *restrict attr, void *(*run)(void *),
         void *restrict argument),
        thread, attr, run, argument)

int epoll_ctl(int fd, int op, int of, struct epoll_event *event)
{
    REAL(epoll_ctl);
    return op == EPOLL_CTL_ADD && fails(K_epoll_ctl) ? -1 : real(fd, op, of, event);
}

int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit)
{
    REAL(setrlimit);
    return fails(K_setrlimit) ? -1 : real(resource, limit);
}

int bind(int fd, const struct sockaddr *address, socklen_t len)
{
    REAL(bind);
    return fails(K_bind) ? -1 : real(fd, address, len);
}

int connect(int fd, const struct sockaddr *address, socklen_t len)
{
    REAL(connect);
    return fails(K_connect) ? -1 : real(fd, address, len);
}

int accept(int fd, struct sockaddr *restrict address, socklen_t *restrict len)
{
    REAL(accept);
    return fails(K_accept) ? -1 : real(fd, address, len);
}

int accept4(int fd, struct sockaddr *restrict address, socklen_t *restrict len, int flags)
{
    REAL(accept4);
    return fails(K_accept4) ? -1 : real(fd, address, len, flags);
}

#define MODE_OF(flags, mode)                                                                       \
    do {                                                                                           \
        if (((flags) & (O_CREAT | O_TMPFILE)) != 0) {                                              \
            va_list more;                                                                          \
            va_start(more, flags);                                                                 \
            (mode) = va_arg(more, mode_t);                                                         \
            va_end(more);                                                                          \
        }                                                                                          \
    } while (0)

int open(const char *path, int flags, ...)
{
    mode_t mode = 0;
    REAL(open);
    MODE_OF(flags, mode);
    return fails(K_open) ? -1 : real(path, flags, mode);
}

int openat(int fd, const char *path, int flags, ...)
{
    mode_t mode = 0;
    REAL(openat);
    MODE_OF(flags, mode);
    return fails(K_openat) ? -1 : real(fd, path, flags, mode);
}

int fcntl(int fd, int command, ...)
{
    va_list more;
    REAL(fcntl);
    va_start(more, command);
    long argument = va_arg(more, long);
    va_end(more);
    return fails(K_fcntl) ? -1 : real(fd, command, argument);
}

int fcntl64(int fd, int command, ...)
{
    va_list more;
    REAL(fcntl64);
    va_start(more, command);
    long argument = va_arg(more, long);
    va_end(more);
    return fails(K_fcntl64) ? -1 : real(fd, command, argument);
}

void *mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
    REAL(mmap);
    return fails(K_mmap) ? MAP_FAILED : real(at, len, prot, flags, fd, offset);
}

char *realpath(const char *restrict path, char *restrict to)
{
    REAL(realpath);
    return fails(K_realpath) ? NULL : real(path, to);
}

DIR *opendir(const char *path)
{
    REAL(opendir);
    return fails(K_opendir) ? NULL : real(path);
}

struct dirent *readdir(DIR *dir)
{
    REAL(readdir);
    return fails(K_readdir) ? NULL : real(dir);
}

ssize_t read(int fd, void *to, size_t len)
{
    REAL(read);
    return fails_or_cuts(is_file(fd) ? K_read : K_read_ipc, fd, 0, &len) ? -1 : real(fd, to, len);
}

ssize_t write(int fd, const void *from, size_t len)
{
    REAL(write);
    return fd != STDERR_FILENO && fails_or_cuts(is_file(fd) ? K_write : K_write_ipc, fd, 0, &len) ? -1 : real(fd, from, len);
}

ssize_t pread(int fd, void *to, size_t len, off_t at)
{
    REAL(pread);
    return fails_or_cuts(K_pread, fd, 0, &len) ? -1 : real(fd, to, len, at);
}

ssize_t pwrite(int fd, const void *from, size_t len, off_t at)
{
    REAL(pwrite);
    return fails_or_cuts(K_pwrite, fd, 0, &len) ? -1 : real(fd, from, len, at);
}

ssize_t readv(int fd, const struct iovec *iov, int n)
{
    REAL(readv);
    struct iovec less[SHIM_IOV];
    size_t all = total(iov, (size_t)n), len = all;
    if (fails_or_cuts(is_file(fd) ? K_readv : K_readv_ipc, fd, 0, &len))
        return -1;
    return len == all ? real(fd, iov, n) : real(fd, less, (int)cut(less, iov, (size_t)n, len));
}

ssize_t writev(int fd, const struct iovec *iov, int n)
{
    REAL(writev);
    struct iovec less[SHIM_IOV];
    size_t all = total(iov, (size_t)n), len = all;
    if (fails_or_cuts(is_file(fd) ? K_writev : K_writev_ipc, fd, 0, &len))
        return -1;
    return len == all ? real(fd, iov, n) : real(fd, less, (int)cut(less, iov, (size_t)n, len));
}

ssize_t send(int fd, const void *from, size_t len, int flags)
{
    REAL(send);
    return fails_or_cuts_sent(K_send, fd, flags, &len) ? -1 : real(fd, from, len, flags);
}

ssize_t recv(int fd, void *to, size_t len, int flags)
{
    REAL(recv);
    return fails_or_cuts(K_recv, fd, flags, &len) ? -1 : real(fd, to, len, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    REAL(sendmsg);
    struct iovec less[SHIM_IOV];
    struct msghdr part = *message;
    size_t all = total(message->msg_iov, message->msg_iovlen), len = all;
    if (fails_or_cuts_sent(K_sendmsg, fd, flags, &len))
        return -1;
    if (len < all) {
        part.msg_iovlen = cut(less, message->msg_iov, message->msg_iovlen, len);
        part.msg_iov = less;
    }
    return real(fd, &part, flags);
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    REAL(recvmsg);
    struct iovec less[SHIM_IOV];
    struct msghdr part = *message;
    size_t all = total(message->msg_iov, message->msg_iovlen), len = all;
    if (fails_or_cuts(K_recvmsg, fd, flags, &len))
        return -1;
    if (len == all)
        return real(fd, message, flags);
    part.msg_iovlen = cut(less, message->msg_iov, message->msg_iovlen, len);
    part.msg_iov = less;
    ssize_t got = real(fd, &part, flags);
    message->msg_controllen = part.msg_controllen;
    message->msg_flags = part.msg_flags;
    message->msg_namelen = part.msg_namelen;
    return got;
}

ssize_t getrandom(void *to, size_t len, unsigned flags)
{
    REAL(getrandom);
    struct slot *slot;
    int what = due(K_getrandom, __builtin_return_address(0), &slot);
    if (what != 0)
        slot->struck++;
    if (what > 0) {
        errno = what;
        return -1;
    }
    return real(to, what == SHORT && len > 1 ? len / 2 : len, flags);
}

/* Clocks -------------------------------------------------------------------------------------- */

static int64_t now_ns(void)
{
    struct timespec t;
    (void)syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Seconds that the clock is off now. The last slot holds when it began, for all processes. */
static int64_t off(const char *clock)
{
    if (shim.slot == NULL || shim.clock[0] == '\0')
        return 0;
    struct slot *begin = &shim.slot[SHIM_SLOTS - 1];
    uint64_t none = 0, now = (uint64_t)now_ns();
    if (!__atomic_compare_exchange_n((uint64_t *)&begin->calls, &none, now, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST))
        now -= none;
    else
        now = 0;
    int64_t seconds = 0;
    for (const char *at = shim.clock; *at != '\0'; at += *at == ',') {
        char name[8];
        long ms, by;
        int used = 0;
        if (sscanf(at, "%7[^@]@%ld=%ld%n", name, &ms, &by, &used) == 3 && strcmp(name, clock) == 0 &&
            now >= (uint64_t)ms * 1000000)
            seconds = by;
        at += used > 0 ? (size_t)used : strlen(at);
    }
    if (seconds != 0)
        begin->struck++;
    return seconds;
}

static bool leaps(clockid_t clock)
{
    return clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_RAW ||
           clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_BOOTTIME;
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
    int status = (int)syscall(SYS_clock_gettime, clock, t);
    if (status == 0)
        t->tv_sec += leaps(clock) ? off("mono")
                                  : clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE ? off("real") : 0;
    return status;
}

time_t time(time_t *ret_t)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    if (ret_t != NULL)
        *ret_t = t.tv_sec;
    return t.tv_sec;
}

/* The kernel does not know of the leap: what waits until a time waits until that time less it. */
int timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old)
{
    REAL(timerfd_settime);
    struct itimerspec at = *new;
    if (fails(K_timerfd_settime))
        return -1;
    if ((flags & TFD_TIMER_ABSTIME) != 0 && at.it_value.tv_sec != 0) {
        at.it_value.tv_sec -= off("mono");
        if (at.it_value.tv_sec <= 0)
            at.it_value = (struct timespec){.tv_nsec = 1};
    }
    return real(fd, flags, &at, old);
}

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until)
{
    REAL(pthread_cond_timedwait);
    struct timespec at = *until;
    at.tv_sec -= off("mono");
    if (at.tv_sec < 0)
        at = (struct timespec){0};
    return real(cond, mutex, &at);
}
