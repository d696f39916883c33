/*
 * How long it takes to get a ready batch of 8 x 2,048 tokens, against a bare nng echo of 64 bytes in
 * the same run. Servers are processes of their own, forked before nng is touched. The rounds of all
 * ways are interleaved, so that a noisy machine disturbs all of them alike.
 *
 * Prints one line a way: name, p50 and p99 in microseconds, and p50 over the echo's.
 */
#include "client/c/lanekeeper.h"
#include "tests/lib/fake_daemon.h"

#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/protocol/reqrep0/req.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define TOKENS 2048u
#define ROUNDS 20
#define CALLS 200 /* of each way in a round */
#define N (ROUNDS * CALLS)

static char dir[64], echo_address[128], ipc_address[128], handover[128];

static double now_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void need(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "bench_fetch: %s failed\n", what);
        exit(1);
    }
}

static void serve_echo(void)
{
    nng_socket s;
    nng_msg *m;
    need(nng_rep0_open(&s) == 0 && nng_listen(s, echo_address, NULL, 0) == 0, "echo");
    while (nng_recvmsg(s, &m, 0) == 0)
        (void)nng_sendmsg(s, m, 0);
}

static void serve_batches(void)
{
    struct fake_config config = {.address = ipc_address, .handover = handover, .digest = 1,
                                 .tokens = TOKENS, .slots = 16, .steps = UINT64_MAX};
    (void)fake_start(&config);
    for (;;)
        (void)pause();
}

static pid_t child(void (*serve)(void))
{
    pid_t pid = fork();
    need(pid >= 0, "fork");
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        serve();
        _exit(1);
    }
    return pid;
}

/* ---- the ways ---- */

static void echo_once(nng_socket s)
{
    char bytes[64] = {0};
    size_t n = sizeof bytes;
    need(nng_send(s, bytes, sizeof bytes, 0) == 0 && nng_recv(s, bytes, &n, 0) == 0 && n == sizeof bytes,
         "echo");
}

static void get_once(struct lanekeeper *lk, uint64_t step)
{
    struct lanekeeper_batch b;
    need(lanekeeper_get(lk, step, &b) == LANEKEEPER_OK, lanekeeper_error_text(lk));
    need(b.tokens[b.sequence - 1] == fake_token(step, 0, b.sequence - 1), "values");
    lanekeeper_release(&b);
}

static void next_once(struct lanekeeper *lk)
{
    struct lanekeeper_batch b;
    need(lanekeeper_next(lk, &b) == LANEKEEPER_OK, lanekeeper_error_text(lk));
    need(b.tokens[b.sequence - 1] == fake_token(b.step, 0, b.sequence - 1), "values");
    lanekeeper_release(&b);
}

static struct lanekeeper *connect_to(enum lanekeeper_sharing sharing, uint32_t lookahead)
{
    struct lanekeeper_options o;
    struct lanekeeper_error error;
    struct lanekeeper *lk;
    lanekeeper_options_init(&o);
    o.address = ipc_address;
    o.sharing = sharing;
    o.lookahead = lookahead;
    need(lanekeeper_connect(&o, &lk, &error) == LANEKEEPER_OK, error.text);
    return lk;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double report(const char *name, double *us, double against)
{
    qsort(us, N, sizeof *us, by_value);
    double p50 = us[N / 2];
    printf("%-34s p50 %8.1f us  p99 %8.1f us", name, p50, us[N * 99 / 100]);
    if (against > 0)
        printf("  %.2f x echo", p50 / against);
    printf("\n");
    return p50;
}

static void run(nng_socket echo, struct lanekeeper *shared, struct lanekeeper *inline_, struct lanekeeper *ahead)
{
    static double us[4][N];
    static const char *const names[] = {"nng echo, 64 bytes", "get, shared memory", "get, inline over ipc",
                                        "next, shared, look-ahead 2"};
    double p50 = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int way = 0; way < 4; way++) {
            for (int i = 0; i < CALLS; i++) {
                double t = now_us();
                if (way == 0)
                    echo_once(echo);
                else if (way == 3)
                    next_once(ahead);
                else
                    get_once(way == 1 ? shared : inline_, (uint64_t)i % 8);
                us[way][round * CALLS + i] = now_us() - t;
            }
        }
    }
    for (int way = 0; way < 4; way++) {
        double value = report(names[way], us[way], p50);
        if (way == 0)
            p50 = value;
    }
}

int main(void)
{
    nng_socket echo;
    (void)snprintf(dir, sizeof dir, "/tmp/lk-bench-XXXXXX");
    need(mkdtemp(dir) != NULL, "mkdtemp");
    (void)snprintf(echo_address, sizeof echo_address, "ipc://%s/echo", dir);
    (void)snprintf(ipc_address, sizeof ipc_address, "ipc://%s/rpc", dir);
    (void)snprintf(handover, sizeof handover, "%s/memory", dir);
    pid_t servers[] = {child(serve_echo), child(serve_batches)};
    need(nng_req0_open(&echo) == 0 && nng_dial(echo, echo_address, NULL, NNG_FLAG_NONBLOCK) == 0, "dial");
    struct lanekeeper *shared = connect_to(LANEKEEPER_SHARED_ALWAYS, 0);
    struct lanekeeper *inline_ = connect_to(LANEKEEPER_SHARED_NEVER, 0);
    struct lanekeeper *ahead = connect_to(LANEKEEPER_SHARED_ALWAYS, 2);
    run(echo, shared, inline_, ahead);
    lanekeeper_close(shared);
    lanekeeper_close(inline_);
    lanekeeper_close(ahead);
    (void)nng_close(echo);
    for (int i = 0; i < 2; i++) {
        (void)kill(servers[i], SIGKILL);
        (void)waitpid(servers[i], NULL, 0);
    }
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command) == 0 ? 0 : 1;
}
