/* Waiting, daemons that restart or stop, and Digest, which may take long. */
#include "tests/unit/client/fixture.h"

START_TEST(deadline_says_what_was_waited_for)
{
    struct fake_daemon *f = start(false);
    struct lanekeeper_options o = options_of(2);
    struct lanekeeper_batch b;
    o.timeout_ms = 2000;
    struct lanekeeper *lk = connect_with(&o);
    atomic_store(&f->fault, FAKE_HOLD);
    int64_t before = fake_now_ms();
    ck_assert_int_eq(lanekeeper_next(lk, &b), LANEKEEPER_DEADLINE_EXCEEDED);
    int64_t took = fake_now_ms() - before;
    ck_assert_msg(took >= 1995 && took < 10000, "%ld ms", (long)took);
    ck_assert_ptr_nonnull(strstr(lanekeeper_error_text(lk), FAKE_WAITS_FOR));
    ck_assert_ptr_nonnull(strstr(lanekeeper_error_text(lk), "step 0"));
    lanekeeper_release(&b); /* also after a failure */
    atomic_store(&f->fault, FAKE_NONE);
    next_is(lk, 0, false); /* nothing was lost or skipped */
    next_is(lk, 1, false);
    lanekeeper_close(lk);
    fake_stop(f);
}
END_TEST

static int third_time(void *context)
{
    return ++*(int *)context == 3;
}

START_TEST(interrupted_gives_up_and_goes_on)
{
    struct fake_daemon *f = start(false);
    struct lanekeeper_options o = options_of(0);
    struct lanekeeper_batch b;
    uint8_t digest[16];
    int asked = 0;
    o.timeout_ms = 2000;
    o.interrupted = third_time;
    o.context = &asked;
    struct lanekeeper *lk = connect_with(&o);
    asked = 0;
    atomic_store(&f->fault, FAKE_HOLD);
    int64_t before = fake_now_ms();
    ck_assert_int_eq(lanekeeper_next(lk, &b), LANEKEEPER_CANCELLED);
    int64_t took = fake_now_ms() - before;
    ck_assert_msg(took >= 290 && took < 1990, "%ld ms", (long)took);
    ck_assert_int_eq(asked, 3);
    lanekeeper_release(&b);
    asked = 0;
    ck_assert_int_eq(lanekeeper_get(lk, 70, &b), LANEKEEPER_CANCELLED);
    atomic_store(&f->fault, FAKE_NONE);
    LK_OK_(lanekeeper_digest(lk, 0, 1, digest), lk);
    next_is(lk, 0, false); /* nothing was lost or skipped */
    ck_assert_uint_eq(lanekeeper_step(lk), 1);
    ck_assert_uint_eq(lanekeeper_sequences(lk, lanekeeper_step(lk)), FAKE_ROWS);
    ck_assert_uint_eq(lanekeeper_sequences(lk, UINT64_MAX), UINT64_MAX);
    lanekeeper_close(lk);
    fake_stop(f);
}
END_TEST

START_TEST(no_daemon_can_be_interrupted)
{
    struct lanekeeper_options o = options_of(0);
    struct lanekeeper *lk;
    struct lanekeeper_error error;
    int asked = 0;
    o.interrupted = third_time;
    o.context = &asked;
    int64_t before = fake_now_ms();
    ck_assert_int_eq(lanekeeper_connect(&o, &lk, &error), LANEKEEPER_CANCELLED);
    ck_assert_int_lt(fake_now_ms() - before, 4000);
    ck_assert_int_eq(error.code, LANEKEEPER_CANCELLED);
}
END_TEST

START_TEST(no_daemon_is_unavailable_in_time)
{
    struct lanekeeper_options o = options_of(0);
    struct lanekeeper *lk;
    struct lanekeeper_error error;
    o.timeout_ms = 200;
    int64_t before = fake_now_ms();
    ck_assert_int_eq(lanekeeper_connect(&o, &lk, &error), LANEKEEPER_UNAVAILABLE);
    ck_assert_int_lt(fake_now_ms() - before, 4000);
    ck_assert_ptr_nonnull(strstr(error.text, address));
}
END_TEST

/* Loop: inline and shared. */
START_TEST(restart_is_invisible)
{
    struct fake_daemon *f = start(_i == 1);
    struct lanekeeper *lk = connect_ahead(4);
    struct lanekeeper_info info;
    uint64_t s = 0;
    for (int restart = 0; restart < 5; restart++) {
        for (int k = 0; k < 7; k++, s++)
            next_is(lk, s, _i == 1);
        fake_stop(f);
        f = start(_i == 1);
    }
    for (int k = 0; k < 7; k++, s++)
        next_is(lk, s, _i == 1);
    LK_OK_(lanekeeper_info(lk, &info), lk);
    ck_assert_uint_eq(info.connections, 6);
    lanekeeper_close(lk);
    fake_stop(f);
}
END_TEST

static void *start_later(void *arg)
{
    (void)poll(NULL, 0, 300); /* the daemon's absence, not a synchronisation */
    *(struct fake_daemon **)arg = start(true);
    return NULL;
}

START_TEST(calls_wait_for_the_daemon_to_come_back)
{
    struct fake_daemon *f = start(true);
    struct lanekeeper *lk = connect_ahead(0);
    pthread_t thread;
    next_is(lk, 0, true);
    fake_stop(f);
    ck_assert_int_eq(pthread_create(&thread, NULL, start_later, &f), 0);
    next_is(lk, 1, true);
    (void)pthread_join(thread, NULL);
    lanekeeper_close(lk);
    fake_stop(f);
}
END_TEST

struct replacement {
    struct fake_daemon *old, *new;
    const atomic_uint *value; /* of the old one: from this number on it is stopped */
    unsigned number;
};

static void *replace_when(void *arg)
{
    struct replacement *r = arg;
    for (int i = 0; i < 5000 && atomic_load(r->value) < r->number; i++)
        (void)poll(NULL, 0, 1);
    fake_stop(r->old); /* answers what waits UNAVAILABLE */
    r->new = start(true);
    return NULL;
}

START_TEST(daemon_that_is_stopping_is_like_one_that_is_gone)
{
    struct fake_daemon *f = start(true);
    struct lanekeeper *lk = connect_ahead(2);
    struct lanekeeper_batch b;
    pthread_t thread;
    next_is(lk, 0, true);
    LK_OK_(lanekeeper_seek(lk, 100), lk); /* none of these has been fetched ahead */
    atomic_store(&f->fault, FAKE_STOPPING);
    struct replacement r = {.old = f, .value = &f->refused, .number = 10};
    ck_assert_int_eq(pthread_create(&thread, NULL, replace_when, &r), 0);
    for (uint64_t s = 100; s < 110; s++)
        next_is(lk, s, true);
    (void)pthread_join(thread, NULL);
    lanekeeper_close(lk);

    struct lanekeeper_options o = options_of(0); /* none takes its place: until time is up */
    o.timeout_ms = 1000;
    lk = connect_with(&o);
    atomic_store(&r.new->fault, FAKE_STOPPING);
    int64_t before = fake_now_ms();
    ck_assert_int_eq(lanekeeper_get(lk, 200, &b), LANEKEEPER_DEADLINE_EXCEEDED);
    ck_assert_int_ge(fake_now_ms() - before, 995);
    ck_assert_ptr_nonnull(strstr(lanekeeper_error_text(lk), "stopping"));
    lanekeeper_close(lk);
    fake_stop(r.new);
}
END_TEST

/* Loop: inline and shared. What waits when a daemon stops in good order is answered UNAVAILABLE. */
START_TEST(calls_that_wait_survive_a_graceful_stop)
{
    struct fake_daemon *f = start(true);
    struct lanekeeper_options o = options_of(4);
    o.sharing = _i == 1 ? LANEKEEPER_SHARED_ALWAYS : LANEKEEPER_SHARED_NEVER;
    struct lanekeeper *lk = connect_with(&o);
    struct replacement r = {.old = f, .value = &f->asked[4], .number = 1};
    pthread_t thread;
    atomic_store(&f->fault, FAKE_HOLD);
    ck_assert_int_eq(pthread_create(&thread, NULL, replace_when, &r), 0);
    for (uint64_t s = 0; s < 10; s++)
        next_is(lk, s, _i == 1);
    (void)pthread_join(thread, NULL);
    lanekeeper_close(lk);
    fake_stop(r.new);
}
END_TEST

START_TEST(restart_with_another_stream_is_one_clear_error)
{
    struct fake_daemon *f = start(true);
    struct lanekeeper *lk = connect_ahead(0);
    struct lanekeeper_batch b;
    next_is(lk, 0, true);
    fake_stop(f);
    struct fake_config other = config_of(true);
    other.digest = 0xcd;
    f = fake_start(&other);
    ck_assert_int_eq(lanekeeper_next(lk, &b), LANEKEEPER_FAILED_PRECONDITION);
    ck_assert_ptr_nonnull(strstr(lanekeeper_error_text(lk), "abababab"));
    ck_assert_ptr_nonnull(strstr(lanekeeper_error_text(lk), "cdcdcdcd"));
    ck_assert_uint_eq(atomic_load(&f->asked[1]), 0);
    fake_stop(f);
    f = start(true); /* the right one again: as if nothing had been */
    for (int i = 0; lanekeeper_next(lk, &b) == LANEKEEPER_FAILED_PRECONDITION; i++)
        ck_assert_int_lt(i, 5000000); /* until the end of the wrong one is noticed */
    assert_batch(&b, 1, 0, FAKE_ROWS);
    lanekeeper_release(&b);
    lanekeeper_close(lk);
    fake_stop(f);
}
END_TEST

START_TEST(busy_daemon_is_asked_again)
{
    struct fake_daemon *f = start(false);
    struct lanekeeper *lk = connect_ahead(2);
    atomic_store(&f->fault, FAKE_BUSY);
    for (uint64_t s = 0; s < 10; s++)
        next_is(lk, s, false);
    lanekeeper_close(lk);
    fake_stop(f);
}
END_TEST

START_TEST(end_of_stream_is_out_of_range_with_its_length)
{
    struct fake_config config = config_of(false);
    config.steps = 3;
    struct fake_daemon *f = fake_start(&config);
    struct lanekeeper *lk = connect_ahead(8);
    struct lanekeeper_batch b;
    for (uint64_t s = 0; s < 3; s++)
        next_is(lk, s, false);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(lanekeeper_next(lk, &b), LANEKEEPER_OUT_OF_RANGE);
        ck_assert_ptr_nonnull(strstr(lanekeeper_error_text(lk), "3 steps"));
    }
    LK_OK_(lanekeeper_get(lk, 1, &b), lk);
    assert_batch(&b, 1, 0, FAKE_ROWS);
    lanekeeper_release(&b);
    lanekeeper_close(lk);
    fake_stop(f);
}
END_TEST

START_TEST(failure_of_the_data_is_not_retried_nor_skipped)
{
    struct fake_daemon *f = start(false);
    struct lanekeeper *lk = connect_ahead(0);
    struct lanekeeper_batch b;
    atomic_store(&f->fault, FAKE_DAMAGED);
    ck_assert_int_eq(lanekeeper_next(lk, &b), LANEKEEPER_DATA_LOSS);
    ck_assert_ptr_nonnull(strstr(lanekeeper_error_text(lk), "block 3"));
    ck_assert_uint_eq(atomic_load(&f->asked[0]), 1);
    atomic_store(&f->fault, FAKE_NONE);
    next_is(lk, 0, false);
    lanekeeper_close(lk);
    fake_stop(f);
}
END_TEST

/* The daemon forgets a Digest at its deadline: only one with all the time there is can be a long one. */
START_TEST(digest_may_take_as_long_as_the_caller_waits)
{
    struct fake_daemon *f = start(false);
    struct lanekeeper_options o = options_of(0);
    uint8_t digests[2][16];
    o.timeout_ms = 3600000;
    struct lanekeeper *lk = connect_with(&o);
    LK_OK_(lanekeeper_digest(lk, 0, 2, digests[0]), lk);
    ck_assert_uint_gt(atomic_load(&f->digest_ms), 590000); /* the daemon's limit is ten minutes */
    lanekeeper_close(lk);
    o.timeout_ms = 20000;
    lk = connect_with(&o);
    LK_OK_(lanekeeper_digest(lk, 0, 2, digests[0]), lk);
    ck_assert_uint_gt(atomic_load(&f->digest_ms), 18000);
    ck_assert_uint_le(atomic_load(&f->digest_ms), 20000);
    lanekeeper_close(lk);
    fake_stop(f);
}
END_TEST

START_TEST(digest_that_is_late_is_asked_for_once_and_says_what_it_waits_for)
{
    struct fake_daemon *f = start(false);
    struct lanekeeper_options o = options_of(0);
    uint8_t digest[16];
    o.timeout_ms = 2000;
    struct lanekeeper *lk = connect_with(&o);
    atomic_store(&f->fault, FAKE_HOLD_LATE);
    int64_t before = fake_now_ms();
    ck_assert_int_eq(lanekeeper_digest(lk, 200, 201, digest), LANEKEEPER_DEADLINE_EXCEEDED);
    int64_t took = fake_now_ms() - before;
    ck_assert_msg(took >= 1995 && took < 10000, "%ld ms", (long)took);
    ck_assert_ptr_nonnull(strstr(lanekeeper_error_text(lk), FAKE_WAITS_FOR));
    ck_assert_uint_eq(atomic_load(&f->digests), 1);
    atomic_store(&f->fault, FAKE_NONE);
    LK_OK_(lanekeeper_digest(lk, 200, 201, digest), lk);
    ck_assert_uint_eq(digest[0], 200);
    lanekeeper_close(lk);
    fake_stop(f);
}
END_TEST

START_TEST(digests_of_no_steps_are_none)
{
    struct fake_daemon *f = start(false);
    struct lanekeeper *lk = connect_ahead(0);
    LK_OK_(lanekeeper_digest(lk, 7, 7, NULL), lk);
    LK_OK_(lanekeeper_digest(lk, UINT64_MAX, UINT64_MAX, NULL), lk);
    ck_assert_uint_eq(atomic_load(&f->digests), 0);
    ck_assert_int_eq(lanekeeper_digest(lk, 8, 7, NULL), LANEKEEPER_INVALID_ARGUMENT);
    lanekeeper_close(lk);
    fake_stop(f);
}
END_TEST

START_TEST(digests_that_are_known_survive_a_restart)
{
    static uint8_t digests[300][16];
    struct fake_daemon *f = start(true);
    struct lanekeeper *lk = connect_ahead(0);
    struct replacement r = {.old = f, .value = &f->digest_from, .number = 128};
    pthread_t thread;
    atomic_store(&f->fault, FAKE_HOLD_LATE);
    ck_assert_int_eq(pthread_create(&thread, NULL, replace_when, &r), 0);
    LK_OK_(lanekeeper_digest(lk, 0, 300, digests[0]), lk);
    (void)pthread_join(thread, NULL);
    for (unsigned s = 0; s < 300; s++)
        ck_assert_uint_eq(digests[s][s % 16], s & 255);
    ck_assert_uint_eq(atomic_load(&r.new->digests), 3); /* from 128, 192 and 256 */
    lanekeeper_close(lk);
    fake_stop(r.new);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("client/waiting");
    TCase *t = tcase_create("waiting");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, deadline_says_what_was_waited_for);
    tcase_add_test(t, interrupted_gives_up_and_goes_on);
    tcase_add_test(t, no_daemon_can_be_interrupted);
    tcase_add_test(t, no_daemon_is_unavailable_in_time);
    tcase_add_loop_test(t, restart_is_invisible, 0, 2);
    tcase_add_test(t, calls_wait_for_the_daemon_to_come_back);
    tcase_add_test(t, daemon_that_is_stopping_is_like_one_that_is_gone);
    tcase_add_loop_test(t, calls_that_wait_survive_a_graceful_stop, 0, 2);
    tcase_add_test(t, restart_with_another_stream_is_one_clear_error);
    tcase_add_test(t, busy_daemon_is_asked_again);
    tcase_add_test(t, end_of_stream_is_out_of_range_with_its_length);
    tcase_add_test(t, failure_of_the_data_is_not_retried_nor_skipped);
    tcase_add_test(t, digest_may_take_as_long_as_the_caller_waits);
    tcase_add_test(t, digest_that_is_late_is_asked_for_once_and_says_what_it_waits_for);
    tcase_add_test(t, digests_of_no_steps_are_none);
    tcase_add_test(t, digests_that_are_known_survive_a_restart);
    suite_add_tcase(s, t);
    return s;
}
