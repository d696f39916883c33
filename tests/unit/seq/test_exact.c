#include "base/keys.h"
#include "tests/lib/check_main.h"
#include "tests/lib/feed.h"

enum { N = 300 };

static const uint32_t group_of[2] = {0, 1};

static void make_trial(struct trial *t, uint32_t sequence, uint32_t pool, bool pad,
                       const uint32_t *tokens, uint32_t n)
{
    trial_init(t, SEQ_EXACT,
               &(struct seq_params){.sequence = sequence, .pool = pool, .groups = 1,
                                    .group_of = group_of, .pad_tail = pad, .bounds.datasets = 1},
               &(struct feed){.tokens = tokens, .n = n, .wants = true});
}

static const char *exact(uint32_t sequence, uint32_t pool, const uint32_t *tokens, uint32_t n,
                         struct lk_buf *text)
{
    struct trial t;
    make_trial(&t, sequence, pool, true, tokens, n);
    const char *said = trial_text(&t, 1000, text);
    ck_assert_uint_eq(t.out, t.feed.fed);
    trial_done(&t);
    return said;
}

/* The same by trying every record, every pair and every three of them. */
struct naive {
    struct lk_span pool[N];
    uint32_t n;
    struct lk_buf text;
};

static void naive_use(struct naive *v, uint32_t i)
{
    lk_buf_putf(&v->text, " %u:%u+%u", (unsigned)v->pool[i].row, v->pool[i].first,
                v->pool[i].tokens);
    memmove(&v->pool[i], &v->pool[i + 1], (--v->n - i) * sizeof *v->pool);
}

static uint32_t naive_oldest(const struct naive *v, uint32_t tokens)
{
    uint32_t i = 0;
    while (i < v->n && v->pool[i].tokens != tokens)
        i++;
    return i;
}

/* Whether length @b makes a better choice than @a: compared from the longest down. */
static bool better(const uint32_t *a, const uint32_t *b)
{
    for (int i = 0; i < 3; i++)
        if (a[i] != b[i])
            return b[i] > a[i];
    return false;
}

/* The best up to @most records that make @room together, longest first; false when none do. */
static bool naive_exact(const struct naive *v, uint32_t room, uint32_t most, uint32_t ret_best[3])
{
    uint32_t best[3] = {0};
    for (uint32_t i = 0; i < v->n; i++)
        for (uint32_t j = 0; j < v->n; j++)
            for (uint32_t k = 0; k < v->n; k++) {
                uint32_t try[3] = {v->pool[i].tokens, most >= 2 ? v->pool[j].tokens : 0,
                                   most >= 3 ? v->pool[k].tokens : 0};
                bool distinct = (most < 2 || i != j) && (most < 3 || (k != i && k != j));
                if (distinct && try[0] + try[1] + try[2] == room && try[0] >= try[1] &&
                    try[1] >= try[2] && better(best, try))
                    memcpy(best, try, sizeof best);
                if (most < 3)
                    break;
            }
    memcpy(ret_best, best, sizeof best);
    return best[0] > 0;
}

static void naive_give(struct naive *v, uint32_t sequence)
{
    uint32_t room = sequence - v->pool[0].tokens, best[3];
    naive_use(v, 0);
    while (room > 0 && v->n > 0) {
        for (uint32_t most = 1; most <= 3; most++)
            if (naive_exact(v, room, most, best)) {
                for (uint32_t i = 0; i < most; i++)
                    naive_use(v, naive_oldest(v, best[i]));
                room = 0;
                break;
            }
        if (room == 0)
            break;
        uint32_t longest = v->n;
        for (uint32_t i = 0; i < v->n; i++)
            if (v->pool[i].tokens <= room &&
                (longest == v->n || v->pool[i].tokens > v->pool[longest].tokens))
                longest = i;
        if (longest < v->n) {
            room -= v->pool[longest].tokens;
            naive_use(v, longest);
        } else {
            struct lk_span head = seq_take(&v->pool[0], room);
            lk_buf_putf(&v->text, " %u:%u+%u", (unsigned)head.row, head.first, head.tokens);
            room = 0;
        }
    }
    lk_buf_puts(&v->text, " /");
}

static uint64_t naive_tokens(const struct naive *v)
{
    uint64_t tokens = 0;
    for (uint32_t i = 0; i < v->n; i++)
        tokens += v->pool[i].tokens;
    return tokens;
}

static void naive_run(struct naive *v, uint32_t sequence, uint32_t pool, const uint32_t *tokens)
{
    uint64_t taken = 0;
    *v = (struct naive){0};
    for (uint32_t i = 0; i < N; i++) {
        struct lk_span rest = {.row = i, .tokens = tokens[i]};
        for (; rest.tokens >= sequence; rest.first += sequence, rest.tokens -= sequence)
            lk_buf_putf(&v->text, " %u:%u+%u /", i, rest.first, sequence);
        if (rest.tokens > 0)
            v->pool[v->n++] = rest;
        taken += rest.tokens;
        while (naive_tokens(v) >= sequence && (v->n >= pool || taken >= 2ull * sequence)) {
            naive_give(v, sequence);
            taken = 0;
        }
    }
    while (v->n > 0)
        naive_give(v, sequence);
}

START_TEST(every_sequence_is_what_trying_all_ones_pairs_and_threes_gives)
{
    static struct naive naive;
    static const uint32_t sequences[] = {1, 2, 3, 8, 13, 24, 64, 65};
    for (uint64_t key = 0; key < 48; key++) {
        uint32_t sequence = sequences[key % 8], tokens[N];
        uint32_t pool = 1 + (uint32_t)lk_below(lk_key(key, N), 12);
        uint32_t most = key % 3 == 0 ? 3 * sequence : key % 3 == 1 ? sequence : 1 + sequence / 2;
        for (uint64_t i = 0; i < N; i++)
            tokens[i] = 1 + (uint32_t)lk_below(lk_key(key, i), most);
        naive_run(&naive, sequence, pool, tokens);

        struct trial t;
        struct lk_item item;
        struct lk_buf text = {0};
        make_trial(&t, sequence, pool, true, tokens, N);
        while (trial_next(&t, &item) == SEQ_OK) {
            for (uint32_t i = 0; i < item.n; i++)
                lk_buf_putf(&text, " %u:%u+%u", (unsigned)item.span[i].row, item.span[i].first,
                            item.span[i].tokens);
            lk_buf_puts(&text, " /");
        }
        ck_assert_str_eq(lk_buf_cstr(&text), lk_buf_cstr(&naive.text));
        trial_done(&t);
        lk_buf_done(&text);
        lk_buf_done(&naive.text);
    }
}
END_TEST

START_TEST(nothing_is_lost_and_nothing_padded_before_the_end)
{
    for (uint64_t key = 0; key < 20; key++) {
        uint32_t tokens[N];
        struct trial t;
        struct lk_item item;
        for (uint64_t i = 0; i < N; i++)
            tokens[i] = 1 + (uint32_t)lk_below(lk_key(key, i), 3000);
        make_trial(&t, 1000, 20, false, tokens, N);
        while (trial_next(&t, &item) == SEQ_OK)
            ck_assert_uint_eq(item.tokens, 1000);
        ck_assert_uint_eq(t.counts.padded, 0);
        ck_assert_uint_eq(t.counts.lost, t.feed.fed % 1000); /* less than a sequence, and counted */
        trial_done(&t);
    }
}
END_TEST

START_TEST(one_record_is_preferred_to_two_and_two_to_three_and_those_to_a_long_one)
{
    struct lk_buf text = {0};
    ck_assert_str_eq(exact(10, 5, (uint32_t[]){4, 3, 3, 2, 6}, 5, &text),
                     "0:0+4 4:0+6 / 1:0+3 2:0+3 3:0+2");
    ck_assert_str_eq(exact(10, 5, (uint32_t[]){4, 5, 2, 2, 4}, 5, &text),
                     "0:0+4 4:0+4 2:0+2 / 1:0+5 3:0+2");
    ck_assert_str_eq(exact(10, 5, (uint32_t[]){4, 5, 3, 2, 1}, 5, &text),
                     "0:0+4 1:0+5 4:0+1 / 2:0+3 3:0+2");
    ck_assert_str_eq(exact(10, 5, (uint32_t[]){3, 1, 4, 2, 1}, 5, &text),
                     "0:0+3 2:0+4 3:0+2 1:0+1 / 4:0+1");
    lk_buf_done(&text);
}
END_TEST

START_TEST(the_oldest_opens_the_next_sequence_and_is_cut_where_nothing_fits)
{
    struct lk_buf text = {0};
    ck_assert_str_eq(exact(10, 3, (uint32_t[]){7, 8, 9, 1}, 4, &text),
                     "0:0+7 1:0+3 / 1:3+5 3:0+1 2:0+4 / 2:4+5");
    lk_buf_done(&text);
}
END_TEST

START_TEST(a_longer_record_gives_whole_sequences_at_once_until_its_rest_fits)
{
    struct lk_buf text = {0};
    ck_assert_str_eq(exact(4, 2, (uint32_t[]){11, 1}, 2, &text), "0:0+4 / 0:4+4 / 0:8+3 1:0+1");
    ck_assert_str_eq(exact(4, 2, (uint32_t[]){8, 4, 1}, 3, &text), "0:0+4 / 0:4+4 / 1:0+4 / 2:0+1");
    lk_buf_done(&text);
}
END_TEST

START_TEST(groups_never_share_a_sequence)
{
    uint32_t tokens[N], dataset[N];
    struct trial t;
    struct lk_item item;
    for (uint64_t i = 0; i < N; i++) {
        tokens[i] = 1 + (uint32_t)lk_below(lk_key(1, i), 150);
        dataset[i] = (uint32_t)lk_below(lk_key(2, i), 2);
    }
    trial_init(&t, SEQ_EXACT,
               &(struct seq_params){.sequence = 100, .pool = 7, .groups = 2, .group_of = group_of,
                                    .pad_tail = true, .bounds.datasets = 2},
               &(struct feed){.tokens = tokens, .dataset = dataset, .n = N, .wants = true});
    while (trial_next(&t, &item) == SEQ_OK)
        for (uint32_t i = 1; i < item.n; i++)
            ck_assert_uint_eq(item.span[i].dataset, item.span[0].dataset);
    ck_assert_uint_eq(t.out, t.feed.fed);
    trial_done(&t);
}
END_TEST

/* More records wait than there was room for at first, in one group and in both together. */
START_TEST(a_pool_grows_and_keeps_what_waits)
{
    enum { MANY = 3000 };
    uint32_t *tokens = lk_zalloc(MANY, sizeof *tokens), *dataset = lk_zalloc(MANY, sizeof *dataset);
    for (uint32_t i = 0; i < MANY; i++) {
        tokens[i] = 1 + i * 7919 % 50;
        dataset[i] = i % 3 == 0;
    }
    struct trial t;
    struct lk_item item;
    trial_init(&t, SEQ_EXACT,
               &(struct seq_params){.sequence = 64, .pool = 900, .groups = 2, .group_of = group_of,
                                    .pad_tail = true, .bounds.datasets = 2},
               &(struct feed){.tokens = tokens, .dataset = dataset, .n = MANY, .wants = true});
    bool *seen = lk_zalloc(MANY, sizeof *seen);
    while (trial_next(&t, &item) == SEQ_OK) {
        t.ops->check(t.stage);
        for (uint32_t i = 0; i < item.n; i++)
            seen[item.span[i].row] = true;
    }
    ck_assert_uint_eq(t.out, t.feed.fed);
    for (uint32_t i = 0; i < MANY; i++)
        ck_assert(seen[i]);
    trial_done(&t);
    free(tokens);
    free(dataset);
    free(seen);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("seq/exact");
    TCase *t = tcase_create("exact");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, every_sequence_is_what_trying_all_ones_pairs_and_threes_gives);
    tcase_add_test(t, nothing_is_lost_and_nothing_padded_before_the_end);
    tcase_add_test(t, one_record_is_preferred_to_two_and_two_to_three_and_those_to_a_long_one);
    tcase_add_test(t, the_oldest_opens_the_next_sequence_and_is_cut_where_nothing_fits);
    tcase_add_test(t, a_longer_record_gives_whole_sequences_at_once_until_its_rest_fits);
    tcase_add_test(t, groups_never_share_a_sequence);
    tcase_add_test(t, a_pool_grows_and_keeps_what_waits);
    suite_add_tcase(s, t);
    return s;
}
