/*
 * Local workers as processes. They are spawned, never forked bare: this process has threads. They
 * get nothing but their connection; a pidfd tells of their end, so no signal handler is needed.
 */
#include "host/pool_private.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SOCKET_FD 3 /* as worker/main.c has them */
#define BOARD_FD 4
#define RESPAWN_FIRST_MS 20
#define RESPAWN_MAX_MS 5000
#if defined(__SANITIZE_ADDRESS__) /* which looks for leaks when a process ends: killed, it would find none */
#define END_POLITE_MS 3000
#else
#define END_POLITE_MS 300 /* all of them together; then they are killed: they have nothing to save */
#endif
#define END_KILLED_MS 1500 /* all of them together */
#define END_PAUSE_MS 5

extern char **environ;

/* Default signals, none blocked, and a process group of its own: Ctrl-C is for the daemon, which
 * drains and then ends its workers. */
static int spawn(const char *path, char *const argv[], int socket, int board, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK |
                                        POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setpgroup(&attr, 0);
    int rc = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(&actions, socket, SOCKET_FD);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(&actions, board, BOARD_FD);
    if (rc == 0)
        rc = posix_spawn_file_actions_addclosefrom_np(&actions, BOARD_FD + 1);
    if (rc == 0)
        rc = posix_spawn(ret_pid, path, &actions, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    return rc;
}

static void respawn_due(void *owner)
{
    proc_spawn(owner);
}

static void respawn_later(struct worker *worker)
{
    int64_t delay = worker->fails == 0 ? 0 : RESPAWN_FIRST_MS;
    for (uint32_t i = 1; i < worker->fails && delay < RESPAWN_MAX_MS; i++)
        delay *= 2;
    delay = delay > RESPAWN_MAX_MS ? RESPAWN_MAX_MS : delay;
    worker->fails++;
    loop_set(worker->pool->loop, &worker->respawn, loop_now_ms(worker->pool->loop) + delay,
             respawn_due, worker);
}

/* How a process ended, for a person; @text has room for 64 bytes. */
static void describe_end(int status, char text[64])
{
    if (WIFSIGNALED(status))
        (void)snprintf(text, 64, "was killed by SIG%s", sigabbrev_np(WTERMSIG(status)) == NULL
                                                            ? "?"
                                                            : sigabbrev_np(WTERMSIG(status)));
    else
        (void)snprintf(text, 64, "exited with status %d", WEXITSTATUS(status));
}

/* Only what a process does to itself can be its task's doing. */
static enum blame blame_of(const struct worker *worker, int status)
{
    static const int own[] = {SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE, SIGSYS};
    if (worker->excused)
        return BLAME_NONE;
    if (WIFEXITED(status)) /* who leaves with 0 has lost its connection: no row made it do so */
        return WEXITSTATUS(status) == 0 ? BLAME_NONE : BLAME_PART;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (WTERMSIG(status) == own[i])
            return BLAME_PART;
    return BLAME_OTHER;
}

static void reap(struct worker *worker)
{
    loop_unwatch(worker->pool->loop, worker->pidfd);
    (void)close(worker->pidfd);
    worker->pidfd = -1;
    worker->pid = 0;
    local_close(worker);
}

static void proc_ended(void *owner)
{
    struct worker *worker = owner;
    struct pool *pool = worker->pool;
    int status = 0;
    char how[64];
    pid_t pid = waitpid(worker->pid, &status, WNOHANG);
    if (pid == 0 || (pid < 0 && errno == EINTR))
        return;
    describe_end(status, how);
    pool_log(pool, POOL_WARNING, "worker_died", "process %d %s%s", (int)worker->pid, how,
             worker->excused ? " (by the pool)" : "");
    pool->last_death->len = 0;
    lk_buf_putf(pool->last_death, "the last one %s", how);
    pool->stats.deaths++;
    local_drain(worker);
    reap(worker);
    worker_lost(worker, blame_of(worker, status), how);
    respawn_later(worker);
}

static void not_started(struct worker *worker, const char *why)
{
    struct pool *pool = worker->pool;
    worker->pid = 0;
    local_close(worker);
    pool_log(pool, POOL_ERROR, "worker_not_started", "%s: %s", pool->config.worker_path, why);
    pool->last_death->len = 0;
    lk_buf_putf(pool->last_death, "%s cannot be started: %s", pool->config.worker_path, why);
    respawn_later(worker);
}

void proc_spawn(struct worker *worker)
{
    struct pool *pool = worker->pool;
    struct lk_err err;
    int socket = -1;
    char parent[16];
    (void)snprintf(parent, sizeof parent, "%d", (int)getpid());
    char *argv[] = {(char *)pool->config.worker_path, (char *)"--local", parent, NULL};
    worker->excused = false;
    worker->started_ms = loop_now_ms(pool->loop);
    if (local_open(worker, &socket, &err) != LK_OK) {
        not_started(worker, err.text);
        return;
    }
    int rc = spawn(pool->config.worker_path, argv, socket, worker->board.fd, &worker->pid);
    (void)close(socket);
    (void)close(worker->board.fd); /* the mapping is all we need */
    worker->board.fd = -1;
    if (rc == 0 && (worker->pidfd = pidfd_open(worker->pid, 0)) < 0) {
        rc = errno;
        (void)kill(worker->pid, SIGKILL); /* our child, not yet waited for: the number is its own */
        (void)waitpid(worker->pid, NULL, 0);
    }
    if (rc != 0)
        not_started(worker, strerror(rc));
    else
        loop_watch(pool->loop, worker->pidfd, proc_ended, worker);
}

void proc_kill(struct worker *worker, bool excused)
{
    if (worker->pid == 0)
        return;
    worker->excused = worker->excused || excused;
    (void)pidfd_send_signal(worker->pidfd, SIGKILL, NULL, 0);
}

/* Waits for its end; false: it takes longer. */
static bool ended_within(struct worker *worker, int64_t ms)
{
    struct pollfd ended = {.fd = worker->pidfd, .events = POLLIN};
    while (poll(&ended, 1, (int)ms) < 0 && errno == EINTR)
        continue;
    return waitpid(worker->pid, NULL, WNOHANG) == worker->pid;
}

static int64_t clock_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* the loop's clock stands still while we wait */
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int64_t left_ms(int64_t until_ms)
{
    int64_t left = until_ms - clock_ms();
    return left > 0 ? left : 0;
}

/* Killed, it ends at once: but while somebody traces it (a debugger, a leak checker), that one hears
 * of it before us. One that is not gone in time is left to whoever has it. */
static void end_now(struct worker *worker, int64_t until_ms)
{
    while (!ended_within(worker, left_ms(until_ms)) && left_ms(until_ms) > 0)
        (void)poll(NULL, 0, END_PAUSE_MS);
    reap(worker);
}

/* Idle workers have been told. One that has a task in hand sees, when it brings the result, that nobody will say
 * anything more; it would wait for an answer otherwise. Either ends by itself. */
void procs_end(struct pool *pool)
{
    uint32_t n = pool->config.workers < pool->n_workers ? pool->config.workers : pool->n_workers;
    int64_t polite_ms = clock_ms() + END_POLITE_MS;
    for (uint32_t i = 0; i < n; i++)
        if (pool->worker[i]->pid != 0 && pool->worker[i]->pipe.fd >= 0)
            (void)shutdown(pool->worker[i]->pipe.fd, SHUT_WR);
    for (uint32_t i = 0; i < n; i++)
        if (pool->worker[i]->pid != 0 && ended_within(pool->worker[i], left_ms(polite_ms)))
            reap(pool->worker[i]);
    for (uint32_t i = 0; i < n; i++)
        if (pool->worker[i]->pid != 0)
            proc_kill(pool->worker[i], true);
    int64_t until_ms = clock_ms() + END_KILLED_MS;
    for (uint32_t i = 0; i < n; i++)
        if (pool->worker[i]->pid != 0)
            end_now(pool->worker[i], until_ms);
}
