/*
 * Models of characters, SentencePiece's way: spaces that are marks, prefixes, what decoders show, and cutting
 * where no merge can join. The expected ids were computed with the reference library; real
 * vocabularies: test_vocabularies.c.
 */
#include "base/json.h"
#include "op/tokenise/internal.h"
#include "tests/lib/check_main.h"

#include <stdlib.h>

#define MARK "\xe2\x96\x81"

static struct lk_tokenizer *made(const char *json)
{
    struct lk_tokenizer_files files = {.kind = LK_TOKENIZER_HF,
                                       .main = (const uint8_t *)json,
                                       .main_bytes = strlen(json),
                                       .main_name = "t.json"};
    struct lk_tokenizer *tokenizer = NULL;
    struct lk_err err;
    if (lk_tokenizer_new(&files, &tokenizer, &err) != LK_OK)
        ck_abort_msg("%s: %s", err.text, json);
    return tokenizer;
}

static void encode(const struct lk_tokenizer *tokenizer, const void *text, size_t n,
                   struct lk_tokens *ids)
{
    struct lk_encoder *encoder = lk_encoder_new_small(tokenizer);
    for (int pass = 0; pass < 2; pass++) { /* the second time out of the cache */
        ids->n = 0;
        lk_encode(encoder, text, n, ids);
    }
    lk_encoder_free(encoder);
}

static void expect(const struct lk_tokenizer *tokenizer, const char *text, const char *want)
{
    struct lk_tokens ids = {0};
    struct lk_buf out = {0};

    encode(tokenizer, text, strlen(text), &ids);
    for (size_t i = 0; i < ids.n; i++)
        lk_buf_putf(&out, i == 0 ? "%u" : " %u", ids.ids[i]);
    ck_assert_msg(strcmp(lk_buf_cstr(&out), want) == 0, "\"%s\": got [%s], expected [%s]", text,
                  lk_buf_cstr(&out), want);
    lk_tokens_done(&ids);
    lk_buf_done(&out);
}

/* ---- ways to mean a space ---- */

#define NONE "null"
#define PREPEND "{\"type\":\"Prepend\",\"prepend\":\"" MARK "\"}"
#define REPLACE "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" MARK "\"}"
#define NORMAL(parts) "{\"type\":\"Sequence\",\"normalizers\":[" parts "]}"
#define SPLIT_SPACES                                                                               \
    "{\"type\":\"Split\",\"pattern\":{\"String\":\" \"},\"behavior\":\"MergedWithPrevious\","             \
    "\"invert\":false}"
#define METASPACE(scheme, split)                                                                   \
    "{\"type\":\"Metaspace\",\"replacement\":\"" MARK "\",\"prepend_scheme\":\"" scheme                     \
    "\",\"split\":" split "}"
#define MODEL(more)                                                                                \
    "\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"fuse_unk\":true,\"byte_fallback\":true," more      \
    "\"vocab\":{\"<unk>\":0,\"" MARK "\":1,\"a\":2,\"b\":3,\"\u00e9\":4,\"" MARK "a\":5,\"ab\":6,"             \
    "\"" MARK MARK "\":7,\" \":8,\"<0x0A>\":9,\"[M]\":10,\"\u00e9" MARK "\":11},"                       \
    "\"merges\":[\"" MARK " a\",\"a b\",\"" MARK " " MARK "\",\"\u00e9 " MARK "\"]}"
#define ADDED(normalized)                                                                          \
    "\"added_tokens\":[{\"id\":10,\"content\":\"[M]\",\"single_word\":false,\"lstrip\":false,\"rstrip\":"     \
    "false,\"normalized\":" normalized ",\"special\":false}],"

static const char *const texts[] = {"ab", "ab ab", "  ab", MARK "ab", "a[M]b[M] a", "[M]ab", " ",
                                    "\u00e9 a\u00e9 " MARK "a", "zzaz\nz\u00e9", ""};
#define TEXTS (sizeof texts / sizeof *texts)

START_TEST(a_space_is_a_mark_in_every_spelling_of_the_file)
{
    static const struct {
        const char *normalizer, *pre_tokenizer, *ids[TEXTS];
    } cases[] = {
        {NORMAL(PREPEND "," REPLACE), NONE,
         {"5 3", "5 3 5 3", "7 5 3", "1 5 3", "5 10 1 3 10 1 5", "10 5 3", "7", "1 4 5 11 5", "1 0 2 9 0 4", ""}},
        {NORMAL(REPLACE "," PREPEND), NONE,
         {"5 3", "5 3 5 3", "7 5 3", "1 5 3", "5 10 1 3 10 1 5", "10 5 3", "7", "1 4 5 11 5", "1 0 2 9 0 4", ""}},
        {REPLACE, NONE,
         {"6", "6 5 3", "1 5 3", "5 3", "2 10 3 10 5", "10 6", "1", "4 5 11 5", "0 2 9 0 4", ""}},
        {REPLACE, SPLIT_SPACES,
         {"6", "6 5 3", "1 5 3", "5 3", "2 10 3 10 5", "10 6", "1", "4 5 11 5", "0 2 9 0 4", ""}},
        {NONE, METASPACE("always", "false"),
         {"5 3", "5 3 5 3", "1 5 3", "5 3", "5 10 1 3 10 5", "10 5 3", "1", "1 4 5 11 5", "1 0 2 9 0 4", ""}},
        {NONE, METASPACE("first", "false"),
         {"5 3", "5 3 5 3", "1 5 3", "5 3", "5 10 3 10 5", "10 6", "1", "1 4 5 11 5", "1 0 2 9 0 4", ""}},
        {NONE, METASPACE("never", "false"),
         {"6", "6 5 3", "1 5 3", "5 3", "2 10 3 10 5", "10 6", "1", "4 5 11 5", "0 2 9 0 4", ""}},
        {NONE, METASPACE("always", "true"),
         {"5 3", "5 3 5 3", "1 5 3", "5 3", "5 10 1 3 10 5", "10 5 3", "1", "1 4 5 4 1 5", "1 0 2 9 0 4", ""}},
        {REPLACE, METASPACE("always", "true"),
         {"5 3", "5 3 5 3", "1 5 3", "5 3", "5 10 1 3 10 5", "10 5 3", "1", "1 4 5 4 1 5", "1 0 2 9 0 4", ""}},
        {NONE, NONE,
         {"6", "6 8 6", "8 8 6", "5 3", "2 10 3 10 8 2", "10 6", "8", "4 8 2 4 8 5", "0 2 9 0 4", ""}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *json = lk_format("{" ADDED("false") "\"normalizer\":%s,\"pre_tokenizer\":%s," MODEL("") "}",
                               cases[i].normalizer, cases[i].pre_tokenizer);
        struct lk_tokenizer *tokenizer = made(json);
        for (size_t k = 0; k < TEXTS; k++)
            expect(tokenizer, texts[k], cases[i].ids[k]);
        lk_tokenizer_free(tokenizer);
        free(json);
    }
}
END_TEST

/* Such a token is looked for with what the normalizer makes of it: a mark before it. */
START_TEST(normalised_added_tokens_are_looked_for_in_normalised_text)
{
    static const char *const ids[TEXTS] = {
        "5 3", "5 3 5 3", "7 5 3", "1 5 3", "5 0 3 0 5", "10 6", "7", "1 4 5 11 5", "1 0 2 9 0 4", ""};
    struct lk_tokenizer *tokenizer =
        made("{" ADDED("true") "\"normalizer\":" NORMAL(PREPEND "," REPLACE) "," MODEL("") "}");
    for (size_t k = 0; k < TEXTS; k++)
        expect(tokenizer, texts[k], ids[k]);
    lk_tokenizer_free(tokenizer);
}
END_TEST

/* A space that has become U+2581 falls back to the bytes of that. */
START_TEST(a_mark_without_a_token_is_its_own_bytes)
{
    static const struct {
        const char *normalizer, *pre_tokenizer, *ids;
    } cases[] = {
        {NORMAL(PREPEND "," REPLACE), NONE, "1 2 3 0 1 2 3 0"},
        {REPLACE, SPLIT_SPACES, "0 1 2 3 0"},
        {NONE, METASPACE("always", "true"), "1 2 3 0 1 2 3 0"},
        {NONE, METASPACE("never", "false"), "0 1 2 3 0"},
        {NONE, NONE, "0 4 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *json = lk_format("{\"normalizer\":%s,\"pre_tokenizer\":%s,\"model\":{\"type\":\"BPE\","
                               "\"byte_fallback\":true,\"vocab\":{\"a\":0,\"<0xE2>\":1,\"<0x96>\":2,"
                               "\"<0x81>\":3,\"<0x20>\":4},\"merges\":[]}}",
                               cases[i].normalizer, cases[i].pre_tokenizer);
        struct lk_tokenizer *tokenizer = made(json);
        expect(tokenizer, "a a", cases[i].ids);
        lk_tokenizer_free(tokenizer);
        free(json);
    }
}
END_TEST

/* RC-054: whole pieces are looked up as the vocabulary spells them. */
START_TEST(ignore_merges_takes_whole_texts_as_they_are_spelled)
{
    static const char *const ids[TEXTS] = {
        "5 3", "5 3 5 3", "7 5 3", "1 5 3", "5 10 1 3 10 1 5", "10 5 3", "7", "1 4 5 11 5", "1 0 2 9 0 4", ""};
    struct lk_tokenizer *tokenizer = made(
        "{" ADDED("false") "\"normalizer\":" NORMAL(PREPEND "," REPLACE) "," MODEL("\"ignore_merges\":true,") "}");
    for (size_t k = 0; k < TEXTS; k++)
        expect(tokenizer, texts[k], ids[k]);
    expect(tokenizer, "\n", "1 9");
    expect(tokenizer, "<0x0A>", "1 0");
    lk_tokenizer_free(tokenizer);
}
END_TEST

/* ---- what detokenising shows ---- */

static void expect_shown(const char *decoder, const char *mark, const char *line_end, uint32_t strip)
{
    char *json = lk_format("{\"decoder\":%s,\"normalizer\":" REPLACE "," MODEL("") "}", decoder);
    struct lk_tokenizer *tokenizer = made(json);
    size_t n = 0;

    const uint8_t *bytes = lk_tokenizer_bytes(tokenizer, 5, &n); /* the mark and an a */
    ck_assert_uint_eq(n, strlen(mark) + 1);
    ck_assert_mem_eq(bytes, mark, n - 1);
    ck_assert_uint_eq(bytes[n - 1], 'a');
    bytes = lk_tokenizer_bytes(tokenizer, 9, &n);
    ck_assert_uint_eq(n, strlen(line_end));
    ck_assert_mem_eq(bytes, line_end, n);
    ck_assert_uint_eq(lk_tokenizer_strip(tokenizer), strip);
    lk_tokenizer_free(tokenizer);
    free(json);
}

START_TEST(decoders_say_what_a_token_shows)
{
#define SHOW "{\"type\":\"Replace\",\"pattern\":{\"String\":\"" MARK "\"},\"content\":\" \"}"
    expect_shown("null", MARK, "<0x0A>", 0);
    expect_shown("{\"type\":\"ByteFallback\"}", MARK, "\n", 0);
    expect_shown("{\"type\":\"Sequence\",\"decoders\":[" SHOW ",{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},"
                 "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]}", " ", "\n", 1);
    expect_shown("{\"type\":\"Sequence\",\"decoders\":[" SHOW ",{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}]}",
                 " ", "\n", 0);
    expect_shown(METASPACE("always", "true"), " ", "<0x0A>", 1);
    expect_shown(METASPACE("never", "true"), " ", "<0x0A>", 0);
}
END_TEST

/* ---- cutting where no merge joins ---- */

struct random {
    uint64_t state;
};

static uint32_t below(struct random *random, uint32_t n)
{
    random->state = random->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random->state >> 33) % n);
}

static const char *const letters[] = {"a", "b", "c", MARK, "\u00e9", "\u4e2d", "\U0001f600", "<", ">", "0"};
static const char *const strangers[] = {"z", " ", "\u0436", "\u8a9e", "\n", "A"};
#define LETTERS (sizeof letters / sizeof *letters)
#define STRANGERS (sizeof strangers / sizeof *strangers)

struct model {
    char *tokens[600];
    uint32_t n;
    struct lk_buf merges;
};

static uint32_t find(const struct model *model, const char *token)
{
    for (uint32_t i = 0; i < model->n; i++)
        if (strcmp(model->tokens[i], token) == 0)
            return i;
    return LK_NO_ID;
}

static void add(struct model *model, const char *token)
{
    ck_assert_uint_lt(model->n, 600);
    if (find(model, token) == LK_NO_ID)
        model->tokens[model->n++] = lk_strdup(token);
}

static void add_merge(struct model *model, const char *left, const char *right)
{
    char *joined = lk_format("%s%s", left, right);

    lk_buf_puts(&model->merges, model->merges.len == 0 ? "[" : ",[");
    lk_json_quote(&model->merges, left, strlen(left));
    lk_buf_puts(&model->merges, ",");
    lk_json_quote(&model->merges, right, strlen(right));
    lk_buf_puts(&model->merges, "]");
    add(model, joined);
    free(joined);
}

/* Half of them have all bytes, some a few; a few merge tokens that stand for other characters. */
static void make_model(struct random *random, struct model *model, bool *ret_fallback)
{
    uint32_t kind = below(random, 4);

    for (size_t i = 0; i < LETTERS; i++)
        if (below(random, 8) != 0)
            add(model, letters[i]);
    add(model, "a");
    for (uint32_t i = 0, n = 5 + below(random, 40); i < n; i++) {
        const char *left = model->tokens[below(random, model->n)], *right = model->tokens[below(random, model->n)];
        if (strlen(left) + strlen(right) < 16)
            add_merge(model, left, right);
    }
    *ret_fallback = kind != 0;
    for (unsigned b = 0; b < 256 && *ret_fallback; b++) {
        char *token = lk_format("<0x%02X>", b);
        if (kind > 1 || below(random, 8) == 0)
            add(model, token);
        free(token);
    }
    add(model, "<unk>");
    if (below(random, 6) == 0)
        add_merge(model, "a", "<unk>");
    if (kind > 1 && below(random, 6) == 0)
        add_merge(model, "<0xB6>", "a"); /* what the Cyrillic letter ends with */
}

static char *json_of(struct random *random, struct model *model, bool fallback)
{
    struct lk_buf json = {0};

    lk_buf_putf(&json, "{\"normalizer\":%s,\"model\":{\"type\":\"BPE\",\"byte_fallback\":%s,\"fuse_unk\":%s,",
                below(random, 2) ? "null" : below(random, 2) ? REPLACE : NORMAL(PREPEND "," REPLACE),
                fallback ? "true" : "false", below(random, 2) ? "true" : "false");
    if (below(random, 4) != 0)
        lk_buf_puts(&json, "\"unk_token\":\"<unk>\",");
    lk_buf_puts(&json, "\"vocab\":{");
    for (uint32_t i = 0; i < model->n; i++) {
        lk_buf_puts(&json, i == 0 ? "" : ",");
        lk_json_quote(&json, model->tokens[i], strlen(model->tokens[i]));
        lk_buf_putf(&json, ":%u", i);
    }
    lk_buf_putf(&json, "},\"merges\":[%s]}}", lk_buf_cstr(&model->merges));
    (void)lk_buf_cstr(&json);
    return (char *)json.data;
}

static void put_text(struct random *random, struct lk_buf *text)
{
    uint32_t n = below(random, 5) == 0 ? 2000 : below(random, 60), strange = 1 + below(random, 8);

    text->len = 0;
    for (uint32_t i = 0; i < n; i++)
        if (below(random, strange) == 0)
            lk_buf_puts(text, strangers[below(random, STRANGERS)]);
        else
            lk_buf_puts(text, letters[below(random, LETTERS)]);
}

static size_t pieces_of(const struct lk_cutter *cutter, const struct lk_buf *text)
{
    const uint8_t *p = text->data, *end = p + text->len, *stops[LK_PIECES_MAX];
    size_t count = 0;

    while (p < end) {
        size_t n = cutter->cut(cutter, p, end, stops);
        ck_assert_uint_ge(n, 1);
        ck_assert_uint_le(n, LK_PIECES_MAX);
        for (size_t i = 0; i < n; p = stops[i++])
            ck_assert(stops[i] > p && stops[i] <= end);
        count += n;
    }
    return count;
}

/* The same files, once without the cutter: their texts are merged whole. */
static size_t compare(struct random *random, const char *json)
{
    struct lk_tokenizer *cut = made(json), *whole = made(json);
    struct lk_tokens ids = {0}, want = {0};
    struct lk_buf text = {0};
    size_t pieces = 0;

    ck_assert_uint_eq(whole->pretok.n, 1);
    lk_cutter_done(&whole->pretok.stages[0]);
    lk_cutter_whole(&whole->pretok.stages[0]);
    for (int i = 0; i < 20; i++) {
        put_text(random, &text);
        encode(cut, text.data, text.len, &ids);
        encode(whole, text.data, text.len, &want);
        bool same = ids.n == want.n;
        for (size_t k = 0; same && k < ids.n; k++)
            same = ids.ids[k] == want.ids[k];
        ck_assert_msg(same, "%.*s: %.1000s", (int)(text.len < 200 ? text.len : 200),
                      (const char *)text.data, json);
        pieces += text.len > 0 ? pieces_of(&cut->pretok.stages[0], &text) - 1 : 0;
    }
    lk_buf_done(&text);
    lk_tokens_done(&ids);
    lk_tokens_done(&want);
    lk_tokenizer_free(cut);
    lk_tokenizer_free(whole);
    return pieces;
}

START_TEST(cut_where_no_merge_joins_a_text_has_the_ids_of_the_whole)
{
    struct random random = {.state = 1};
    size_t cuts = 0, models_cut = 0;

    for (int i = 0; i < 300; i++) {
        struct model model = {0};
        bool fallback = false;
        make_model(&random, &model, &fallback);
        char *json = json_of(&random, &model, fallback);
        size_t n = compare(&random, json);
        cuts += n;
        models_cut += n > 0;
        free(json);
        for (uint32_t k = 0; k < model.n; k++)
            free(model.tokens[k]);
        lk_buf_done(&model.merges);
    }
    ck_assert_uint_gt(models_cut, 150); /* or nothing was compared */
    ck_assert_uint_lt(models_cut, 300);
    ck_assert_uint_gt(cuts, 100000);
}
END_TEST

/* ---- damaged files: RC-058 ---- */

static void load_and_use(enum lk_tokenizer_kind kind, const uint8_t *bytes, size_t n, size_t *loaded)
{
    static const char text[] = "ab  \u00e9z" MARK "\n[M] a\xc3";
    uint8_t *exact = lk_alloc(n); /* of the exact size: sanitizers see a read beyond it */
    memcpy(exact, bytes, n);
    struct lk_tokenizer_files files = {
        .kind = kind, .main = exact, .main_bytes = n, .main_name = "t", .scheme = "cl100k_base"};
    struct lk_tokenizer *tokenizer = NULL;
    struct lk_tokens ids = {0};
    struct lk_err err = {.code = LK_OK};

    enum lk_code code = lk_tokenizer_new(&files, &tokenizer, &err);
    free(exact);
    if (code != LK_OK) {
        ck_assert(code == LK_INVALID_ARGUMENT || code == LK_UNIMPLEMENTED);
        ck_assert_uint_gt(strlen(err.text), 0);
        ck_assert_ptr_null(tokenizer);
        return;
    }
    encode(tokenizer, text, sizeof text - 1, &ids);
    for (size_t i = 0; i < ids.n; i++)
        ck_assert_uint_lt(ids.ids[i], lk_tokenizer_vocab(tokenizer));
    lk_tokens_done(&ids);
    lk_tokenizer_free(tokenizer);
    (*loaded)++;
}

static void damage(enum lk_tokenizer_kind kind, const char *whole, size_t n, const char *bytes, size_t bytes_n,
                   int tries)
{
    struct random random = {.state = 3};
    uint8_t *text = lk_alloc(n);
    size_t loaded = 0;

    for (int i = 0; i < tries; i++) {
        memcpy(text, whole, n);
        for (uint32_t k = 0, times = 1 + below(&random, 3); k < times; k++)
            text[below(&random, (uint32_t)n)] = (uint8_t)bytes[below(&random, (uint32_t)bytes_n)];
        load_and_use(kind, text, n - (below(&random, 8) == 0 ? below(&random, (uint32_t)n) : 0), &loaded);
    }
    free(text);
    ck_assert_uint_gt(loaded, (size_t)tries / 100); /* or only refusals were seen */
    ck_assert_uint_lt(loaded, (size_t)tries);
}

START_TEST(damaged_files_are_refused_or_give_a_tokenizer_that_works)
{
    static const char json[] = "{" ADDED("false") "\"normalizer\":" NORMAL(PREPEND "," REPLACE) ",\"decoder\":"
        METASPACE("always", "true") ",\"pre_tokenizer\":" METASPACE("first", "true") "," MODEL("") "}";
    static const char bytes[] = "{}[]\",:\\019abtrue<>x\x81\x96\xe2\xff ";
    struct lk_buf ranks = {0};

    damage(LK_TOKENIZER_HF, json, sizeof json - 1, bytes, sizeof bytes - 1, 4000);
    for (unsigned b = 0; b < 256; b++) {
        static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        lk_buf_putf(&ranks, "%c%c== %u\n", digits[b >> 2], digits[(b & 3) << 4], b);
    }
    lk_buf_puts(&ranks, "YWI= 256\nICA= 257\nICAgIA== 258\n");
    damage(LK_TOKENIZER_TIKTOKEN, (const char *)ranks.data, ranks.len, "A=9 /\n\r\xff", 8, 2000);
    lk_buf_done(&ranks);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("op/characters");
    TCase *t = tcase_create("characters");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, a_space_is_a_mark_in_every_spelling_of_the_file);
    tcase_add_test(t, normalised_added_tokens_are_looked_for_in_normalised_text);
    tcase_add_test(t, a_mark_without_a_token_is_its_own_bytes);
    tcase_add_test(t, ignore_merges_takes_whole_texts_as_they_are_spelled);
    tcase_add_test(t, decoders_say_what_a_token_shows);
    tcase_add_test(t, cut_where_no_merge_joins_a_text_has_the_ids_of_the_whole);
    tcase_add_test(t, damaged_files_are_refused_or_give_a_tokenizer_that_works);
    suite_add_tcase(s, t);
    return s;
}
