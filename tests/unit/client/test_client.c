/* liblanekeeper against a daemon whose faults are chosen. nng is used inside test bodies only. */
#include "tests/unit/client/fixture.h"

#include "base/status.h"

#include <errno.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>

START_TEST(codes_are_those_of_the_server)
{
#define SAME(name, number)                                                                         \
    ck_assert_int_eq(LANEKEEPER_##name, LK_##name);                                                \
    ck_assert_str_eq(lanekeeper_code_name(LANEKEEPER_##name), lk_code_name(LK_##name));
    LK_CODES(SAME)
#undef SAME
    ck_assert_str_eq(lanekeeper_code_name(99), "?");
    ck_assert_str_eq(lanekeeper_code_name(-1), "?");
}
END_TEST

/* Loop: inline and shared. */
START_TEST(steps_come_in_order_with_their_values)
{
    struct fake_daemon *f = start(_i == 1);
    struct lanekeeper *lk = connect_ahead(4);
    for (uint64_t s = 0; s < 50; s++)
        next_is(lk, s, _i == 1);
    lanekeeper_close(lk);
    wait_for(&f->leases_held, 0);
    fake_stop(f);
}
END_TEST

START_TEST(ranks_cuts_are_the_whole)
{
    struct fake_daemon *f = start(_i == 1);
    for (uint32_t world = 1; world <= 8; world++) {
        uint32_t rows = 0;
        for (uint32_t rank = 0; rank < world; rank++) {
            struct lanekeeper_options o = options_of(0);
            struct lanekeeper_batch b;
            o.rank = rank;
            o.world = world;
            struct lanekeeper *lk = connect_with(&o);
            LK_OK_(lanekeeper_get(lk, 3, &b), lk);
            assert_batch(&b, 3, rows, b.rows);
            rows += b.rows;
            lanekeeper_release(&b);
            lanekeeper_close(lk);
        }
        ck_assert_uint_eq(rows, FAKE_ROWS);
    }
    fake_stop(f);
}
END_TEST

START_TEST(info_names_the_stream)
{
    struct fake_daemon *f = start(true);
    struct lanekeeper *lk = connect_ahead(0);
    struct lanekeeper_info info;
    LK_OK_(lanekeeper_info(lk, &info), lk);
    ck_assert_uint_eq(info.sequence, T);
    ck_assert_uint_eq(info.stream_digest[0], 0xab);
    ck_assert_uint_eq(info.datasets, 2);
    ck_assert_uint_eq(info.shared, 1);
    ck_assert_uint_eq(info.connections, 1);
    ck_assert_str_eq(lanekeeper_dataset(lk, 1), "code");
    ck_assert_ptr_null(lanekeeper_dataset(lk, 2));
    lanekeeper_close(lk);
    fake_stop(f);
}
END_TEST

/* Loop: look-ahead 0, 1, 4, 8. */
START_TEST(state_counts_what_was_used_not_what_was_fetched)
{
    static const uint32_t depths[] = {0, 1, 4, 8};
    struct fake_daemon *f = start(true);
    struct lanekeeper *lk = connect_ahead(depths[_i]);
    uint8_t state[LANEKEEPER_STATE_MAX], again[LANEKEEPER_STATE_MAX];
    size_t n, m;

    for (uint64_t s = 0; s <= 2; s++)
        next_is(lk, s, true);
    for (uint64_t s = 3; s <= 2 + depths[_i]; s++) /* the look-ahead has really been fetched */
        wait_for(&f->asked[s], 1);
    LK_OK_(lanekeeper_state(lk, LANEKEEPER_CONSUMED, state, &n), lk);
    ck_assert_uint_le(n, 64);
    lanekeeper_close(lk);
    wait_for(&f->leases_held, 0); /* else there may be no slot left to share */

    struct lanekeeper_options o = options_of(depths[_i]);
    o.state = state;
    o.state_bytes = n;
    lk = connect_with(&o);
    LK_OK_(lanekeeper_state(lk, LANEKEEPER_CONSUMED, again, &m), lk); /* at once: the same */
    ck_assert_uint_eq(n, m);
    ck_assert_int_eq(memcmp(state, again, n), 0);
    next_is(lk, 3, true);
    lanekeeper_close(lk);
    wait_for(&f->leases_held, 0);

    lk = connect_ahead(depths[_i]);
    next_is(lk, 0, true);
    LK_OK_(lanekeeper_resume(lk, state, n), lk); /* also after the iteration began */
    next_is(lk, 3, true);
    LK_OK_(lanekeeper_seek(lk, 1), lk);
    next_is(lk, 1, true);
    lanekeeper_close(lk);
    wait_for(&f->leases_held, 0);
    fake_stop(f);
}
END_TEST

START_TEST(state_is_the_same_on_every_rank)
{
    struct fake_daemon *f = start(false);
    uint8_t state[2][LANEKEEPER_STATE_MAX];
    size_t n[2];
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct lanekeeper_options o = options_of(3);
        struct lanekeeper_batch b;
        o.rank = rank;
        o.world = 2;
        struct lanekeeper *lk = connect_with(&o);
        LK_OK_(lanekeeper_next(lk, &b), lk);
        lanekeeper_release(&b);
        LK_OK_(lanekeeper_state(lk, LANEKEEPER_CONSUMED, state[rank], &n[rank]), lk);
        lanekeeper_close(lk);
    }
    ck_assert_uint_eq(n[0], n[1]);
    ck_assert_int_eq(memcmp(state[0], state[1], n[0]), 0);
    fake_stop(f);
}
END_TEST

START_TEST(state_of_another_stream_is_refused_with_both_digests)
{
    struct fake_daemon *f = start(false);
    struct lanekeeper *lk = connect_ahead(0);
    struct lanekeeper_error error;
    uint8_t state[LANEKEEPER_STATE_MAX];
    size_t n;
    LK_OK_(lanekeeper_state(lk, 7, state, &n), lk);
    fake_stop(f);
    lanekeeper_close(lk);

    struct fake_config other = config_of(false);
    other.digest = 0xcd;
    f = fake_start(&other);
    struct lanekeeper_options o = options_of(0);
    o.state = state;
    o.state_bytes = n;
    ck_assert_int_eq(lanekeeper_connect(&o, &lk, &error), LANEKEEPER_FAILED_PRECONDITION);
    ck_assert_ptr_nonnull(strstr(error.text, "abababababababababababababababab"));
    ck_assert_ptr_nonnull(strstr(error.text, "cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd"));
    lk = connect_ahead(0);
    ck_assert_int_eq(lanekeeper_resume(lk, state, n), LANEKEEPER_FAILED_PRECONDITION);
    ck_assert_ptr_nonnull(strstr(lanekeeper_error_text(lk), "abababab"));
    ck_assert_ptr_nonnull(strstr(lanekeeper_error_text(lk), "cdcdcdcd"));
    next_is(lk, 0, false); /* the handle is as it was */
    lanekeeper_close(lk);
    fake_stop(f);
}
END_TEST

START_TEST(damaged_state_is_refused)
{
    struct fake_daemon *f = start(false);
    struct lanekeeper *lk = connect_ahead(0);
    uint8_t state[LANEKEEPER_STATE_MAX];
    size_t n;
    LK_OK_(lanekeeper_state(lk, 7, state, &n), lk);
    for (size_t bit = 0; bit < 8 * n; bit++) {
        state[bit / 8] ^= (uint8_t)(1u << bit % 8);
        ck_assert_int_eq(lanekeeper_resume(lk, state, n), LANEKEEPER_DATA_LOSS);
        state[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t k = 0; k < n; k++)
        ck_assert_int_eq(lanekeeper_resume(lk, state, k), LANEKEEPER_DATA_LOSS);
    LK_OK_(lanekeeper_resume(lk, state, n), lk);
    next_is(lk, 7, false);
    lanekeeper_close(lk);
    fake_stop(f);
}
END_TEST

/* ---- holding and releasing ---- */

START_TEST(release_twice_gives_back_once)
{
    struct fake_daemon *f = start(true);
    struct lanekeeper *lk = connect_ahead(0);
    struct lanekeeper_batch a, b;
    LK_OK_(lanekeeper_get(lk, 0, &a), lk);
    LK_OK_(lanekeeper_get(lk, 0, &b), lk);
    wait_for(&f->leases_held, 2);
    lanekeeper_release(&a);
    lanekeeper_release(&a);
    lanekeeper_release(NULL);
    wait_for(&f->leases_held, 1);
    assert_batch(&b, 0, 0, FAKE_ROWS);
    lanekeeper_release(&b);
    wait_for(&f->leases_held, 0);
    lanekeeper_close(lk);
    fake_stop(f);
}
END_TEST

START_TEST(two_hundred_held_batches_keep_their_values)
{
    static struct lanekeeper_batch b[200];
    struct fake_config few = config_of(true);
    few.slots = 8; /* the rest must come inline */
    struct fake_daemon *f = fake_start(&few);
    struct lanekeeper *lk = connect_ahead(4);
    uint32_t shared = 0;
    for (uint64_t s = 0; s < 200; s++) {
        LK_OK_(lanekeeper_next(lk, &b[s]), lk);
        shared += b[s].shared;
    }
    ck_assert_uint_eq(shared, 8);
    for (uint64_t s = 0; s < 200; s++)
        assert_batch(&b[s], s, 0, FAKE_ROWS);
    lanekeeper_close(lk); /* still held */
    for (uint64_t s = 0; s < 200; s++)
        assert_batch(&b[s], s, 0, FAKE_ROWS);
    ck_assert_uint_eq(atomic_load(&f->leases_held), 8);
    struct lanekeeper *other = connect_ahead(4); /* others are served meanwhile, and overwrite nothing */
    LK_OK_(lanekeeper_seek(other, 500), other);
    for (uint64_t s = 500; s < 600; s++)
        next_is(other, s, false);
    for (uint64_t s = 0; s < 200; s++) {
        assert_batch(&b[s], s, 0, FAKE_ROWS);
        lanekeeper_release(&b[s]);
    }
    lanekeeper_close(other); /* its look-ahead may hold slots that came free */
    wait_for(&f->leases_held, 0);
    fake_stop(f);
}
END_TEST

START_TEST(batch_outlives_its_daemon)
{
    struct lanekeeper_batch b;
    struct fake_daemon *f = start(true);
    struct lanekeeper *lk = connect_ahead(2);
    LK_OK_(lanekeeper_next(lk, &b), lk);
    fake_stop(f);
    assert_batch(&b, 0, 0, FAKE_ROWS);
    f = start(true);
    for (uint64_t s = 1; s < 20; s++)
        next_is(lk, s, true);
    assert_batch(&b, 0, 0, FAKE_ROWS);
    lanekeeper_release(&b);
    lanekeeper_close(lk);
    wait_for(&f->leases_held, 0);
    fake_stop(f);
}
END_TEST

static void *release_all(void *arg)
{
    struct lanekeeper_batch *b = arg;
    for (int i = 0; i < 8; i++)
        lanekeeper_release(&b[i]);
    return NULL;
}

START_TEST(batches_may_be_released_by_another_thread)
{
    struct fake_daemon *f = start(true);
    struct lanekeeper *lk = connect_ahead(2);
    for (int round = 0; round < 20; round++) {
        struct lanekeeper_batch b[8];
        pthread_t thread;
        for (int i = 0; i < 8; i++)
            LK_OK_(lanekeeper_next(lk, &b[i]), lk);
        ck_assert_int_eq(pthread_create(&thread, NULL, release_all, b), 0);
        struct lanekeeper_batch more; /* meanwhile this thread goes on */
        LK_OK_(lanekeeper_next(lk, &more), lk);
        assert_batch(&more, (uint64_t)round * 9 + 8, 0, FAKE_ROWS);
        lanekeeper_release(&more);
        (void)pthread_join(thread, NULL);
    }
    lanekeeper_close(lk);
    wait_for(&f->leases_held, 0);
    fake_stop(f);
}
END_TEST

START_TEST(shared_batch_cannot_be_written)
{
    struct fake_daemon *f = start(true);
    struct lanekeeper *lk = connect_ahead(0);
    struct lanekeeper_batch b;
    LK_OK_(lanekeeper_get(lk, 0, &b), lk);
    ck_assert_uint_eq(b.shared, 1);
    int zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(zeros, 0);
    ck_assert_int_eq(read(zeros, (void *)(uintptr_t)b.tokens, 4), -1); /* the kernel may not write it */
    ck_assert_int_eq(errno, EFAULT);
    void *page = (void *)((uintptr_t)b.tokens & ~(uintptr_t)4095);
    ck_assert_int_eq(mprotect(page, 4096, PROT_READ | PROT_WRITE), -1); /* nor can that be changed */
    ck_assert_int_eq(errno, EACCES);
    close(zeros);
    assert_batch(&b, 0, 0, FAKE_ROWS);
    lanekeeper_release(&b);
    lanekeeper_close(lk);
    fake_stop(f);
}
END_TEST

START_TEST(late_answers_give_their_lease_back)
{
    struct fake_daemon *f = start(true);
    struct lanekeeper_options o = options_of(2);
    struct lanekeeper *lk = connect_with(&o);
    struct lanekeeper_batch b;
    for (uint64_t s = 0; s < 50; s++) { /* ask, lose interest, ask again */
        LK_OK_(lanekeeper_seek(lk, s * 3), lk);
        next_is(lk, s * 3, true);
    }
    LK_OK_(lanekeeper_seek(lk, 5), lk);
    LK_OK_(lanekeeper_next(lk, &b), lk);
    lanekeeper_release(&b);
    struct lanekeeper_info info;
    for (int i = 0; i < 5000 && atomic_load(&f->leases_held) != 2; i++) {
        LK_OK_(lanekeeper_info(lk, &info), lk); /* reads what has arrived */
        (void)poll(NULL, 0, 1);
    }
    ck_assert_uint_eq(atomic_load(&f->leases_held), 2); /* what the look-ahead holds, and no more */
    lanekeeper_close(lk);
    wait_for(&f->leases_held, 0);
    fake_stop(f);
}
END_TEST

/* ---- what a daemon may send ---- */

/* Loop: every kind of malformed block. */
START_TEST(malformed_batch_is_data_loss_and_the_next_one_works)
{
    bool shared = _i == FAKE_OUTSIDE || _i == FAKE_NO_REGION;
    struct fake_daemon *f = start(shared);
    struct lanekeeper *lk = connect_ahead(0);
    struct lanekeeper_batch b;
    atomic_store(&f->fault, _i);
    ck_assert_int_eq(lanekeeper_next(lk, &b), LANEKEEPER_DATA_LOSS);
    ck_assert_ptr_nonnull(strstr(lanekeeper_error_text(lk), "malformed batch"));
    wait_for(&f->leases_held, 0);
    atomic_store(&f->fault, FAKE_NONE);
    next_is(lk, 0, shared);
    lanekeeper_close(lk);
    fake_stop(f);
}
END_TEST

struct garbler {
    nng_socket socket;
    int kind;
};

/* Answers every request with garbage of one kind. */
static void *garble(void *arg)
{
    struct garbler *g = arg;
    nng_msg *m;
    while (nng_recvmsg(g->socket, &m, 0) == 0) {
        struct lk_envelope e;
        uint8_t *body = nng_msg_body(m);
        ck_assert(lk_envelope_get(body, nng_msg_len(m), &e));
        switch (g->kind) {
        case 0: nng_msg_clear(m); break;                          /* nothing */
        case 1: body[0] = 'X'; break;                             /* no frame */
        case 2: (void)nng_msg_chop(m, 1); break;                  /* shorter than it says */
        case 3: memset(body + 20, 0xff, 12); break;               /* lengths beyond everything */
        case 4: memset(body + LK_ENVELOPE_BYTES, 0xff, e.header_bytes); break; /* no protobuf */
        default: (void)nng_msg_trim(m, 16); break;
        }
        (void)nng_sendmsg(g->socket, m, 0);
    }
    return NULL;
}

START_TEST(garbage_answers_fail_the_call_and_nothing_else)
{
    struct garbler g = {.kind = _i};
    pthread_t thread;
    struct lanekeeper *lk;
    struct lanekeeper_error error;
    struct lanekeeper_options o = options_of(0);
    o.timeout_ms = 300;
    ck_assert_int_eq(nng_rep0_open(&g.socket), 0);
    ck_assert_int_eq(nng_listen(g.socket, address, NULL, 0), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, garble, &g), 0);
    enum lanekeeper_code code = lanekeeper_connect(&o, &lk, &error);
    ck_assert_msg(code == LANEKEEPER_DATA_LOSS, "%s: %s", lanekeeper_code_name(code), error.text);
    ck_assert_int_eq(nng_close(g.socket), 0);
    (void)pthread_join(thread, NULL);
}
END_TEST

/* ---- the rest ---- */

START_TEST(tokens_convert)
{
    struct fake_daemon *f = start(true);
    struct lanekeeper *lk = connect_ahead(0);
    struct lanekeeper_batch b;
    uint16_t u16[FAKE_ROWS * T];
    uint32_t u32[FAKE_ROWS * T];
    int64_t i64[FAKE_ROWS * T];
    LK_OK_(lanekeeper_get(lk, 5, &b), lk);
    ck_assert_int_eq(lanekeeper_copy_tokens(&b, LANEKEEPER_U16, u16, sizeof u16), LANEKEEPER_OK);
    ck_assert_int_eq(lanekeeper_copy_tokens(&b, LANEKEEPER_U32, u32, sizeof u32), LANEKEEPER_OK);
    ck_assert_int_eq(lanekeeper_copy_tokens(&b, LANEKEEPER_I64, i64, sizeof i64), LANEKEEPER_OK);
    for (uint32_t i = 0; i < FAKE_ROWS * T; i++) {
        ck_assert_uint_eq(u16[i], b.tokens[i]);
        ck_assert_uint_eq(u32[i], b.tokens[i]);
        ck_assert_int_eq(i64[i], b.tokens[i]);
    }
    ck_assert_int_eq(lanekeeper_copy_tokens(&b, LANEKEEPER_I64, i64, sizeof i64 - 8),
                     LANEKEEPER_INVALID_ARGUMENT);
    ck_assert_int_eq(lanekeeper_copy_tokens(&b, (enum lanekeeper_dtype)3, i64, sizeof i64),
                     LANEKEEPER_INVALID_ARGUMENT);
    uint32_t big[] = {1, 65536};
    struct lanekeeper_batch own = {.rows = 1, .sequence = 2, .tokens = big};
    ck_assert_int_eq(lanekeeper_copy_tokens(&own, LANEKEEPER_U16, u16, 4), LANEKEEPER_OUT_OF_RANGE);
    lanekeeper_release(&b);
    ck_assert_int_eq(lanekeeper_copy_tokens(&b, LANEKEEPER_U16, u16, 0), LANEKEEPER_INVALID_ARGUMENT);
    lanekeeper_close(lk);
    fake_stop(f);
}
END_TEST

START_TEST(digest_status_and_trace_answer)
{
    struct fake_daemon *f = start(false);
    struct lanekeeper *lk = connect_ahead(2);
    uint8_t digests[3][16];
    char *json;
    struct lanekeeper_trace trace;
    LK_OK_(lanekeeper_digest(lk, 4, 7, digests[0]), lk);
    ck_assert_uint_eq(digests[0][0], 4);
    ck_assert_uint_eq(digests[2][15], 6);
    ck_assert_int_eq(lanekeeper_digest(lk, 0, 10001, digests[0]), LANEKEEPER_INVALID_ARGUMENT);
    atomic_store(&f->fault, FAKE_SHORT_LIST);
    ck_assert_int_eq(lanekeeper_digest(lk, 4, 7, digests[0]), LANEKEEPER_DATA_LOSS);
    atomic_store(&f->fault, FAKE_NONE);
    LK_OK_(lanekeeper_status(lk, &json), lk);
    ck_assert_str_eq(json, "{\"streams\":[]}");
    lanekeeper_free(json);
    LK_OK_(lanekeeper_trace(lk, 1, 0, 0, &trace), lk);
    ck_assert_uint_eq(trace.n, 1);
    ck_assert_str_eq(trace.part[0].shard, "a.jsonl");
    ck_assert_uint_eq(trace.part[0].row_in_shard, 17);
    lanekeeper_trace_done(&trace);
    lanekeeper_trace_done(&trace);
    next_is(lk, 0, false);
    lanekeeper_close(lk);
    fake_stop(f);
}
END_TEST

START_TEST(bad_options_are_named)
{
    struct lanekeeper_options good = options_of(0), o;
    struct lanekeeper_error error;
    struct lanekeeper *lk;
    char longest[200] = "ipc://";
    memset(longest + 6, 'x', 108);
    static const char *const texts[] = {"address", "108", "rank 3", "world 0", "lookahead 65", "timeout_ms"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        o = good;
        if (i == 0) o.address = "/run/x";
        if (i == 1) o.address = longest;
        if (i == 2) o.rank = o.world = 3;
        if (i == 3) o.world = 0;
        if (i == 4) o.lookahead = 65;
        if (i == 5) o.timeout_ms = UINT32_MAX;
        ck_assert_int_eq(lanekeeper_connect(&o, &lk, &error), LANEKEEPER_INVALID_ARGUMENT);
        ck_assert_msg(strstr(error.text, texts[i]) != NULL, "%s", error.text);
    }
    struct fake_daemon *f = start(false);
    o = good;
    o.stream = "other";
    ck_assert_int_eq(lanekeeper_connect(&o, &lk, &error), LANEKEEPER_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(error.text, "pretrain"));
    o = good;
    o.sharing = LANEKEEPER_SHARED_ALWAYS; /* this daemon has no hand-over socket */
    ck_assert_int_eq(lanekeeper_connect(&o, &lk, &error), LANEKEEPER_UNAVAILABLE);
    fake_stop(f);
    f = start(true);
    o.sharing = LANEKEEPER_SHARED_NEVER;
    lk = connect_with(&o);
    next_is(lk, 0, false);
    lanekeeper_close(lk);
    fake_stop(f);
}
END_TEST

static void *run_handle(void *arg)
{
    struct lanekeeper *lk = connect_ahead(4);
    (void)arg;
    for (uint64_t s = 0; s < 100; s++) {
        struct lanekeeper_batch b;
        LK_OK_(lanekeeper_next(lk, &b), lk);
        assert_batch(&b, s, 0, FAKE_ROWS);
        lanekeeper_release(&b);
    }
    lanekeeper_close(lk);
    return NULL;
}

START_TEST(handles_of_several_threads_are_independent)
{
    struct fake_daemon *f = start(true);
    pthread_t thread[4];
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, run_handle, NULL), 0);
    for (int i = 0; i < 4; i++)
        (void)pthread_join(thread[i], NULL);
    wait_for(&f->leases_held, 0);
    wait_for(&f->clients, 0);
    fake_stop(f);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("client/client");
    TCase *t = tcase_create("client");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, codes_are_those_of_the_server);
    tcase_add_loop_test(t, steps_come_in_order_with_their_values, 0, 2);
    tcase_add_loop_test(t, ranks_cuts_are_the_whole, 0, 2);
    tcase_add_test(t, info_names_the_stream);
    tcase_add_loop_test(t, state_counts_what_was_used_not_what_was_fetched, 0, 4);
    tcase_add_test(t, state_is_the_same_on_every_rank);
    tcase_add_test(t, state_of_another_stream_is_refused_with_both_digests);
    tcase_add_test(t, damaged_state_is_refused);
    tcase_add_test(t, release_twice_gives_back_once);
    tcase_add_test(t, two_hundred_held_batches_keep_their_values);
    tcase_add_test(t, batch_outlives_its_daemon);
    tcase_add_test(t, batches_may_be_released_by_another_thread);
    tcase_add_test(t, shared_batch_cannot_be_written);
    tcase_add_test(t, late_answers_give_their_lease_back);
    tcase_add_loop_test(t, malformed_batch_is_data_loss_and_the_next_one_works, FAKE_NO_HEAD,
                        FAKE_NO_REGION + 1);
    tcase_add_loop_test(t, garbage_answers_fail_the_call_and_nothing_else, 0, 6);
    tcase_add_test(t, tokens_convert);
    tcase_add_test(t, digest_status_and_trace_answer);
    tcase_add_test(t, bad_options_are_named);
    tcase_add_test(t, handles_of_several_threads_are_independent);
    suite_add_tcase(s, t);
    return s;
}
