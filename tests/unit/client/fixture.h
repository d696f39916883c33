/* What the tests of liblanekeeper share: a directory, a daemon whose faults are chosen, handles. */
#ifndef LK_TESTS_CLIENT_FIXTURE_H
#define LK_TESTS_CLIENT_FIXTURE_H

#include "client/c/lanekeeper.h"

#include "tests/lib/check_main.h"
#include "tests/lib/fake_daemon.h"

#define T 16u
#define LK_OK_(call, lk)                                                                           \
    do {                                                                                           \
        enum lanekeeper_code ok_code = (call);                                                     \
        ck_assert_msg(ok_code == LANEKEEPER_OK, "%s: %s", lanekeeper_code_name(ok_code),           \
                      lanekeeper_error_text(lk));                                                  \
    } while (0)

static char dir[64], address[128], handover[128];

static inline void setup(void)
{
    (void)snprintf(dir, sizeof dir, "/tmp/lk-client-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    (void)snprintf(address, sizeof address, "ipc://%s/rpc", dir);
    (void)snprintf(handover, sizeof handover, "%s/memory", dir);
}

static inline void teardown(void)
{
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", dir);
    ck_assert_int_eq(system(command), 0);
}

static inline struct fake_config config_of(bool shared)
{
    /* So many slots that it does not matter how soon they come back. */
    return (struct fake_config){.address = address, .handover = shared ? handover : NULL, .digest = 0xab,
                                .tokens = T, .slots = 128, .steps = 1000000};
}

static inline struct fake_daemon *start(bool shared)
{
    struct fake_config config = config_of(shared);
    return fake_start(&config);
}

static inline struct lanekeeper_options options_of(uint32_t lookahead)
{
    struct lanekeeper_options o;
    lanekeeper_options_init(&o);
    o.address = address;
    o.lookahead = lookahead;
    o.timeout_ms = 20000;
    return o;
}

static inline struct lanekeeper *connect_with(const struct lanekeeper_options *o)
{
    struct lanekeeper *lk = NULL;
    struct lanekeeper_error error = {0};
    ck_assert_msg(lanekeeper_connect(o, &lk, &error) == LANEKEEPER_OK, "%s", error.text);
    return lk;
}

static inline struct lanekeeper *connect_ahead(uint32_t lookahead)
{
    struct lanekeeper_options o = options_of(lookahead);
    return connect_with(&o);
}

static inline void assert_batch(const struct lanekeeper_batch *b, uint64_t step, uint32_t first, uint32_t rows)
{
    ck_assert_uint_eq(b->step, step);
    ck_assert_uint_eq(b->first_row, first);
    ck_assert_uint_eq(b->rows, rows);
    ck_assert_uint_eq(b->global_rows, FAKE_ROWS);
    for (uint32_t r = 0; r < rows; r++) {
        for (uint32_t j = 0; j < b->sequence; j++)
            ck_assert_uint_eq(b->tokens[(size_t)r * b->sequence + j], fake_token(step, first + r, j));
        ck_assert_uint_eq(b->row[r].n_parts, 2);
        ck_assert_uint_eq(b->part[b->row[r].first_part].first, first + r);
        ck_assert_uint_eq(b->part[b->row[r].first_part].row, step);
    }
    ck_assert_uint_eq(b->digest[7], step & 255);
}

/* Waits until the daemon has seen it: the only thing to wait for is its thread. */
static inline void wait_for(const atomic_uint *value, unsigned expected)
{
    for (int i = 0; i < 5000 && atomic_load(value) != expected; i++)
        (void)poll(NULL, 0, 1);
    ck_assert_uint_eq(atomic_load(value), expected);
}

static inline void next_is(struct lanekeeper *lk, uint64_t step, bool shared)
{
    struct lanekeeper_batch b;
    LK_OK_(lanekeeper_next(lk, &b), lk);
    assert_batch(&b, step, 0, FAKE_ROWS);
    ck_assert_uint_eq(b.shared != 0, shared);
    lanekeeper_release(&b);
}

#endif
