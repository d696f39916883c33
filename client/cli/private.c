#include "client/cli/private.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STOP_MS 15000 /* a daemon drains for 10 s by default */

/* lanekeeperd lies beside this program. */
static char *daemon_beside(void)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    return lk_format("%s/lanekeeperd", dirname(path));
}

static enum lk_code make_dir(struct private_daemon *daemon, struct lk_err *err)
{
    const char *above = getenv("TMPDIR");
    /* A socket's path has 107 bytes at most: in a deep $TMPDIR there is no room. */
    if (above == NULL || above[0] != '/' || strlen(above) > 60)
        above = "/tmp";
    daemon->dir = lk_format("%s/lanekeeper-XXXXXX", above);
    if (mkdtemp(daemon->dir) == NULL) {
        enum lk_code code = lk_fail(err, LK_FAILED_PRECONDITION,
                                    "cannot make a folder for a private daemon, %s: %s",
                                    daemon->dir, strerror(errno));
        free(daemon->dir);
        daemon->dir = NULL;
        return code;
    }
    daemon->address = lk_format("ipc://%s/lanekeeper.sock", daemon->dir);
    return LK_OK;
}

/* In the child, before exec: only what is safe there. */
static _Noreturn void become(const struct private_daemon *daemon, int input, char *const argv[])
{
    int null = TEMP_FAILURE_RETRY(open("/dev/null", O_RDWR | O_CLOEXEC));
    /* A group of its own: Ctrl-C is for the command; a second SIGINT would cut its cleaning short. */
    if (null < 0 || setpgid(0, 0) != 0 || dup2(input, STDIN_FILENO) < 0 ||
        dup2(null, STDOUT_FILENO) < 0 || dup2(daemon->log, STDERR_FILENO) < 0)
        _exit(126);
    (void)execv(argv[0], argv);
    (void)dprintf(STDERR_FILENO, "%s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

/* When the command dies, however that may be, the kernel closes the lifeline, and the daemon cleans up
 * and ends. (PR_SET_PDEATHSIG sends a signal for each thread of the parent: the second one would cut
 * the cleaning short.) */
static enum lk_code start(struct private_daemon *daemon, char *const argv[], struct lk_err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return lk_fail(err, LK_RESOURCE_EXHAUSTED, "pipe: %s", strerror(errno));
    pid_t pid = fork();
    int error = errno;
    if (pid == 0)
        become(daemon, ends[0], argv);
    (void)close(ends[0]);
    if (pid < 0) {
        (void)close(ends[1]);
        return lk_fail(err, LK_RESOURCE_EXHAUSTED, "fork: %s", strerror(error));
    }
    daemon->lifeline = ends[1];
    daemon->pid = pid;
    return LK_OK;
}

static enum lk_code make_and_start(struct private_daemon *daemon, const char *config,
                                   const char *snapshots, struct lk_err *err)
{
    LK_TRY(make_dir(daemon, err));
    daemon->log = memfd_create("lanekeeperd.log", MFD_CLOEXEC);
    if (daemon->log < 0)
        return lk_fail(err, LK_INTERNAL, "memfd_create: %s", strerror(errno));
    char *path = daemon_beside(), *file = lk_strdup(config), *how = lk_strdup(snapshots);
    char run_dir[] = "--run-dir", with[] = "--snapshots", until[] = "--until-eof";
    char *const argv[] = {path, until, run_dir, daemon->dir, with, how, file, NULL};
    enum lk_code code = start(daemon, argv, err);
    free(path);
    free(file);
    free(how);
    return code;
}

enum lk_code private_start(struct private_daemon *daemon, const char *config, const char *snapshots,
                           struct lk_err *err)
{
    sigset_t ends, before;
    *daemon = (struct private_daemon){.log = -1, .lifeline = -1};
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGHUP);
    /* No end between making the folder and having somebody who removes it. The daemon begins with them
     * blocked and takes them when it is ready, so it always cleans up. */
    (void)sigprocmask(SIG_BLOCK, &ends, &before);
    enum lk_code code = make_and_start(daemon, config, snapshots, err);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    if (code != LK_OK)
        private_stop(daemon);
    return code;
}

/* The last line of the log; more than fits is cut at its front. Caller frees. */
static char *last_line(const struct private_daemon *daemon)
{
    char tail[1024];
    struct stat st;
    if (fstat(daemon->log, &st) != 0)
        return lk_strdup("");
    off_t from = st.st_size > (off_t)sizeof tail ? st.st_size - (off_t)sizeof tail : 0;
    ssize_t n = pread(daemon->log, tail, sizeof tail, from);
    while (n > 0 && tail[n - 1] == '\n')
        n--;
    const char *end = n > 0 ? memrchr(tail, '\n', (size_t)n) : NULL;
    size_t skip = end != NULL ? (size_t)(end + 1 - tail) : 0;
    return lk_strndup(tail + skip, n > 0 ? (size_t)n - skip : 0);
}

bool private_alive(struct private_daemon *daemon, struct lk_err *err)
{
    int status;
    if (daemon->pid == 0 || waitpid(daemon->pid, &status, WNOHANG) != daemon->pid)
        return daemon->pid != 0;
    daemon->pid = 0;
    char *line = last_line(daemon);
    (void)lk_fail(err, LK_FAILED_PRECONDITION, "the private lanekeeperd ended with %s %d; it said: %s",
                  WIFSIGNALED(status) ? "signal" : "status",
                  WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
                  line[0] != '\0' ? line : "nothing");
    free(line);
    return false;
}

bool private_listens(const struct private_daemon *daemon)
{
    return daemon->address != NULL && access(daemon->address + strlen("ipc://"), F_OK) == 0;
}

static void pause_ms(long ms)
{
    struct timespec t = {.tv_nsec = ms * 1000000};
    (void)nanosleep(&t, NULL);
}

/* True once it has ended. */
static bool wait_ended(pid_t pid, int ms)
{
    for (int waited = 0; waited < ms; waited += 5) {
        if (waitpid(pid, NULL, WNOHANG) != 0)
            return true;
        pause_ms(5);
    }
    return false;
}

static void remove_in(const char *dir, const char *name)
{
    char *path = lk_format("%s/%s", dir, name);
    (void)unlink(path);
    free(path);
}

void private_stop(struct private_daemon *daemon)
{
    if (daemon->pid > 0) {
        (void)kill(daemon->pid, SIGTERM);
        if (!wait_ended(daemon->pid, STOP_MS)) {
            (void)kill(daemon->pid, SIGKILL);
            (void)waitpid(daemon->pid, NULL, 0);
        }
    }
    if (daemon->dir != NULL) { /* of a daemon that could not do so itself */
        remove_in(daemon->dir, "lanekeeper.sock");
        remove_in(daemon->dir, "memory.sock");
        (void)rmdir(daemon->dir);
    }
    if (daemon->dir != NULL && daemon->log >= 0)
        (void)close(daemon->log);
    if (daemon->dir != NULL && daemon->lifeline >= 0)
        (void)close(daemon->lifeline);
    free(daemon->dir);
    free(daemon->address);
    *daemon = (struct private_daemon){.log = -1, .lifeline = -1};
}
