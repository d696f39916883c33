/* The care of listeners. Nobody counts connections here but the test, so it decides who seems alive. */
#include "rpc/listen.h"

#include "base/mem.h"
#include "tests/lib/check_main.h"

#include <nng/protocol/reqrep0/rep.h>
#include <nng/protocol/reqrep0/req.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* nng 1.5.2 does not free what hangs on a listener that was given up. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:listen_ipc\n";
}

struct fixture {
    char dir[64];
    char *address;
    nng_socket socket;
    struct listening listening;
    struct listener *listener;
};

static void fixture_open(struct fixture *f)
{
    struct lk_err err;

    (void)snprintf(f->dir, sizeof f->dir, "/tmp/lk-listen-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(f->dir));
    f->address = lk_format("ipc://%s/a", f->dir);
    const char *address[] = {f->address};
    ck_assert_int_eq(nng_rep0_open_raw(&f->socket), 0);
    ck_assert_int_eq(listening_open(&f->listening, f->socket, address, 1, 0600, &err), LK_OK);
    f->listener = &f->listening.listener[0];
}

static void fixture_close(struct fixture *f)
{
    char *command = lk_format("rm -rf '%s'", f->dir);
    ck_assert_int_eq(nng_close(f->socket), 0);
    listening_done(&f->listening);
    ck_assert_int_eq(system(command), 0);
    free(command);
    free(f->address);
}

/* As if the probe had been begun so much earlier. */
static void age(struct fixture *f, int64_t ms)
{
    f->listener->probed_ms -= ms;
}

START_TEST(listener_is_not_dead_before_its_probe_had_its_time)
{
    struct fixture f;
    fixture_open(&f);
    ck_assert_int_eq(listening_care(&f.listening), -1); /* begins one */
    ck_assert_int_ge(f.listener->probe, 0);
    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(listening_care(&f.listening), -1); /* looks that were held up come at once */
    ck_assert_int_ge(f.listener->probe, 0);
    age(&f, LISTENING_PROBE_MS);
    ck_assert_int_eq(listening_care(&f.listening), 0);
    fixture_close(&f);
}
END_TEST

START_TEST(listener_that_made_a_connection_is_alive_however_late_one_looks)
{
    struct fixture f;
    fixture_open(&f);
    ck_assert_int_eq(listening_care(&f.listening), -1);
    listening_accepted(&f.listening, atomic_load(&f.listener->id) + 1); /* another one's */
    listening_accepted(&f.listening, atomic_load(&f.listener->id));
    age(&f, 60 * LISTENING_PROBE_MS);
    ck_assert_int_eq(listening_care(&f.listening), -1);
    ck_assert_int_eq(f.listener->probe, -1);
    ck_assert_int_eq(listening_care(&f.listening), -1); /* the next probe has its own time */
    ck_assert_int_eq(listening_care(&f.listening), -1);
    fixture_close(&f);
}
END_TEST

START_TEST(replaced_listener_serves_and_is_counted_by_its_new_number)
{
    struct fixture f;
    nng_socket s;
    fixture_open(&f);
    ck_assert_int_eq(listening_care(&f.listening), -1);
    age(&f, LISTENING_PROBE_MS);
    ck_assert_int_eq(listening_care(&f.listening), 0);
    int before = atomic_load(&f.listener->id);
    listening_revive(&f.listening, 0);
    ck_assert_int_ne(atomic_load(&f.listener->id), before);
    ck_assert_uint_eq(f.listening.replaced, 1);
    ck_assert_int_eq(f.listener->probe, -1);
    listening_accepted(&f.listening, before); /* a straggler of the old one is no sign of life */
    ck_assert_uint_eq(f.listener->accepted, 0);
    listening_accepted(&f.listening, atomic_load(&f.listener->id));
    ck_assert_uint_eq(f.listener->accepted, 1);
    ck_assert_int_eq(nng_req0_open(&s), 0);
    ck_assert_int_eq(nng_dial(s, f.address, NULL, 0), 0);
    ck_assert_int_eq(nng_close(s), 0);
    fixture_close(&f);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("rpc/listen");
    TCase *t = tcase_create("listen");
    tcase_set_timeout(t, 20);
    tcase_add_test(t, listener_is_not_dead_before_its_probe_had_its_time);
    tcase_add_test(t, listener_that_made_a_connection_is_alive_however_late_one_looks);
    tcase_add_test(t, replaced_listener_serves_and_is_counted_by_its_new_number);
    suite_add_tcase(s, t);
    return s;
}
