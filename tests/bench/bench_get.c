/*
 * How long a running daemon takes to hand over a batch that is ready, against a bare nng echo of 64
 * bytes in the same run. The echo's server is a process of its own, forked before nng is touched. The
 * rounds of all ways are interleaved, so that a noisy machine disturbs all of them alike.
 *
 *   bench_get IPC_ADDRESS TCP_ADDRESS
 *
 * Prints one line a way: its name, then p50 and p99 in microseconds.
 */
#include "client/c/lanekeeper.h"

#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/protocol/reqrep0/req.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ECHO, SHM, SHM_AHEAD, IPC, TCP, WAYS };
enum { ROUNDS = 20, CALLS = 200, N = ROUNDS * CALLS, STEPS = 4 };

struct bench {
    nng_socket echo;
    struct lanekeeper *lk[WAYS];
    double us[WAYS][N];
};

static double now_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void need(bool ok, const char *what)
{
    if (!ok) {
        (void)fprintf(stderr, "bench_get: %s\n", what);
        exit(1);
    }
}

static pid_t serve_echo(const char *address)
{
    pid_t pid = fork();
    nng_socket s;
    nng_msg *m;
    need(pid >= 0, "fork");
    if (pid != 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    need(nng_rep0_open(&s) == 0 && nng_listen(s, address, NULL, 0) == 0, "echo: cannot listen");
    while (nng_recvmsg(s, &m, 0) == 0)
        (void)nng_sendmsg(s, m, 0);
    _exit(1);
}

static void echo_once(nng_socket s)
{
    char bytes[64] = {0};
    size_t n = sizeof bytes;
    need(nng_send(s, bytes, sizeof bytes, 0) == 0 && nng_recv(s, bytes, &n, 0) == 0 && n == sizeof bytes,
         "echo: failed");
}

static struct lanekeeper *connect_to(const char *address, enum lanekeeper_sharing sharing, uint32_t lookahead)
{
    struct lanekeeper_options o;
    struct lanekeeper_error error;
    struct lanekeeper *lk;
    lanekeeper_options_init(&o);
    o.address = address;
    o.sharing = sharing;
    o.lookahead = lookahead;
    need(lanekeeper_connect(&o, &lk, &error) == LANEKEEPER_OK, error.text);
    return lk;
}

/* With a look-ahead the next steps were asked for before, among the same few steps, all ready. */
static void get_once(struct lanekeeper *lk, bool ahead, int call)
{
    struct lanekeeper_batch b;
    enum lanekeeper_code code;
    if (ahead && call % STEPS == 0)
        need(lanekeeper_seek(lk, 0) == LANEKEEPER_OK, lanekeeper_error_text(lk));
    code = ahead ? lanekeeper_next(lk, &b) : lanekeeper_get(lk, (uint64_t)(call % STEPS), &b);
    need(code == LANEKEEPER_OK, lanekeeper_error_text(lk));
    need(b.tokens[(size_t)b.rows * b.sequence - 1] < UINT32_MAX, "values");
    lanekeeper_release(&b);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void run(struct bench *b)
{
    for (int round = -1; round < ROUNDS; round++) { /* the first warms up */
        for (int way = 0; way < WAYS; way++) {
            for (int i = 0; i < CALLS; i++) {
                double start = now_us();
                if (way == ECHO)
                    echo_once(b->echo);
                else
                    get_once(b->lk[way], way == SHM_AHEAD, i);
                if (round >= 0)
                    b->us[way][round * CALLS + i] = now_us() - start;
            }
        }
    }
}

int main(int argc, char **argv)
{
    static const char *const name[] = {"echo", "shm", "shm_ahead", "ipc", "tcp"};
    static struct bench bench;
    char address[96], path[64];
    if (argc != 3)
        return 2;
    (void)snprintf(path, sizeof path, "/tmp/lk-bench-echo-%d", (int)getpid());
    (void)snprintf(address, sizeof address, "ipc://%s", path);
    pid_t server = serve_echo(address);
    need(nng_req0_open(&bench.echo) == 0 && nng_dial(bench.echo, address, NULL, NNG_FLAG_NONBLOCK) == 0, "dial");
    bench.lk[SHM] = connect_to(argv[1], LANEKEEPER_SHARED_ALWAYS, 0);
    bench.lk[SHM_AHEAD] = connect_to(argv[1], LANEKEEPER_SHARED_ALWAYS, 2);
    bench.lk[IPC] = connect_to(argv[1], LANEKEEPER_SHARED_NEVER, 0);
    bench.lk[TCP] = connect_to(argv[2], LANEKEEPER_SHARED_NEVER, 0);
    run(&bench);
    for (int way = 0; way < WAYS; way++) {
        qsort(bench.us[way], N, sizeof *bench.us[way], by_value);
        printf("%s p50 %.1f p99 %.1f\n", name[way], bench.us[way][N / 2], bench.us[way][N * 99 / 100]);
        lanekeeper_close(bench.lk[way]);
    }
    (void)nng_close(bench.echo);
    (void)kill(server, SIGKILL);
    (void)waitpid(server, NULL, 0);
    (void)unlink(path);
    return 0;
}
