/*
 * kill -9 on either side. The false daemon's nng must not be touched before a fork, so each test first makes
 * a spawner: a process that never uses nng, and forks daemons or clients on command.
 */
#include "client/c/lanekeeper.h"

#include "tests/lib/check_main.h"
#include "tests/lib/fake_daemon.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define T 64u

static char dir[64], address[128], handover[128];

static void setup(void)
{
    (void)snprintf(dir, sizeof dir, "/tmp/lk-kill-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    (void)snprintf(address, sizeof address, "ipc://%s/rpc", dir);
    (void)snprintf(handover, sizeof handover, "%s/memory", dir);
}

static void teardown(void)
{
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", dir);
    ck_assert_int_eq(system(command), 0);
}

static struct fake_config config(void)
{
    return (struct fake_config){.address = address, .handover = handover, .digest = 1, .tokens = T,
                                .slots = 16, .steps = UINT64_MAX};
}

static void daemon_body(void)
{
    struct fake_config c = config();
    (void)fake_start(&c);
    for (;;)
        (void)pause();
}

static struct lanekeeper *connect_ahead(uint32_t lookahead, struct lanekeeper_error *error)
{
    struct lanekeeper_options o;
    struct lanekeeper *lk = NULL;
    lanekeeper_options_init(&o);
    o.address = address;
    o.lookahead = lookahead;
    o.timeout_ms = 20000;
    (void)lanekeeper_connect(&o, &lk, error);
    return lk;
}

static void client_body(void)
{
    struct lanekeeper_error error;
    struct lanekeeper *lk = connect_ahead(4, &error);
    struct lanekeeper_batch b;
    while (lk != NULL && lanekeeper_next(lk, &b) == LANEKEEPER_OK)
        lanekeeper_release(&b);
}

/* ---- the spawner: 's' starts a process, 'k' kills it; each is answered with a byte ---- */

static void spawner_run(int commands, void (*body)(void))
{
    char command;
    pid_t pid = -1;
    while (read(commands, &command, 1) == 1) {
        if (command == 's' && (pid = fork()) == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            body();
            _exit(0);
        }
        if (command == 'k') {
            (void)kill(pid, SIGKILL);
            (void)waitpid(pid, NULL, 0);
        }
        if (write(commands, &command, 1) != 1)
            break;
    }
    if (pid > 0)
        (void)kill(pid, SIGKILL);
    _exit(0);
}

static int spawner(void (*body)(void))
{
    int pair[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        close(pair[0]);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        spawner_run(pair[1], body);
    }
    close(pair[1]);
    return pair[0];
}

static void command(int fd, char c)
{
    ck_assert_int_eq(write(fd, &c, 1), 1);
    ck_assert_int_eq(read(fd, &c, 1), 1);
}

static void assert_values(const struct lanekeeper_batch *b, uint64_t step)
{
    ck_assert_uint_eq(b->step, step);
    for (uint32_t r = 0; r < b->rows; r++) {
        for (uint32_t j = 0; j < T; j++)
            ck_assert_uint_eq(b->tokens[r * T + j], fake_token(step, r, j));
    }
}

START_TEST(trainer_outlives_killed_daemons_without_gap_or_repeat)
{
    struct lanekeeper_batch held[20], b;
    struct lanekeeper_error error = {0};
    int daemon = spawner(daemon_body);
    uint64_t step = 0;
    command(daemon, 's');
    struct lanekeeper *lk = connect_ahead(4, &error);
    ck_assert_msg(lk != NULL, "%s", error.text);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i <= round % 5; i++, step++) {
            enum lanekeeper_code code = lanekeeper_next(lk, &b);
            ck_assert_msg(code == LANEKEEPER_OK, "step %lu: %s", step, lanekeeper_error_text(lk));
            assert_values(&b, step);
            if (i == 0)
                held[round] = b; /* held across all that follows */
            else
                lanekeeper_release(&b);
        }
        command(daemon, 'k');
        command(daemon, 's');
    }
    ck_assert_int_eq(lanekeeper_next(lk, &b), LANEKEEPER_OK);
    assert_values(&b, step);
    lanekeeper_release(&b);
    step = 0;
    for (int round = 0; round < 20; step += (uint64_t)(round % 5) + 1, round++) {
        assert_values(&held[round], step);
        lanekeeper_release(&held[round]);
    }
    lanekeeper_close(lk);
    command(daemon, 'k');
    close(daemon);
}
END_TEST

START_TEST(killed_clients_leave_nothing_behind)
{
    int client = spawner(client_body);
    struct fake_config c = config();
    struct fake_daemon *f = fake_start(&c);
    struct lanekeeper_error error = {0};
    struct lanekeeper_batch b;
    uint32_t random = 12345;
    for (int round = 0; round < 60; round++) {
        command(client, 's');
        random = random * 1664525u + 1013904223u;
        (void)poll(NULL, 0, (int)(random >> 27)); /* 0 to 31 ms: the moment of death, not a synchronisation */
        command(client, 'k');
    }
    for (int i = 0; i < 10000 && (atomic_load(&f->leases_held) > 0 || atomic_load(&f->clients) > 0); i++)
        (void)poll(NULL, 0, 1);
    ck_assert_uint_eq(atomic_load(&f->leases_held), 0);
    ck_assert_uint_eq(atomic_load(&f->clients), 0);
    struct lanekeeper *lk = connect_ahead(2, &error);
    ck_assert_msg(lk != NULL, "%s", error.text);
    ck_assert_int_eq(lanekeeper_next(lk, &b), LANEKEEPER_OK);
    assert_values(&b, 0);
    ck_assert_uint_eq(b.shared, 1);
    lanekeeper_release(&b);
    lanekeeper_close(lk);
    close(client);
    fake_stop(f);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("client/kill");
    TCase *t = tcase_create("kill");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, trainer_outlives_killed_daemons_without_gap_or_repeat);
    tcase_add_test(t, killed_clients_leave_nothing_behind);
    suite_add_tcase(s, t);
    return s;
}
