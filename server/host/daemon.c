#include "host/daemon.h"

#include "config/address.h"
#include "config/config.h"
#include "core/steps.h"
#include "host/engine.h"
#include "host/footprint.h"
#include "host/log.h"
#include "host/loop.h"
#include "rpc/http.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

struct daemon {
    const struct daemon_options *options;
    struct lk_config config;
    struct log log;
    _Atomic uint64_t log_lost;
    struct loop *loop;
    struct engine *engine;
    struct http_server *http;
    int signals;
    char *worker;
};

/* HTTP ---------------------------------------------------------------------------------------- */

static void answer_health(struct daemon *daemon, struct http_request *request)
{
    struct lk_buf reason = {0};
    bool healthy = engine_healthy(daemon->engine, &reason);
    lk_buf_puts(&reason, "\n");
    http_answer(request, healthy ? 200 : 503, "text/plain; charset=utf-8", reason.data, reason.len);
    lk_buf_done(&reason);
}

static void answer_with(struct daemon *daemon, struct http_request *request, const char *type,
                        void (*write)(struct engine *engine, struct lk_buf *out))
{
    struct lk_buf body = {0};
    write(daemon->engine, &body);
    http_answer(request, 200, type, body.data, body.len);
    lk_buf_done(&body);
}

static void http_ready(void *owner)
{
    struct daemon *daemon = owner;
    struct http_request *request;
    while ((request = http_next(daemon->http)) != NULL) {
        const char *path = http_path(request);
        if (strcmp(path, "/healthz") == 0 || strcmp(path, "/readyz") == 0)
            answer_health(daemon, request);
        else if (strcmp(path, "/metrics") == 0)
            answer_with(daemon, request, "text/plain; version=0.0.4; charset=utf-8",
                        engine_metrics);
        else if (strcmp(path, "/api/status") == 0)
            answer_with(daemon, request, "application/json", engine_status);
        else
            http_answer(request, 404, "text/plain",
                        "/metrics /healthz /readyz /api/status\n", 38);
    }
}

/* Signals ------------------------------------------------------------------------------------- */

/* Stopping takes too long: whatever still hangs dies with the process; nothing is lost by it. */
static void give_up(int signal)
{
    (void)signal;
    static const char text[] = "lanekeeperd: stopped at once\n";
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(0);
}

static void signalled(void *owner)
{
    struct daemon *daemon = owner;
    struct signalfd_siginfo info;
    if (read(daemon->signals, &info, sizeof info) != sizeof info)
        return;
    if (info.ssi_signo == SIGHUP)
        return;
    log_event(&daemon->log, LOG_LEVEL_INFO, "daemon", "stopping", "signal",
              info.ssi_signo == SIGTERM ? "SIGTERM" : "SIGINT", NULL);
    loop_stop(daemon->loop);
}

static enum lk_code watch_signals(struct daemon *daemon, struct lk_err *err)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* a file that may grow no more (ulimit -f) is an error like others */
    /* Before any thread starts, so that all of them have it blocked. */
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0 ||
        (daemon->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
        return lk_fail(err, LK_INTERNAL, "signalfd: %s", strerror(errno));
    return LK_OK;
}

static void lifeline_ready(void *owner)
{
    struct daemon *daemon = owner;
    char ignored[256];
    ssize_t n = read(STDIN_FILENO, ignored, sizeof ignored);
    if (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN)))
        return;
    loop_unwatch(daemon->loop, STDIN_FILENO);
    log_event(&daemon->log, LOG_LEVEL_INFO, "daemon", "stopping", "because",
              "standard input ended", NULL);
    loop_stop(daemon->loop);
}

static enum lk_code watch_lifeline(struct daemon *daemon, struct lk_err *err)
{
    struct stat st;
    if (!daemon->options->until_eof)
        return LK_OK;
    if (fstat(STDIN_FILENO, &st) != 0 || (!S_ISFIFO(st.st_mode) && !S_ISSOCK(st.st_mode)))
        return lk_fail(err, LK_INVALID_ARGUMENT,
                       "--until-eof: expected standard input to be a pipe or a socket");
    loop_watch(daemon->loop, STDIN_FILENO, lifeline_ready, daemon);
    return LK_OK;
}

/* From now on a second signal, or the drain timeout, ends the process at once. */
static void arm_give_up(const struct daemon *daemon)
{
    struct sigaction action = {.sa_handler = give_up};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGALRM, &action, NULL);
    (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
    (void)alarm((daemon->config.runtime.drain_timeout_ms + 999) / 1000);
}

/* Start --------------------------------------------------------------------------------------- */

/* lanekeeper-worker lies beside this program. */
static char *worker_beside(void)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    return lk_format("%s/lanekeeper-worker", dirname(path));
}

static enum lk_code make_run_dir(const struct daemon *daemon, struct lk_err *err)
{
    const char *dir = daemon->config.runtime.run_dir;
    struct stat st;
    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        return lk_fail(err, LK_FAILED_PRECONDITION, "cannot make the run directory %s: %s (runtime.run_dir)", dir,
                       strerror(errno));
    if (stat(dir, &st) == 0 && !S_ISDIR(st.st_mode))
        return lk_fail(err, LK_FAILED_PRECONDITION, "%s: expected a folder for sockets, found a file (runtime.run_dir)",
                       dir);
    return LK_OK;
}

static void say_ready(const struct daemon *daemon)
{
    for (uint32_t i = 0;; i++) {
        const char *address = engine_address(daemon->engine, i);
        if (address == NULL)
            break;
        log_event(&daemon->log, LOG_LEVEL_INFO, "daemon", "listening", "address", address, NULL);
    }
    if (daemon->http != NULL)
        log_event(&daemon->log, LOG_LEVEL_INFO, "daemon", "listening", "address",
                  http_address(daemon->http), "protocol", "http", NULL);
    log_event(&daemon->log, LOG_LEVEL_INFO, "daemon", "ready", "version", LK_VERSION, NULL);
}

static void set_text(char **text, char *value)
{
    free(*text);
    *text = value;
}

/* The sockets of the configuration belong to another daemon: this one has its own, and no others. */
static enum lk_code move_sockets(struct lk_runtime *runtime, const char *run_dir, struct lk_err *err)
{
    char here[PATH_MAX] = "";
    char *url = NULL;
    if (run_dir[0] != '/' && getcwd(here, sizeof here) == NULL)
        return lk_fail(err, LK_FAILED_PRECONDITION, "getcwd: %s", strerror(errno));
    set_text(&runtime->run_dir, lk_format("%s%s%s", here, run_dir[0] != '/' ? "/" : "", run_dir));
    char *address = lk_format("ipc://%s/lanekeeper.sock", runtime->run_dir);
    const char *problem = lk_address_parse(address, NULL, &url);
    free(address);
    if (problem != NULL)
        return lk_fail(err, LK_INVALID_ARGUMENT, "--run-dir %s: %s", run_dir, problem);
    for (uint32_t i = 0; i < runtime->n_listen; i++)
        set_text(&runtime->listen[i], NULL);
    runtime->listen[0] = url;
    runtime->n_listen = 1;
    set_text(&runtime->fd_socket, lk_format("%s/memory.sock", runtime->run_dir));
    set_text(&runtime->http, NULL);
    if (runtime->workers == 0)
        runtime->workers = 1; /* those of other machines work for the other daemon */
    set_text(&runtime->workers_listen, NULL);
    return LK_OK;
}

static enum lk_code apply_options(struct daemon *daemon, struct lk_err *err)
{
    struct lk_runtime *runtime = &daemon->config.runtime;
    enum daemon_snapshots snapshots = daemon->options->snapshots;
    bool exist = access(runtime->snapshot_dir, F_OK) == 0;
    if (snapshots == DAEMON_SNAPSHOTS_OFF || (snapshots == DAEMON_SNAPSHOTS_READ && !exist))
        runtime->snapshot_every = 0;
    else if (snapshots == DAEMON_SNAPSHOTS_READ)
        runtime->snapshot_every = LK_STEP_MAX + 1; /* the next one is due after the last step */
    if (snapshots == DAEMON_SNAPSHOTS_OFF)
        runtime->counts_bytes = 0; /* nothing that was kept is to be relied on */
    if (daemon->options->run_dir != NULL)
        return move_sockets(runtime, daemon->options->run_dir, err);
    return LK_OK;
}

/* Of this process: its own, and two a worker and a trainer. A handful of trainers must fit, or they
 * would wait for a daemon that says that it is ready. */
#define FILES_BASE 48u
#define FILES_A_WORKER 2u

/* As many open files as the system lets us have. */
static enum lk_code raise_file_limit(const struct daemon *daemon, struct lk_err *err)
{
    rlim_t needed = FILES_BASE + FILES_A_WORKER * daemon->config.runtime.workers;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return LK_OK;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max < needed)
        return lk_fail(err, LK_RESOURCE_EXHAUSTED,
                       "%llu open files are allowed (ulimit -Hn), at least %llu are needed with %u "
                       "workers, and 2 more for each trainer",
                       (unsigned long long)limit.rlim_max, (unsigned long long)needed,
                       daemon->config.runtime.workers);
    return LK_OK;
}

/* Whoever has our addresses is most often a daemon with the same configuration. */
static enum lk_code open_engine(struct daemon *daemon, const struct engine_config *config, struct lk_err *err)
{
    enum lk_code code = engine_open(config, &daemon->engine, err);
    if (code != LK_ALREADY_EXISTS)
        return code;
    char *told = lk_strdup(err->text);
    (void)lk_fail(err, code, "%s; if it is a lanekeeperd of this configuration, it serves already: `lanekeeper status "
                             "--config %s`; --run-dir DIR starts another beside it", told, daemon->options->config);
    free(told);
    return code;
}

/* One event a line. */
static void log_notes(const struct log *log, const char *notes)
{
    while (*notes != '\0') {
        size_t n = strcspn(notes, "\n");
        char *line = lk_strndup(notes, n);
        log_event(log, LOG_LEVEL_WARN, "config", "note", "text", line, NULL);
        free(line);
        notes += n + (notes[n] == '\n');
    }
}

/*
 * What the configuration's reader noted, and more memory than there is: said now, since later the kernel ends
 * processes without a word. A private daemon may be started on a small machine, to look at a configuration that is
 * meant for a large one: it makes do with a smaller arena.
 */
static enum lk_code check_notes(struct daemon *daemon, struct lk_err *err)
{
    struct machine_memory there;
    struct lk_buf notes = {0};
    lk_buf_puts(&notes, daemon->config.notes);
    machine_memory_read("", &there);
    footprint_lower_arena(&daemon->config, &there, daemon->options->until_eof, &notes);
    enum lk_code code = footprint_check(&daemon->config, &there, &notes, err);
    log_notes(&daemon->log, lk_buf_cstr(&notes));
    lk_buf_done(&notes);
    machine_memory_done(&there);
    return code;
}

static enum lk_code start(struct daemon *daemon, struct lk_err *err)
{
    LK_TRY(lk_config_load(daemon->options->config, &daemon->config, err));
    LK_TRY(apply_options(daemon, err));
    daemon->log.level = (enum log_level)daemon->config.runtime.log_level;
    LK_TRY(check_notes(daemon, err));
    LK_TRY(raise_file_limit(daemon, err));
    LK_TRY(make_run_dir(daemon, err));
    LK_TRY(watch_signals(daemon, err));
    daemon->worker = worker_beside();
    daemon->loop = loop_new(err);
    if (daemon->loop == NULL)
        return LK_RESOURCE_EXHAUSTED;
    struct engine_config engine = {.config = &daemon->config,
                                   .loop = daemon->loop,
                                   .log = &daemon->log,
                                   .worker_path = daemon->worker,
                                   .write_counts =
                                       daemon->options->snapshots == DAEMON_SNAPSHOTS_WRITE};
    LK_TRY(open_engine(daemon, &engine, err));
    if (daemon->config.runtime.http != NULL) {
        LK_TRY(http_open(daemon->config.runtime.http, &daemon->http, err));
        loop_watch(daemon->loop, http_fd(daemon->http), http_ready, daemon);
    }
    loop_watch(daemon->loop, daemon->signals, signalled, daemon);
    return watch_lifeline(daemon, err);
}

static void stop(struct daemon *daemon)
{
    http_close(daemon->http);
    engine_close(daemon->engine);
    loop_free(daemon->loop);
    if (daemon->signals >= 0)
        close(daemon->signals);
    if (daemon->options->run_dir != NULL)
        (void)rmdir(daemon->options->run_dir);
    lk_config_done(&daemon->config);
    free(daemon->worker);
}

int daemon_run(const struct daemon_options *options)
{
    struct daemon daemon = {.options = options, .signals = -1, .log = {.level = LOG_LEVEL_INFO}};
    struct lk_err err;
    daemon.log.lost = &daemon.log_lost;
    enum lk_code code = start(&daemon, &err);
    if (code != LK_OK) {
        log_event(&daemon.log, LOG_LEVEL_ERROR, "daemon", "cannot_start", "code",
                  lk_code_name(code), "reason", err.text, NULL);
        stop(&daemon);
        return EXIT_FAILURE;
    }
    say_ready(&daemon);
    loop_run(daemon.loop);
    arm_give_up(&daemon);
    stop(&daemon);
    return EXIT_SUCCESS;
}
