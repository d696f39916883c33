/* What is derived from a recipe's keys: weights, epochs, groups, limits (RC-077, RC-079, RC-083). */
#include "tests/unit/config/sample.h"

#include "tests/lib/check_main.h"

/* A stream whose datasets are a, b, c, … with these bodies. */
static char *stream_of(const char *keys, const char *const *bodies, unsigned n)
{
    struct lk_buf text = {0};
    lk_buf_putf(&text, "streams:\n  s:\n    lanes: 1\n    batch: 1\n    sequence: 8\n"
                       "    tokenizer: {bytes: true}\n%s    datasets:\n", keys);
    for (unsigned i = 0; i < n; i++)
        lk_buf_putf(&text, "      %c: {path: x%u%s%s}\n", (int)('a' + i), i,
                    bodies[i][0] != '\0' ? ", " : "", bodies[i]);
    (void)lk_buf_cstr(&text);
    return (char *)text.data;
}

#define PACK "    pipeline: [pack: {algorithm: concat}]\n"

struct weighing {
    const char *bodies[3];
    uint64_t weights[3]; /* 0 = left out */
};

static const struct weighing weighings[] = {
    {{"weight: 5", "weight: 3", "weight: 2"}, {5, 3, 2}},
    {{"weight: 0.5", "weight: 0.3", "weight: 0.2"}, {5, 3, 2}},
    {{"weight: 50", "weight: 30.0", "weight: 20"}, {5, 3, 2}},
    {{"", "", ""}, {1, 1, 1}},
    {{"weight: 0.9", "weight: 0.9", "weight: 0"}, {1, 1, 0}}, /* RC-083: 0.5/0.5 */
    {{"weight: 0.9", "weight: 0.1", "weight: 0"}, {9, 1, 0}},
    {{"weight: 0.1", "weight: 0.1", "weight: 0"}, {1, 1, 0}},
    {{"weight: 0", "weight: 7", "weight: 0"}, {0, 1, 0}},
    {{"weight: 1", "weight: 0.000000001", "weight: 0.000000001"}, {1000000000, 1, 1}},
    {{"weight: 0.333", "weight: 0.333", "weight: 0.334"}, {333, 333, 334}},
    {{"weight: 1", "weight: 4294967294", "weight: 1"}, {0, 0, 0}}, /* refused: too many digits */
    {{"weight: 9998", "weight: 0.002", "weight: 0.002"}, {4999000, 1, 1}},
};

START_TEST(weights_are_exact_and_reduced)
{
    const struct weighing *row = &weighings[_i];
    char *text = stream_of(PACK, row->bodies, 3);
    struct lk_config config;
    if (row->weights[0] + row->weights[1] + row->weights[2] == 0) {
        must_fail(text, "weights are below 1000000000");
        free(text);
        return;
    }
    must_parse(text, &config);
    const struct lk_recipe *r = &config.stream[0];
    uint32_t at = 0;
    for (int i = 0; i < 3; i++) {
        if (row->weights[i] == 0)
            continue;
        ck_assert_int_eq(r->dataset[at].name[0], 'a' + i);
        ck_assert_uint_eq(r->dataset[at].weight, row->weights[i]);
        at++;
    }
    ck_assert_uint_eq(r->n_datasets, at);
    lk_config_done(&config);
    free(text);
}
END_TEST

START_TEST(a_dataset_of_weight_0_is_left_out_and_noted)
{
    static const char *const bodies[] = {"weight: 0", "weight: 1"};
    char *text = stream_of(PACK, bodies, 2);
    struct lk_config config;
    must_parse(text, &config);
    ck_assert_uint_eq(config.stream[0].n_datasets, 1);
    ck_assert_str_eq(config.stream[0].dataset[0].name, "b");
    message_has(config.notes, "c.yaml:9:10: streams.s.datasets: dataset \"a\" has weight 0");
    lk_config_done(&config);
    free(text);
}
END_TEST

START_TEST(weights_that_are_all_0_are_refused)
{
    static const char *const bodies[] = {"weight: 0", "weight: 0.0"};
    char *text = stream_of(PACK, bodies, 2);
    must_fail(text, "c.yaml:8:5: streams.s.datasets: every weight is 0");
    free(text);
}
END_TEST

START_TEST(weights_whose_integers_are_too_large_are_refused)
{
    static const char *const most[] = {"weight: 4.294967295", "weight: 0.000000001"};
    static const char *const above[] = {"weight: 4.294967295", "weight: 0.000000002"};
    struct lk_config config;
    char *text = stream_of(PACK, most, 2);
    must_parse(text, &config);
    ck_assert_uint_eq(config.stream[0].dataset[0].weight, 4294967295u);
    lk_config_done(&config);
    free(text);
    text = stream_of(PACK, above, 2);
    must_fail(text, "sum to more than 4294967296");
    free(text);
}
END_TEST

START_TEST(three_hundred_datasets_keep_their_names_and_weights)
{
    struct lk_buf text = {0};
    struct lk_config config;
    lk_buf_puts(&text, "streams:\n  s:\n    batch: 8\n    sequence: 8\n    tokenizer: {bytes: true}\n"
                       PACK "    datasets:\n");
    for (int i = 299; i >= 0; i--)
        lk_buf_putf(&text, "      d%03d: {path: p%d}\n", i, i);
    must_parse(lk_buf_cstr(&text), &config);
    ck_assert_uint_eq(config.stream[0].n_datasets, 300);
    for (int i = 0; i < 300; i++) {
        char *name = lk_format("d%03d", i), *path = lk_format("/conf/p%d", i);
        ck_assert_str_eq(config.stream[0].dataset[i].name, name);
        ck_assert_str_eq(config.stream[0].dataset[i].path, path);
        ck_assert_uint_eq(config.stream[0].dataset[i].weight, 1);
        free(name);
        free(path);
    }
    lk_config_done(&config);
    lk_buf_done(&text);
}
END_TEST

START_TEST(more_datasets_than_the_limit_are_refused)
{
    struct lk_buf text = {0};
    lk_buf_puts(&text, "streams:\n  s:\n    batch: 8\n    sequence: 8\n    tokenizer: {bytes: true}\n"
                       PACK "    datasets:\n");
    for (int i = 0; i <= LK_DATASETS_MAX; i++)
        lk_buf_putf(&text, "      d%d: {path: p}\n", i);
    must_fail(lk_buf_cstr(&text), "expected 1 to 4096 datasets, found 4097");
    lk_buf_done(&text);
}
END_TEST

struct ending {
    const char *keys, *body;
    uint32_t epochs;
    enum lk_then then;
};

static const struct ending endings[] = {
    {"", "", 0, LK_THEN_REPEAT},
    {"", "then: repeat", 0, LK_THEN_REPEAT},
    {"", "then: stop", 1, LK_THEN_STOP},
    {"", "then: release", 1, LK_THEN_RELEASE},
    {"", "epochs: 3", 3, LK_THEN_RELEASE},
    {"", "epochs: 3, then: stop", 3, LK_THEN_STOP},
    {"    epochs: 2\n", "", 2, LK_THEN_RELEASE},
    {"    epochs: 2\n", "epochs: 3", 3, LK_THEN_RELEASE},
    {"    epochs: 2\n", "then: stop", 2, LK_THEN_STOP},
    {"    epochs: 2\n", "then: repeat", 0, LK_THEN_REPEAT},
};

START_TEST(epochs_of_stream_and_dataset_combine_as_documented)
{
    const struct ending *row = &endings[_i];
    char *keys = lk_format("%s%s", row->keys, PACK);
    char *text = stream_of(keys, &row->body, 1);
    struct lk_config config;
    must_parse(text, &config);
    ck_assert_uint_eq(config.stream[0].dataset[0].epochs, row->epochs);
    ck_assert_int_eq(config.stream[0].dataset[0].then, row->then);
    lk_config_done(&config);
    free(text);
    free(keys);
}
END_TEST

struct grouping {
    const char *within;
    const char *bodies[3];
    uint32_t n, group[3], groups;
};

static const struct grouping groupings[] = {
    {"all", {"", "", ""}, 3, {0, 0, 0}, 1},
    {"dataset", {"", "", ""}, 3, {0, 1, 2}, 3},
    {"{groups: [[a, b], [c]]}", {"", "", ""}, 3, {0, 0, 1}, 2},
    {"{groups: [[c], [b, a]]}", {"", "", ""}, 3, {0, 0, 1}, 2}, /* the same */
    {"{groups: [[b], [c, a]]}", {"", "", ""}, 3, {0, 1, 0}, 2},
    {"{groups: [[a], [b], [c]]}", {"weight: 0", "", ""}, 2, {0, 1}, 2}, /* an empty group goes */
    {"dataset", {"", "weight: 0", ""}, 2, {0, 1}, 2},
};

START_TEST(groups_are_numbered_by_their_first_dataset)
{
    const struct grouping *row = &groupings[_i];
    char *keys = lk_format("    pipeline: [pack: {algorithm: concat, within: %s}]\n", row->within);
    char *text = stream_of(keys, row->bodies, 3);
    struct lk_config config;
    must_parse(text, &config);
    const struct lk_recipe *r = &config.stream[0];
    ck_assert_uint_eq(r->n_datasets, row->n);
    for (uint32_t i = 0; i < row->n; i++)
        ck_assert_uint_eq(r->dataset[i].group, row->group[i]);
    ck_assert_uint_eq(r->stage[0].groups, row->groups);
    lk_config_done(&config);
    free(text);
    free(keys);
}
END_TEST

START_TEST(whole_records_are_accepted_where_none_can_be_too_long)
{
    static const char *const pipelines[] = {
        "[split: {max_tokens: 8}, pack: {algorithm: first_fit}]",
        "[split: {max_tokens: 5}, shuffle: {}, pack: {algorithm: best_fit, pool: 4}, shuffle: {}]",
        "[filter: {max_tokens: 8}, pack: {algorithm: best_fit}]",
        "[split: {max_tokens: 9}, pack: {algorithm: exact_fit}]",
    };
    static const char *const body = "";
    for (size_t i = 0; i < sizeof pipelines / sizeof *pipelines; i++) {
        char *keys = lk_format("    pipeline: %s\n", pipelines[i]);
        char *text = stream_of(keys, &body, 1);
        struct lk_config config;
        must_parse(text, &config);
        lk_config_done(&config);
        free(text);
        free(keys);
    }
}
END_TEST

START_TEST(block_rows_may_be_a_whole_shard)
{
    struct lk_config config;
    must_parse_with("block_rows: 256", "block_rows: shard, blocks: sequential", &config);
    ck_assert_uint_eq(config.stream[0].block_rows, 0);
    ck_assert(!config.stream[0].permute_blocks);
    lk_config_done(&config);
}
END_TEST

START_TEST(the_other_words_are_stored_as_what_they_say)
{
    struct lk_config config;
    must_parse_with("mixture: tokens",
                    "mixture: samples\n    on_bad_row: drop\n    on_crash: drop\n    tail: pad\n"
                    "    pad_id: 50256",
                    &config);
    const struct lk_recipe *r = &config.stream[0];
    ck_assert_int_eq(r->mixture, LK_MEASURE_SAMPLES);
    ck_assert_int_eq(r->on_bad_row, LK_BAD_DROP);
    ck_assert(r->drop_crashing);
    ck_assert_int_eq(r->tail, LK_TAIL_PAD);
    ck_assert_uint_eq(r->pad_id, 50256);
    lk_config_done(&config);
    must_parse_with("hf: gpt2/tokenizer.json, append: eos",
                    "pair: {vocab: v.json, merges: m.txt}, prepend: bos, special_in_text: text",
                    &config);
    r = &config.stream[0];
    ck_assert_int_eq(r->tokenizer.source, LK_TOKENISE_PAIR);
    ck_assert_str_eq(r->tokenizer.path, "/conf/v.json");
    ck_assert_str_eq(r->tokenizer.merges, "/conf/m.txt");
    ck_assert_str_eq(r->tokenizer.prepend, "bos");
    ck_assert_ptr_null(r->tokenizer.append);
    ck_assert_int_eq(r->tokenizer.special_in_text, LK_SPECIALS_TEXT);
    ck_assert_ptr_null(r->tokenizer.scheme);
    lk_config_done(&config);
    must_parse_with("hf: gpt2/tokenizer.json, append: eos",
                    "tiktoken: {path: r.tiktoken, scheme: o200k_base}, special_in_text: error",
                    &config);
    r = &config.stream[0];
    ck_assert_int_eq(r->tokenizer.source, LK_TOKENISE_TIKTOKEN);
    ck_assert_str_eq(r->tokenizer.path, "/conf/r.tiktoken");
    ck_assert_str_eq(r->tokenizer.scheme, "o200k_base");
    ck_assert_ptr_null(r->tokenizer.merges);
    ck_assert_int_eq(r->tokenizer.special_in_text, LK_SPECIALS_ERROR);
    lk_config_done(&config);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("config/recipe");
    TCase *t = tcase_create("recipe");
    tcase_add_loop_test(t, weights_are_exact_and_reduced, 0,
                        (int)(sizeof weighings / sizeof *weighings));
    tcase_add_test(t, a_dataset_of_weight_0_is_left_out_and_noted);
    tcase_add_test(t, weights_that_are_all_0_are_refused);
    tcase_add_test(t, weights_whose_integers_are_too_large_are_refused);
    tcase_add_test(t, three_hundred_datasets_keep_their_names_and_weights);
    tcase_add_test(t, more_datasets_than_the_limit_are_refused);
    tcase_add_loop_test(t, epochs_of_stream_and_dataset_combine_as_documented, 0,
                        (int)(sizeof endings / sizeof *endings));
    tcase_add_loop_test(t, groups_are_numbered_by_their_first_dataset, 0,
                        (int)(sizeof groupings / sizeof *groupings));
    tcase_add_test(t, whole_records_are_accepted_where_none_can_be_too_long);
    tcase_add_test(t, block_rows_may_be_a_whole_shard);
    tcase_add_test(t, the_other_words_are_stored_as_what_they_say);
    suite_add_tcase(s, t);
    return s;
}
