/* The canonical form: what it looks like, what changes it and what does not. */
#include "tests/unit/config/sample.h"

#include "config/canonical.h"
#include "tests/lib/check_main.h"

#define DATASETS_MOST 8

struct identity {
    struct lk_buf order_text, batch_text;
    struct lk_digest order, stream;
};

static void identify(const char *text, struct identity *ret)
{
    struct lk_digest data[DATASETS_MOST];
    struct lk_config config;
    must_parse(text, &config);
    ck_assert_uint_le(config.stream[0].n_datasets, DATASETS_MOST);
    for (uint32_t i = 0; i < config.stream[0].n_datasets; i++)
        data[i] = lk_digest_of(config.stream[0].dataset[i].name, 1);
    *ret = (struct identity){0};
    lk_recipe_canonical(&config.stream[0], &ret->order_text, &ret->batch_text);
    lk_recipe_digests(&config.stream[0], data, lk_digest_of("t", 1), &ret->order, &ret->stream);
    lk_config_done(&config);
}

static void identity_done(struct identity *identity)
{
    lk_buf_done(&identity->order_text);
    lk_buf_done(&identity->batch_text);
}

static const char expected_order[] =
    "lanekeeper-order 1\n"
    "seed 1\n"
    "lanes 8\n"
    "sequence 2048\n"
    "tokenizer hf\n"
    "append \"eos\"\n"
    "prepend none\n"
    "special_in_text split\n"
    "mixture tokens\n"
    "block_rows 256\n"
    "blocks permuted\n"
    "rows permuted\n"
    "on_bad_row error\n"
    "on_crash error\n"
    "dataset \"code\" text \"body.content\" weight 2 epochs 0 then repeat group 0\n"
    "dataset \"docs\" text \"text\" weight 5 epochs 0 then repeat group 0\n"
    "dataset \"man\" text \"text\" weight 3 epochs 2 then release group 0\n"
    "filter min_bytes 64 max_bytes 2097152 min_tokens 0 max_tokens none field none equals none\n"
    "split max_tokens 8192\n"
    "shuffle buffer 1024\n"
    "pack exact_fit pool 512 groups 1\n"
    "tail drop\n"
    "pad_id 0\n";

START_TEST(the_form_of_the_sample_is_fixed)
{
    struct identity id;
    identify(sample, &id);
    ck_assert_str_eq(lk_buf_cstr(&id.order_text), expected_order);
    ck_assert_str_eq(lk_buf_cstr(&id.batch_text), "batch from 0 size 64\n");
    identity_done(&id);
}
END_TEST

/* The digests, put together here by hand from the documented text. */
START_TEST(the_digests_are_those_of_the_documented_text)
{
    static const char *const names[] = {"c", "d", "m"};
    struct lk_buf text = {0};
    struct identity id;
    char hex[LK_DIGEST_HEX];
    identify(sample, &id);
    lk_buf_puts(&text, expected_order);
    for (int i = 0; i < 3; i++) {
        lk_digest_hex(lk_digest_of(names[i], 1), hex);
        lk_buf_putf(&text, "data %s\n", hex);
    }
    lk_digest_hex(lk_digest_of("t", 1), hex);
    lk_buf_putf(&text, "tokenizer-data %s\n", hex);
    ck_assert(lk_digest_equal(id.order, lk_digest_of(text.data, text.len)));
    lk_digest_hex(id.order, hex);
    text.len = 0;
    lk_buf_putf(&text, "order %s\nbatch from 0 size 64\n", hex);
    ck_assert(lk_digest_equal(id.stream, lk_digest_of(text.data, text.len)));
    lk_buf_done(&text);
    identity_done(&id);
}
END_TEST

START_TEST(another_spelling_is_the_same_recipe)
{
    static const char other[] =
        "runtime: {workers: 7, arena: 1GiB, prefetch_steps: 2, log_level: debug}\n"
        "streams:\n"
        "  renamed:\n"
        "    pipeline: [filter: {max_bytes: 2048KiB, min_bytes: 64B}, split: {max_tokens: 8192},\n"
        "               shuffle: {}, pack: {pool: 512, within: all}]\n"
        "    datasets:\n"
        "      man: {weight: 0.3, then: release, epochs: 2, path: elsewhere, text: \"text\"}\n"
        "      unused: {path: nowhere, weight: 0}\n"
        "      code: {weight: 0.2, path: x, text: 'body.content'}\n"
        "      docs: {weight: 0.5, path: y, then: repeat}\n"
        "    tokenizer: {append: \"eos\", hf: /other/place.json, special_in_text: split}\n"
        "    sequence: 2048\n"
        "    on_bad_row: error\n"
        "    tail: drop\n"
        "    seed: 1\n"
        "    batch: [{size: 64, from: 0}, {from: 100, size: 64}]\n";
    struct identity a, b;
    identify(sample, &a);
    identify(other, &b);
    ck_assert_str_eq(lk_buf_cstr(&b.order_text), expected_order);
    ck_assert(lk_digest_equal(a.order, b.order));
    ck_assert(lk_digest_equal(a.stream, b.stream));
    identity_done(&a);
    identity_done(&b);
}
END_TEST

static const char *const changes[][2] = {
    {"seed: 1", "seed: 2"},
    {"lanes: 8", "lanes: 16"},
    {"sequence: 2048", "sequence: 1024"},
    {"hf: gpt2/tokenizer.json", "bytes: true"},
    {"append: eos", "append: bos"},
    {", append: eos", ""},
    {"append: eos", "append: eos, prepend: bos"},
    {"append: eos", "append: eos, special_in_text: text"},
    {"append: eos", "append: eos, special_in_text: error"},
    {"hf: gpt2/tokenizer.json", "tiktoken: {path: gpt2/tokenizer.json, scheme: gpt2}"},
    {"mixture: tokens", "mixture: bytes"},
    {"mixture: tokens", "mixture: samples"},
    {"block_rows: 256", "block_rows: 255"},
    {"block_rows: 256", "block_rows: shard"},
    {"block_rows: 256", "blocks: sequential"},
    {"shuffle_rows: true", "shuffle_rows: false"},
    {"seed: 1", "seed: 1\n    on_bad_row: drop"},
    {"seed: 1", "seed: 1\n    on_crash: drop"},
    {"seed: 1", "seed: 1\n    tail: pad"},
    {"seed: 1", "seed: 1\n    pad_id: 1"},
    {"seed: 1", "seed: 1\n    epochs: 1"},
    {"docs:", "doc:"},
    {"text: body.content", "text: body"},
    {"weight: 5", "weight: 6"},
    {"weight: 5", "weight: 5.00001"},
    {"weight: 5", "weight: 0"},
    {"epochs: 2", "epochs: 3"},
    {"then: release", "then: stop"},
    {"min_bytes: 64", "min_bytes: 65"},
    {"max_bytes: 2MiB", "max_bytes: 2MB"},
    {"max_bytes: 2MiB", "max_tokens: 2097152"},
    {"max_bytes: 2MiB", "min_tokens: 1"},
    {"max_bytes: 2MiB", "max_bytes: 2MiB, field: lang, equals: en"},
    {"      - filter: {min_bytes: 64, max_bytes: 2MiB}\n", ""},
    {"max_tokens: 8192", "max_tokens: 8191"},
    {"      - split: {max_tokens: 8192}\n", ""},
    {"buffer: 1024", "buffer: 1023"},
    {"      - shuffle: {buffer: 1024}\n", ""},
    {"pool: 512}\n", "pool: 512}\n      - shuffle: {buffer: 1024}\n"},
    {"pool: 512", "pool: 511"},
    {"exact_fit, pool: 512", "concat"},
    {"pool: 512", "pool: 512, within: dataset"},
    {"pool: 512", "pool: 512, within: {groups: [[code, docs], [man]]}"},
};

START_TEST(a_change_of_any_ordering_key_changes_both_digests)
{
    struct identity a, b;
    char *text = sample_with(changes[_i][0], changes[_i][1]);
    identify(sample, &a);
    identify(text, &b);
    ck_assert(!lk_digest_equal(a.order, b.order));
    ck_assert(!lk_digest_equal(a.stream, b.stream));
    ck_assert_str_ne(lk_buf_cstr(&a.order_text), lk_buf_cstr(&b.order_text));
    identity_done(&a);
    identity_done(&b);
    free(text);
}
END_TEST

static const char *const schedules[][2] = {
    {"batch: 64", "batch: 32"},
    {"batch: 64", "batch: [{from: 0, size: 64}, {from: 10, size: 32}]"},
    {"batch: 64", "batch: [{from: 0, size: 8}, {from: 1, size: 64}]"},
};

START_TEST(the_batch_schedule_changes_only_the_stream_digest)
{
    struct identity a, b;
    char *text = sample_with(schedules[_i][0], schedules[_i][1]);
    identify(sample, &a);
    identify(text, &b);
    ck_assert(lk_digest_equal(a.order, b.order));
    ck_assert(!lk_digest_equal(a.stream, b.stream));
    identity_done(&a);
    identity_done(&b);
    free(text);
}
END_TEST

static const char *const irrelevant[][2] = {
    {"  workers: 2", "  workers: 5"},
    {"arena: 512MiB", "arena: 64MiB\n  cache: 0\n  prefetch_steps: 1"},
    {"every: 100, keep: 8", "every: 1"},
    {"  workers: 2", "  listen: tcp://0.0.0.0:1\n  http: 127.0.0.1:2\n  index_dir: /i\n  run_dir: /r"},
    {"/data/code/", "/moved/code/"},
    {"gpt2/tokenizer.json", "moved/tokenizer.json"},
    {"pretrain:", "renamed:"},
};

START_TEST(runtime_settings_paths_and_the_streams_name_change_neither)
{
    struct identity a, b;
    char *text = sample_with(irrelevant[_i][0], irrelevant[_i][1]);
    identify(sample, &a);
    identify(text, &b);
    ck_assert(lk_digest_equal(a.order, b.order));
    ck_assert(lk_digest_equal(a.stream, b.stream));
    identity_done(&a);
    identity_done(&b);
    free(text);
}
END_TEST

START_TEST(data_and_tokenizer_change_both_digests)
{
    struct lk_digest data[3] = {{1, 0}, {2, 0}, {3, 0}}, order[3], stream[3];
    struct lk_config config;
    must_parse(sample, &config);
    lk_recipe_digests(&config.stream[0], data, lk_digest_of("t", 1), &order[0], &stream[0]);
    lk_recipe_digests(&config.stream[0], data, lk_digest_of("u", 1), &order[1], &stream[1]);
    data[1].hi = 1;
    lk_recipe_digests(&config.stream[0], data, lk_digest_of("t", 1), &order[2], &stream[2]);
    for (int i = 0; i < 3; i++) {
        ck_assert(!lk_digest_equal(order[i], order[(i + 1) % 3]));
        ck_assert(!lk_digest_equal(stream[i], stream[(i + 1) % 3]));
    }
    lk_config_done(&config);
}
END_TEST

/* The scheme of a file of ranks decides ids as the file does; others have no such line. */
START_TEST(the_scheme_of_ranks_is_part_of_the_order)
{
    static const char *const forms[] = {"tiktoken: {path: r.tiktoken, scheme: cl100k_base}",
                                        "tiktoken: {path: q.tiktoken, scheme: cl100k_base}",
                                        "tiktoken: {path: r.tiktoken, scheme: o200k_base}"};
    struct identity id[3];
    for (int i = 0; i < 3; i++) {
        char *text = sample_with("hf: gpt2/tokenizer.json", forms[i]);
        identify(text, &id[i]);
        free(text);
    }
    ck_assert_ptr_nonnull(strstr(lk_buf_cstr(&id[0].order_text),
                                 "\ntokenizer tiktoken\nscheme \"cl100k_base\"\nappend \"eos\"\n"));
    ck_assert(lk_digest_equal(id[0].order, id[1].order));
    ck_assert(!lk_digest_equal(id[0].order, id[2].order));
    for (int i = 0; i < 3; i++)
        identity_done(&id[i]);
}
END_TEST

/* Of the dataset "code", which is the first. */
static struct lk_digest ops_of(const char *find, const char *replace, const char *tokenizer)
{
    struct lk_config config;
    must_parse_with(find, replace, &config);
    struct lk_digest ops = lk_recipe_ops_digest(&config.stream[0], 0, lk_digest_of(tokenizer, 1));
    lk_config_done(&config);
    return ops;
}

/* What cannot change a row's measure: another order of the same data finds its counts again. */
static const char *const no_measuring[][2] = {
    {"seed: 1", "seed: 2"},
    {"lanes: 8", "lanes: 16"},
    {"sequence: 2048", "sequence: 1024"},
    {"batch: 64", "batch: 32"},
    {"mixture: tokens", "mixture: bytes"},
    {"block_rows: 256", "block_rows: 255"},
    {"block_rows: 256", "blocks: sequential"},
    {"shuffle_rows: true", "shuffle_rows: false"},
    {"seed: 1", "seed: 1\n    tail: pad"},
    {"seed: 1", "seed: 1\n    pad_id: 1"},
    {"seed: 1", "seed: 1\n    epochs: 1"},
    {"code:", "cod:"},
    {"text: text", "text: txt"}, /* of another dataset */
    {"weight: 2", "weight: 6"},
    {"epochs: 2", "epochs: 3"},
    {"max_tokens: 8192", "max_tokens: 8191"},
    {"      - shuffle: {buffer: 1024}\n", ""},
    {"pool: 512", "pool: 511"},
    {"exact_fit, pool: 512", "concat"},
    {"  workers: 2", "  workers: 5"},
    {"pretrain:", "renamed:"},
    {"/data/code/", "/moved/code/"},
    {"gpt2/tokenizer.json", "moved/tokenizer.json"},
};

START_TEST(what_measures_nothing_changes_no_ops_digest)
{
    struct lk_digest ops = ops_of("seed: 1", "seed: 1", "t");
    ck_assert(lk_digest_equal(ops, ops_of(no_measuring[_i][0], no_measuring[_i][1], "t")));
}
END_TEST

static const char *const measuring[][2] = {
    {"hf: gpt2/tokenizer.json", "bytes: true"},
    {"append: eos", "append: bos"},
    {", append: eos", ""},
    {"append: eos", "append: eos, prepend: bos"},
    {"append: eos", "append: eos, special_in_text: text"},
    {"append: eos", "append: eos, special_in_text: error"},
    {"hf: gpt2/tokenizer.json", "tiktoken: {path: gpt2/tokenizer.json, scheme: gpt2}"},
    {"seed: 1", "seed: 1\n    on_bad_row: drop"},
    {"seed: 1", "seed: 1\n    on_crash: drop"},
    {"text: body.content", "text: body"},
    {"min_bytes: 64", "min_bytes: 65"},
    {"max_bytes: 2MiB", "max_bytes: 2MB"},
    {"max_bytes: 2MiB", "max_tokens: 2097152"},
    {"max_bytes: 2MiB", "min_tokens: 1"},
    {"max_bytes: 2MiB", "max_bytes: 2MiB, field: lang, equals: en"},
    {"      - filter: {min_bytes: 64, max_bytes: 2MiB}\n", ""},
};

START_TEST(what_measures_changes_the_ops_digest)
{
    struct lk_digest ops = ops_of("seed: 1", "seed: 1", "t");
    ck_assert(!lk_digest_equal(ops, ops_of(measuring[_i][0], measuring[_i][1], "t")));
    ck_assert(!lk_digest_equal(ops, ops_of("seed: 1", "seed: 1", "u")));
}
END_TEST

/* A text that tries to look like the end of its own line. */
START_TEST(texts_cannot_imitate_other_lines)
{
    struct lk_config config;
    struct lk_buf order = {0}, batch = {0};
    must_parse_with("append: eos", "append: \"x\\\" \\\\ \\n\\x7Fpad_id 9 é\"", &config);
    lk_recipe_canonical(&config.stream[0], &order, &batch);
    ck_assert_ptr_nonnull(
        strstr(lk_buf_cstr(&order), "\nappend \"x\\\" \\\\ \\x0a\\x7fpad_id 9 é\"\nprepend none\n"));
    lk_buf_done(&order);
    lk_buf_done(&batch);
    lk_config_done(&config);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("config/canonical");
    TCase *t = tcase_create("canonical");
    tcase_add_test(t, the_form_of_the_sample_is_fixed);
    tcase_add_test(t, the_digests_are_those_of_the_documented_text);
    tcase_add_test(t, another_spelling_is_the_same_recipe);
    tcase_add_loop_test(t, a_change_of_any_ordering_key_changes_both_digests, 0,
                        (int)(sizeof changes / sizeof *changes));
    tcase_add_loop_test(t, the_batch_schedule_changes_only_the_stream_digest, 0,
                        (int)(sizeof schedules / sizeof *schedules));
    tcase_add_loop_test(t, runtime_settings_paths_and_the_streams_name_change_neither, 0,
                        (int)(sizeof irrelevant / sizeof *irrelevant));
    tcase_add_test(t, data_and_tokenizer_change_both_digests);
    tcase_add_test(t, the_scheme_of_ranks_is_part_of_the_order);
    tcase_add_loop_test(t, what_measures_nothing_changes_no_ops_digest, 0,
                        (int)(sizeof no_measuring / sizeof *no_measuring));
    tcase_add_loop_test(t, what_measures_changes_the_ops_digest, 0,
                        (int)(sizeof measuring / sizeof *measuring));
    tcase_add_test(t, texts_cannot_imitate_other_lines);
    suite_add_tcase(s, t);
    return s;
}
