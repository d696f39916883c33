/* What every sequencer of the table promises, whatever it does: seq/seq.h. */
#include "base/keys.h"
#include "tests/lib/check_main.h"
#include "tests/lib/feed.h"

enum { N = 60, T = 16, DATASETS = 3 };

static const uint32_t group_of[DATASETS] = {0, 1, 0};

struct variant {
    enum seq_kind kind;
    struct seq_params params;
};

#define PACKS(kind_, pool_, best_, pad_)                                                           \
    {.kind = (kind_),                                                                              \
     .params = {.sequence = T, .pool = (pool_), .groups = 2, .group_of = group_of, .best = (best_), \
                .pad_tail = (pad_), .bounds.datasets = DATASETS}}

static const struct variant variants[] = {
    {.kind = SEQ_SPLIT, .params = {.sequence = T, .max_tokens = 5, .bounds.datasets = DATASETS}},
    {.kind = SEQ_SHUFFLE, .params = {.sequence = T, .buffer = 8, .key = 3, .bounds.datasets = DATASETS}},
    {.kind = SEQ_SHUFFLE, .params = {.sequence = T, .buffer = 2, .key = 3, .bounds.datasets = DATASETS}},
    PACKS(SEQ_CONCAT, 0, false, false),
    PACKS(SEQ_CONCAT, 0, false, true),
    PACKS(SEQ_FIT, 1, false, false),
    PACKS(SEQ_FIT, 5, false, true),
    PACKS(SEQ_FIT, 5, true, false),
    PACKS(SEQ_EXACT, 1, false, false),
    PACKS(SEQ_EXACT, 6, false, true),
};
enum { VARIANTS = sizeof variants / sizeof *variants };

static uint32_t tokens[N], dataset[N];

/* A new trial of variant @v at the beginning of the same input. */
static void make_trial(struct trial *t, int v, bool wants)
{
    for (uint64_t i = 0; i < N; i++) {
        uint32_t most = variants[v].kind == SEQ_FIT || i % 4 != 0 ? T : 4 * T;
        tokens[i] = 1 + (uint32_t)lk_below(lk_key(8, i), most);
        dataset[i] = (uint32_t)lk_below(lk_key(9, i), DATASETS);
    }
    trial_init(t, variants[v].kind, &variants[v].params,
               &(struct feed){.tokens = tokens, .dataset = dataset, .n = N, .wants = wants});
}

/* A new stage of the same kind takes the place of @t's, with its state; false when it is refused. */
static bool reload(struct trial *t, const void *bytes, size_t n)
{
    struct lk_reader in = lk_reader_of(bytes, n);
    t->ops->done(t->stage);
    memset(t->stage, 0, t->ops->size);
    t->ops->init(t->stage, &t->params);
    t->ops->load(t->stage, &in);
    return !in.bad && in.at == in.end;
}

START_TEST(the_table_is_complete_and_names_are_distinct)
{
    for (int i = 0; i < SEQ_KINDS; i++) {
        const struct seq_ops *ops = seq_table[i];
        ck_assert(ops != NULL && ops->name != NULL && ops->size > 0 && ops->init && ops->done &&
                  ops->next && ops->waiting && ops->save && ops->load && ops->check && ops->bound);
        for (int j = 0; j < i; j++)
            ck_assert_str_ne(ops->name, seq_table[j]->name);
        bool tried = false;
        for (int v = 0; v < VARIANTS; v++)
            tried |= variants[v].kind == (enum seq_kind)i;
        ck_assert_msg(tried, "%s is in the table and not in this test", ops->name);
    }
}
END_TEST

START_TEST(an_input_that_has_to_be_waited_for_changes_nothing)
{
    struct lk_buf a = {0}, b = {0};
    struct trial t;
    make_trial(&t, _i, false);
    (void)trial_text(&t, UINT32_MAX, &a);
    trial_done(&t);
    make_trial(&t, _i, true);
    (void)trial_text(&t, UINT32_MAX, &b);
    trial_done(&t);
    ck_assert_str_eq(lk_buf_cstr(&a), lk_buf_cstr(&b));
    ck_assert_uint_gt(a.len, 0);
    lk_buf_done(&a);
    lk_buf_done(&b);
}
END_TEST

START_TEST(after_the_end_it_stays_ended_and_holds_nothing)
{
    struct trial t;
    struct lk_item item;
    make_trial(&t, _i, true);
    while (trial_next(&t, &item) == SEQ_OK)
        ck_assert_uint_gt(item.n, 0);
    ck_assert_int_eq(trial_next(&t, &item), SEQ_END);
    ck_assert_uint_eq(t.ops->waiting(t.stage), 0);
    ck_assert_uint_eq(t.feed.fed, t.out + t.counts.lost);
    trial_done(&t);
}
END_TEST

START_TEST(saved_and_loaded_after_any_prefix_it_goes_on_the_same)
{
    struct lk_buf state = {0}, again = {0}, rest = {0}, suffix = {0};
    struct trial whole, cut;
    struct lk_item item;
    for (uint32_t prefix = 0;; prefix++) {
        make_trial(&whole, _i, true);
        make_trial(&cut, _i, true);
        bool more = true;
        for (uint32_t i = 0; i < prefix && more; i++) {
            more = trial_next(&whole, &item) == SEQ_OK;
            (void)trial_next(&cut, &item);
        }
        state.len = again.len = 0;
        cut.ops->save(cut.stage, &state);
        ck_assert(reload(&cut, state.data, state.len));
        cut.ops->check(cut.stage);
        cut.ops->save(cut.stage, &again);
        ck_assert_uint_eq(state.len, again.len);
        ck_assert_mem_eq(state.data, again.data, state.len);
        ck_assert_str_eq(trial_text(&whole, UINT32_MAX, &rest),
                         trial_text(&cut, UINT32_MAX, &suffix));
        ck_assert_mem_eq(&whole.counts, &cut.counts, sizeof whole.counts);
        trial_done(&whole);
        trial_done(&cut);
        if (!more)
            break;
    }
    lk_buf_done(&state);
    lk_buf_done(&again);
    lk_buf_done(&rest);
    lk_buf_done(&suffix);
}
END_TEST

/* Saved where the input had to be waited for, in the middle of an item. */
START_TEST(saved_and_loaded_while_it_waits_it_goes_on_the_same)
{
    struct lk_buf state = {0}, whole_text = {0}, text = {0};
    struct trial t;
    struct lk_item item;
    make_trial(&t, _i, true);
    (void)trial_text(&t, UINT32_MAX, &whole_text);
    trial_done(&t);

    make_trial(&t, _i, true);
    struct seq_input in = {
        .next = feed_next, .self = &t.feed, .counts = &t.counts, .err = &t.err};
    for (enum seq_pull got; (got = t.ops->next(t.stage, &in, &item)) != SEQ_END;) {
        if (got == SEQ_WANT) {
            state.len = 0;
            t.ops->save(t.stage, &state);
            ck_assert(reload(&t, state.data, state.len));
            continue;
        }
        lk_buf_puts(&text, text.len > 0 ? " /" : "");
        for (uint32_t k = 0; k < item.n; k++)
            lk_buf_putf(&text, "%s%u:%u+%u", text.len > 0 ? " " : "", (unsigned)item.span[k].row,
                        item.span[k].first, item.span[k].tokens);
    }
    ck_assert_str_eq(lk_buf_cstr(&text), lk_buf_cstr(&whole_text));
    trial_done(&t);
    lk_buf_done(&state);
    lk_buf_done(&text);
    lk_buf_done(&whole_text);
}
END_TEST

START_TEST(every_truncation_of_its_state_is_refused)
{
    struct lk_buf state = {0};
    struct trial t;
    struct lk_item item;
    make_trial(&t, _i, true);
    for (int i = 0; i < 9; i++)
        (void)trial_next(&t, &item);
    t.ops->save(t.stage, &state);
    for (size_t n = 0; n < state.len; n++) {
        uint8_t *exact = lk_alloc(n + 1); /* of its own, so that a read beyond it is found */
        memcpy(exact, state.data, n);
        ck_assert(!reload(&t, exact, n));
        free(exact);
    }
    trial_done(&t);
    lk_buf_done(&state);
}
END_TEST

START_TEST(a_flipped_bit_in_its_state_is_refused_or_makes_another_sound_state)
{
    struct lk_buf state = {0};
    struct trial t;
    struct lk_item item;
    uint32_t refused = 0, bits = 0;
    make_trial(&t, _i, true);
    for (int i = 0; i < 9; i++)
        (void)trial_next(&t, &item);
    t.ops->save(t.stage, &state);
    for (size_t bit = 0; bit < 8 * state.len; bit++, bits++) {
        state.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (reload(&t, state.data, state.len))
            t.ops->check(t.stage);
        else
            refused++;
        state.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    ck_assert_uint_gt(refused, 0);
    ck_assert(reload(&t, state.data, state.len));
    trial_done(&t);
    lk_buf_done(&state);
}
END_TEST

/* dataset, epoch, row, first, tokens */
START_TEST(a_saved_span_that_cannot_be_is_refused)
{
    static const uint64_t rows[DATASETS] = {5, 5, 5};
    static const struct {
        uint64_t field[5];
        bool good;
    } cases[] = {
        {{0, 0, 4, 0, 1}, true},          {{DATASETS, 0, 4, 0, 1}, false},    {{1, UINT32_MAX, 0, 0, 1}, true},
        {{0, 1ull << 32, 0, 0, 1}, false}, {{0, 0, 5, 0, 1}, false},           {{0, 0, 0, 0, 0}, false},
        {{0, 0, 0, 1, UINT32_MAX}, false}, {{0, 0, 0, 0, UINT32_MAX}, true},   {{0, 0, 0, UINT32_MAX, 1}, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lk_buf saved = {0};
        struct lk_span span;
        for (int f = 0; f < 5; f++)
            lk_buf_put_varint(&saved, cases[i].field[f]);
        struct lk_reader in = lk_reader_of(saved.data, saved.len);
        const struct seq_bounds bounds = {.datasets = DATASETS, .rows = rows};
        ck_assert_int_eq(seq_get_span(&in, &bounds, &span), cases[i].good);
        ck_assert_int_eq(in.bad, !cases[i].good);
        lk_buf_done(&saved);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("seq/contract");
    TCase *t = tcase_create("contract");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, the_table_is_complete_and_names_are_distinct);
    tcase_add_test(t, a_saved_span_that_cannot_be_is_refused);
    tcase_add_loop_test(t, an_input_that_has_to_be_waited_for_changes_nothing, 0, VARIANTS);
    tcase_add_loop_test(t, after_the_end_it_stays_ended_and_holds_nothing, 0, VARIANTS);
    tcase_add_loop_test(t, saved_and_loaded_after_any_prefix_it_goes_on_the_same, 0, VARIANTS);
    tcase_add_loop_test(t, saved_and_loaded_while_it_waits_it_goes_on_the_same, 0, VARIANTS);
    tcase_add_loop_test(t, every_truncation_of_its_state_is_refused, 0, VARIANTS);
    tcase_add_loop_test(t, a_flipped_bit_in_its_state_is_refused_or_makes_another_sound_state, 0,
                        VARIANTS);
    suite_add_tcase(s, t);
    return s;
}
