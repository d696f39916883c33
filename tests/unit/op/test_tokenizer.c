/*
 * Loading, refusing and merging, on vocabularies small enough to see. The expected ids were computed
 * with the reference library. Real vocabularies: test_vocabularies.c; files of ranks: test_ranks.c.
 */
#include "op/tokenise/tokenizer.h"
#include "tests/lib/check_main.h"
#include "tests/lib/expect_ids.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- making tokenizers ---- */

#define LEVEL(regex, prefix)                                                                       \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":" prefix                                         \
    ",\"trim_offsets\":true,\"use_regex\":" regex "}"
#define FILE_OF(rest, model) "{\"version\":\"1.0\"," rest ",\"model\":{\"type\":\"BPE\"," model "}}"
#define PLAIN(model) FILE_OF("\"pre_tokenizer\":" LEVEL("false", "false"), model)
#define ADDED(id, text, flags)                                                                     \
    "{\"id\":" #id ",\"content\":\"" text "\"," flags ",\"special\":false}"
#define WITH_ADDED(tokens, model)                                                                  \
    FILE_OF("\"added_tokens\":[" tokens "],\"pre_tokenizer\":" LEVEL("false", "false"), model)
#define FLAGS(single, left, right, normal)                                                         \
    "\"single_word\":" single ",\"lstrip\":" left ",\"rstrip\":" right ",\"normalized\":" normal

static enum lk_code load_as(const char *json, enum lk_special_in_text special,
                            struct lk_tokenizer **ret_tokenizer, struct lk_err *err)
{
    struct lk_tokenizer_files files = {.kind = LK_TOKENIZER_HF,
                                       .special_in_text = special,
                                       .main = (const uint8_t *)json,
                                       .main_bytes = strlen(json),
                                       .main_name = "t.json"};
    return lk_tokenizer_new(&files, ret_tokenizer, err);
}

static struct lk_tokenizer *made(const char *json)
{
    struct lk_tokenizer *tokenizer = NULL;
    struct lk_err err;
    if (load_as(json, LK_SPECIAL_SPLIT, &tokenizer, &err) != LK_OK)
        ck_abort_msg("%s", err.text);
    return tokenizer;
}

/* One text with a tokenizer of its own. */
static void expect_json(const char *json, const char *text, const char *want)
{
    struct lk_tokenizer *tokenizer = made(json);
    expect(tokenizer, text, want);
    lk_tokenizer_free(tokenizer);
}

static void refuse(const char *json, enum lk_code code, const char *part)
{
    struct lk_tokenizer *tokenizer = NULL;
    struct lk_err err = {.code = LK_OK};
    ck_assert_msg(load_as(json, LK_SPECIAL_SPLIT, &tokenizer, &err) == code, "%s: %s (%s)", json,
                  lk_code_name(err.code), err.text);
    ck_assert_ptr_null(tokenizer);
    ck_assert_msg(strstr(err.text, part) != NULL, "\"%s\" lacks \"%s\"", err.text, part);
    ck_assert_msg(strncmp(err.text, "t.json: $", 9) == 0, "%s", err.text);
}

/* ---- the algorithm, on small vocabularies ---- */

#define ABC "\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"abc\":4,\"bc\":5}"

START_TEST(merges_go_by_rank_and_leftmost_among_equals) /* RC-055 */
{
    expect_json(PLAIN(ABC ",\"merges\":[\"b c\",\"a b\"]"), "abc", "0 5");
    expect_json(PLAIN(ABC ",\"merges\":[\"a b\",\"b c\"]"), "abc", "3 2");
    expect_json(PLAIN(ABC ",\"merges\":[\"a b\",\"b c\",\"ab c\"]"), "abc", "4");
    struct lk_tokenizer *runs = made(
        PLAIN("\"vocab\":{\"a\":0,\"aa\":1,\"aaaa\":2},\"merges\":[\"a a\",\"aa aa\"]"));
    static const char *const want[] = {"0", "1", "1 0", "2", "2 0", "2 1", "2 1 0"};
    for (size_t n = 1; n <= 7; n++)
        expect_n(runs, "aaaaaaa", n, want[n - 1]);
    lk_tokenizer_free(runs);
}
END_TEST

START_TEST(long_pieces_merge_like_short_ones)
{
    struct lk_tokenizer *tokenizer = made(
        PLAIN("\"vocab\":{\"a\":0,\"aa\":1,\"aaaa\":2,\"b\":3,\"ba\":4,\"ab\":5},"
              "\"merges\":[\"b a\",\"a a\",\"a b\",\"aa aa\"]"));
    struct lk_encoder *encoder = lk_encoder_new(tokenizer);
    struct lk_tokens whole = {0}, part = {0};
    uint8_t text[4000];
    /* "b" merges only to its right at rank 0, so a text may be cut before every b that follows a
     * run of a's of a multiple of four: the short parts give the long one's ids. */
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = i % 10 == 0 ? 'b' : 'a'; /* "baaaaaaaaa": ba, then eight a's */
    lk_encode(encoder, text, sizeof text, &whole);
    for (size_t i = 0; i < sizeof text; i += 10)
        lk_encode(encoder, text + i, 10, &part);
    ck_assert_uint_eq(whole.n, 3 * sizeof text / 10);
    ck_assert_uint_eq(whole.n, part.n);
    ck_assert_mem_eq(whole.ids, part.ids, whole.n * sizeof *whole.ids);
    lk_tokens_done(&whole);
    lk_tokens_done(&part);
    lk_encoder_free(encoder);
    lk_tokenizer_free(tokenizer);
}
END_TEST

START_TEST(ignore_merges_takes_whole_words_from_the_vocabulary) /* RC-054 */
{
    struct lk_tokenizer *on = made(PLAIN(ABC ",\"merges\":[\"b c\"],\"ignore_merges\":true"));
    struct lk_tokenizer *off = made(PLAIN(ABC ",\"merges\":[\"b c\"],\"ignore_merges\":false"));
    expect(on, "abc", "4");
    expect(on, "abcb", "0 5 1");
    expect(off, "abc", "0 5");
    expect(off, "abcb", "0 5 1");
    lk_tokenizer_free(on);
    lk_tokenizer_free(off);
}
END_TEST

START_TEST(merges_may_be_pairs_or_strings_and_nothing_else) /* RC-057 */
{
    static const char spaces[] = "\"vocab\":{\"\\u0120\":0,\"\\u0120\\u0120\":1,"
                                 "\"\\u0120\\u0120\\u0120\\u0120\":2},\"merges\":";
    struct lk_buf json = {0};
    lk_buf_putf(&json,
                "{\"pre_tokenizer\":" LEVEL("false", "false") ",\"model\":{%s"
                "[[\"\\u0120\",\"\\u0120\"],[\"\\u0120\\u0120\",\"\\u0120\\u0120\"]]}}", spaces);
    expect_json(lk_buf_cstr(&json), "       ", "2 1 0");
    lk_buf_done(&json);
    refuse(PLAIN(ABC ",\"merges\":[\"a b\",[\"b\",\"c\"]]"), LK_INVALID_ARGUMENT,
           "$.model.merges[1]");
    refuse(PLAIN(ABC ",\"merges\":[\"a b c\"]"), LK_INVALID_ARGUMENT, "$.model.merges[0]");
    refuse(PLAIN(ABC ",\"merges\":[\"ab\"]"), LK_INVALID_ARGUMENT, "$.model.merges[0]");
    refuse(PLAIN(ABC ",\"merges\":[[\"a\",\"b\"],[\"a\",\"b\",\"c\"]]"), LK_INVALID_ARGUMENT,
           "$.model.merges[1]: expected 2 tokens, found 3");
}
END_TEST

START_TEST(dropout_truncation_and_padding_are_ignored_with_a_note) /* RC-023, RC-067 */
{
    struct lk_tokenizer *dropout =
        made(PLAIN(ABC ",\"merges\":[\"a b\"],\"dropout\":1.0"));
    expect(dropout, "ab", "3");
    ck_assert_ptr_nonnull(strstr(lk_tokenizer_notes(dropout), "dropout"));
    lk_tokenizer_free(dropout);

    struct lk_tokenizer *cut = made(
        FILE_OF("\"truncation\":{\"direction\":\"Right\",\"max_length\":3},"
                "\"padding\":{\"strategy\":{\"Fixed\":6},\"pad_id\":7},"
                "\"pre_tokenizer\":" LEVEL("false", "false"),
                "\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]"));
    expect(cut, "ababab", "0 1 0 1 0 1");
    expect(cut, "ab", "0 1");
    ck_assert_ptr_nonnull(strstr(lk_tokenizer_notes(cut), "truncation"));
    ck_assert_ptr_nonnull(strstr(lk_tokenizer_notes(cut), "padding"));
    lk_tokenizer_free(cut);
}
END_TEST

START_TEST(bytes_without_a_token_vanish_as_in_the_reference_and_are_noted)
{
    struct lk_tokenizer *tokenizer = made(PLAIN(ABC ",\"merges\":[\"a b\"]"));
    expect(tokenizer, "azb", "3");
    ck_assert_ptr_nonnull(strstr(lk_tokenizer_notes(tokenizer), "no token"));
    lk_tokenizer_free(tokenizer);
    expect_json(PLAIN(ABC ",\"merges\":[],\"unk_token\":\"c\""), "azb", "0 2 1");
    refuse(PLAIN(ABC ",\"merges\":[],\"unk_token\":\"z\""), LK_INVALID_ARGUMENT,
           "$.model: the unk_token \"z\" is not in the vocabulary");
}
END_TEST

/* ---- models of characters ---- */

#define CHARACTERS(rest, model) "{" rest "\"model\":{\"type\":\"BPE\"," model "}}"
#define UNKNOWN "\"vocab\":{\"a\":0,\"<unk>\":1,\"b\":2,\"ab\":3},\"merges\":[\"a b\"]"
#define FALLBACK "\"vocab\":{\"<unk>\":0,\"<0xC3>\":1,\"<0xA9>\":2,\"e\":3},\"merges\":[]"

START_TEST(rc_064_unknown_characters_fall_back_or_fuse_or_vanish)
{
    expect_json(CHARACTERS("", "\"vocab\":{\"a\":0},\"merges\":[]"), "aza", "0 0");
    expect_json(CHARACTERS("", UNKNOWN ",\"unk_token\":\"<unk>\",\"fuse_unk\":false"), "azza", "0 1 1 0");
    expect_json(CHARACTERS("", UNKNOWN ",\"unk_token\":\"<unk>\",\"fuse_unk\":true"), "azza", "0 1 0");
    struct lk_tokenizer *fallback =
        made(CHARACTERS("", FALLBACK ",\"unk_token\":\"<unk>\",\"byte_fallback\":true"));
    expect(fallback, "\u00e9", "1 2");
    expect(fallback, "e\u0301", "3 0");
    expect(fallback, "\u00e9e", "1 2 3");
    /* The reference writes an unknown token after the bytes that follow it, and fuses across them. */
    expect(fallback, "z\u00e9e", "1 2 0 3");
    lk_tokenizer_free(fallback);
    fallback = made(CHARACTERS("", FALLBACK ",\"unk_token\":\"<unk>\",\"byte_fallback\":true,\"fuse_unk\":true"));
    expect(fallback, "z\u00e9ze", "1 2 0 3");
    lk_tokenizer_free(fallback);
    refuse(CHARACTERS("", UNKNOWN ",\"unk_token\":\"<u>\""), LK_INVALID_ARGUMENT,
           "$.model: the unk_token \"<u>\" is not in the vocabulary");
}
END_TEST

START_TEST(characters_that_vanish_make_neighbours_of_others)
{
    struct lk_tokenizer *tokenizer =
        made(CHARACTERS("", "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]"));
    expect(tokenizer, "azb", "2");
    expect(tokenizer, "ba\u4e2d\u4e2dba", "1 2 0");
    ck_assert_ptr_nonnull(strstr(lk_tokenizer_notes(tokenizer), "left out"));
    lk_tokenizer_free(tokenizer);
}
END_TEST

START_TEST(prefix_space_goes_before_every_part_that_lacks_one)
{
    struct lk_tokenizer *tokenizer =
        made(FILE_OF("\"added_tokens\":[" ADDED(3, "[M]", FLAGS("false", "false", "false", "false"))
                     "],\"pre_tokenizer\":" LEVEL("false", "true"),
                     "\"vocab\":{\"\\u0120\":0,\"a\":1,\"b\":2},\"merges\":[]"));
    expect(tokenizer, "a[M]b[M] a", "0 1 3 0 2 3 0 1");
    expect(tokenizer, "", "");
    lk_tokenizer_free(tokenizer);
}
END_TEST

/* ---- added tokens ---- */

#define SPACE_A "\"vocab\":{\"\\u0120\":0,\"a\":1},\"merges\":[]"

START_TEST(added_tokens_swallow_spaces_as_they_say) /* RC-061 */
{
    expect_json(WITH_ADDED(ADDED(2, "[M]", FLAGS("false", "true", "false", "false")), SPACE_A),
                "a  [M]  a", "1 2 0 0 1");
    expect_json(WITH_ADDED(ADDED(2, "[M]", FLAGS("false", "false", "true", "false")), SPACE_A),
                "a  [M]  a", "1 0 0 2 1");
    expect_json(WITH_ADDED(ADDED(2, "[M]", FLAGS("false", "false", "false", "true")), SPACE_A),
                "a  [M]  a", "1 0 0 2 0 0 1");
}
END_TEST

START_TEST(single_words_and_overlaps_match_leftmost_longest) /* RC-062 */
{
    struct lk_tokenizer *words =
        made(WITH_ADDED(ADDED(5, "ab", FLAGS("true", "false", "false", "false")),
                        "\"vocab\":{\"\\u0120\":0,\"a\":1,\"b\":2,\"_\":3,\"-\":4},\"merges\":[]"));
    expect(words, "ab", "5");
    expect(words, "aab", "1 1 2");
    expect(words, "ab ab", "5 0 5");
    expect(words, "ab_", "1 2 3");
    expect(words, "ab-ab", "5 4 5");
    lk_tokenizer_free(words);
    struct lk_tokenizer *overlap =
        made(WITH_ADDED(ADDED(4, "<a>", FLAGS("false", "false", "false", "false")) ","
                        ADDED(5, "<a>b", FLAGS("false", "false", "false", "false")),
                        "\"vocab\":{\"<\":0,\"a\":1,\">\":2,\"b\":3},\"merges\":[]"));
    expect(overlap, "<a>b", "5");
    expect(overlap, "<a>a", "4 1");
    expect(overlap, "<<a>", "0 4");
    lk_tokenizer_free(overlap);
}
END_TEST

START_TEST(an_added_token_gets_the_reference_id_or_is_refused)
{
    refuse(WITH_ADDED(ADDED(7, "[M]", FLAGS("false", "false", "false", "false")), SPACE_A),
           LK_INVALID_ARGUMENT, "$.added_tokens[0]");
    refuse(WITH_ADDED(ADDED(2, "", FLAGS("false", "false", "false", "false")), SPACE_A),
           LK_INVALID_ARGUMENT, "$.added_tokens[0]");
    refuse(WITH_ADDED(ADDED(2, "[M]", FLAGS("false", "false", "false", "false")) ","
                      ADDED(2, "[M]", FLAGS("false", "false", "true", "false")), SPACE_A),
           LK_INVALID_ARGUMENT, "$.added_tokens[1]");
}
END_TEST

START_TEST(nfc_composes_before_bpe_and_only_if_asked) /* RC-065 */
{
    static const char model[] =
        "\"vocab\":{\"\\u00c3\\u00a9\":0,\"e\":1,\"\\u00cc\":2,\"\\u0123\":3,\"\\u00c3\":4,"
        "\"\\u00a9\":5},\"merges\":[\"\\u00c3 \\u00a9\"]";
    struct lk_buf json = {0};
    for (int on = 0; on < 2; on++) {
        json.len = 0;
        lk_buf_putf(&json, "{\"normalizer\":%s,\"pre_tokenizer\":" LEVEL("false", "false")
                    ",\"model\":{%s}}", on ? "{\"type\":\"NFC\"}" : "null", model);
        struct lk_tokenizer *tokenizer = made(lk_buf_cstr(&json));
        expect(tokenizer, "\u00e9", "0");
        expect(tokenizer, "e\u0301", on ? "0" : "1 2 3");
        lk_tokenizer_free(tokenizer);
    }
    lk_buf_done(&json);
}
END_TEST

/* ---- broken files ---- */

START_TEST(broken_files_are_refused_with_their_json_path) /* RC-058 */
{
    refuse(PLAIN("\"vocab\":{\"a\":0,\"b\":1},\"merges\":[\"a b\"]"), LK_INVALID_ARGUMENT,
           "$.model.merges[0]: the result \"ab\"");
    refuse(PLAIN("\"vocab\":{\"a\":0,\"ab\":1},\"merges\":[\"a b\"]"), LK_INVALID_ARGUMENT,
           "$.model.merges[0]: the part \"b\"");
    refuse(PLAIN("\"vocab\":{\"a\":-1},\"merges\":[]"), LK_INVALID_ARGUMENT, "$.model.vocab.a");
    refuse(PLAIN("\"vocab\":{\"a\":4294967295},\"merges\":[]"), LK_INVALID_ARGUMENT,
           "$.model.vocab.a");
    refuse(PLAIN("\"vocab\":{\"a\":16777215},\"merges\":[]"), LK_INVALID_ARGUMENT,
           "$.model: id 16777215 in a vocabulary of 1");
    refuse(PLAIN("\"vocab\":{\"a\":1.5},\"merges\":[]"), LK_INVALID_ARGUMENT, "$.model.vocab.a");
    refuse(PLAIN("\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]"), LK_INVALID_ARGUMENT, "\"b\"");
    refuse(PLAIN("\"vocab\":{\"a\":0,\"a\":1},\"merges\":[]"), LK_INVALID_ARGUMENT, "twice");
    refuse(PLAIN("\"vocab\":[\"a\"],\"merges\":[]"), LK_INVALID_ARGUMENT, "$.model.vocab");
    refuse(PLAIN("\"vocab\":{\"a\":0}"), LK_INVALID_ARGUMENT, "\"merges\"");
    refuse("", LK_INVALID_ARGUMENT, "");
    refuse("{", LK_INVALID_ARGUMENT, "");
    refuse("[]", LK_INVALID_ARGUMENT, "expected an object");
    refuse("{\"model\":{}}", LK_INVALID_ARGUMENT, "$.model");
    refuse(PLAIN("\"vocab\":{\"a\":0},\"merges\":[],\"a\\u0000b\":1"), LK_UNIMPLEMENTED, "unknown");
}
END_TEST

#define SOME_MODEL "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}"
#define WITH(component) "{" component "," SOME_MODEL "}"

START_TEST(unknown_components_are_refused_never_skipped) /* RC-058 */
{
    refuse("{\"pre_tokenizer\":" LEVEL("true", "false") ",\"model\":{\"type\":\"Unigram\"}}",
           LK_UNIMPLEMENTED, "$.model.type: a model of type \"Unigram\"");
    refuse("{\"pre_tokenizer\":" LEVEL("true", "false") ",\"model\":{\"type\":\"WordPiece\"}}",
           LK_UNIMPLEMENTED, "$.model.type: a model of type \"WordPiece\"");
    refuse("{\"model\":{\"vocab\":{\"a\":0},\"unk_token\":\"a\",\"type\":\"WordLevel\"}}",
           LK_UNIMPLEMENTED, "$.model.type: a model of type \"WordLevel\"");
    refuse(WITH("\"pre_tokenizer\":{\"type\":\"Nope\"}"), LK_UNIMPLEMENTED,
           "$.pre_tokenizer: a pre_tokenizer of type \"Nope\"");
    refuse("{\"pre_tokenizer\":null}", LK_INVALID_ARGUMENT, "expected a key \"model\"");
    refuse(WITH("\"normalizer\":{\"type\":\"Nope\"}"), LK_UNIMPLEMENTED,
           "$.normalizer: a normalizer of type \"Nope\"");
    refuse(WITH("\"decoder\":{\"type\":\"CTC\"}"), LK_UNIMPLEMENTED,
           "$.decoder: a decoder of type \"CTC\"");
    refuse(WITH("\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"No\"}]}"),
           LK_UNIMPLEMENTED, "$.decoder.decoders[1]: a decoder of type \"No\"");
    refuse(WITH("\"decoder\":{\"type\":\"Strip\",\"content\":\"a\",\"start\":1,\"stop\":0}"),
           LK_UNIMPLEMENTED, "$.decoder: stripping");
    refuse("{\"post_processor\":{\"type\":\"Nope\"}}", LK_UNIMPLEMENTED, "$.post_processor");
    refuse("{\"colour\":1}", LK_UNIMPLEMENTED, "$.colour");
    static const char before[] = "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":["
                                 "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"";
    static const char after[] =
        "\"},\"behavior\":\"Isolated\",\"invert\":false}]}," SOME_MODEL "}";
    struct lk_buf json = {0};
    static const struct {
        const char *pattern;
        enum lk_code code;
        const char *part;
    } patterns[] = {
        {"(", LK_INVALID_ARGUMENT, "a group without an end at byte 0"},
        {"a(?<=a)b", LK_UNIMPLEMENTED, "this kind of group at byte 1"},
        {"\\\\bx", LK_UNIMPLEMENTED, "an escape at byte 0"},
    };
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        json.len = 0;
        lk_buf_puts(&json, before);
        lk_buf_puts(&json, patterns[i].pattern);
        lk_buf_puts(&json, after);
        refuse(lk_buf_cstr(&json), patterns[i].code,
               "$.pre_tokenizer.pretokenizers[0].pattern.Regex: ");
        refuse(lk_buf_cstr(&json), patterns[i].code, patterns[i].part);
    }
    lk_buf_done(&json);
}
END_TEST

/* Each step feeds the next: sixteen of them could make a text of any length. */
START_TEST(replacing_multiplies_the_length_of_a_text_by_256_at_most)
{
#define TO_16 "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aaaaaaaaaaaaaaaa\"}"
#define STEPS(steps) WITH("\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[" steps "]}")
    lk_tokenizer_free(made(STEPS(TO_16 "," TO_16)));
    refuse(STEPS(TO_16 "," TO_16 "," TO_16), LK_UNIMPLEMENTED,
           "$.normalizer.normalizers[2]: replacing that makes a text more than 256 times as long");
}
END_TEST

START_TEST(deep_nesting_and_every_truncation_are_errors) /* RC-058 */
{
    static const char whole[] = WITH_ADDED(
        ADDED(6, "[M]", FLAGS("false", "true", "false", "true")), ABC ",\"merges\":[[\"a\",\"b\"]]");
    struct lk_err err;
    for (size_t n = 0; n < sizeof whole - 1; n++) {
        struct lk_tokenizer *tokenizer = NULL;
        uint8_t *exact = lk_alloc(n + 1); /* of the exact size for sanitizers, but for n = 0 */
        memcpy(exact, whole, n);
        struct lk_tokenizer_files files = {
            .kind = LK_TOKENIZER_HF, .main = exact, .main_bytes = n, .main_name = "t.json"};
        ck_assert(lk_tokenizer_new(&files, &tokenizer, &err) == LK_INVALID_ARGUMENT);
        free(exact);
    }
    size_t n = 4u << 20;
    char *deep = lk_alloc(n + 1);
    memset(deep, '[', n);
    deep[n] = '\0';
    refuse(deep, LK_INVALID_ARGUMENT, "");
    memcpy(deep, "{\"version\":", 11);
    refuse(deep, LK_INVALID_ARGUMENT, "$.version");
    free(deep);
}
END_TEST

START_TEST(damaged_files_are_refused_or_give_a_tokenizer_that_works) /* RC-058 */
{
    static const char whole[] = FILE_OF(
        "\"truncation\":null,\"normalizer\":{\"type\":\"NFC\"},\"added_tokens\":["
        ADDED(6, "[M]", FLAGS("true", "true", "true", "true")) "],\"decoder\":null,\"pre_tokenizer\":"
        LEVEL("true", "true"), ABC ",\"merges\":[[\"a\",\"b\"],[\"ab\",\"c\"]],\"unk_token\":null");
    static const char bytes[] = "{}[]\",:\\0123456789aebnulltruefalse\x80\xff ";
    struct lk_err err;
    uint32_t state = 1;
    unsigned loaded = 0;

    for (size_t round = 0; round < 1500; round++) {
        struct lk_tokenizer *tokenizer = NULL;
        char json[sizeof whole];
        memcpy(json, whole, sizeof whole);
        for (size_t i = 0; i <= round % 3; i++) {
            state = state * 1664525u + 1013904223u;
            json[(state >> 8) % (sizeof whole - 1)] = bytes[(state >> 4) % (sizeof bytes - 1)];
        }
        if (load_as(json, LK_SPECIAL_SPLIT, &tokenizer, &err) == LK_OK) {
            free(ids_of(tokenizer, "abc [M] e\314\201 ab", 15));
            loaded++;
        }
        lk_tokenizer_free(tokenizer);
    }
    ck_assert_uint_gt(loaded, 0);
    ck_assert_uint_lt(loaded, 1500);
}
END_TEST

/* ---- names, bytes, digests ---- */

/* RC-055, RC-058: what the reference makes of lists that training would not write. */
START_TEST(odd_merge_lists_mean_what_the_reference_takes_them_for)
{
    /* Twice the same pair: the last rank counts. */
    expect_json(PLAIN(ABC ",\"merges\":[\"a b\",\"b c\",\"a b\"]"), "abc", "0 5");
    /* A result that its own bytes never become, and one that is a token of the file twice over. */
    expect_json(PLAIN(ABC ",\"merges\":[\"b c\",\"a b\",\"ab c\"]"), "abc", "0 5");
    expect_json(PLAIN(ABC ",\"merges\":[\"a bc\",\"b c\",\"ab c\"]"), "abc", "4");
    /* An empty part never meets anything. */
    expect_json(PLAIN("\"vocab\":{\"\":0,\"a\":1},\"merges\":[[\"\",\"a\"]]"), "aa", "1 1");
}
END_TEST

/* RC-086: ids do not wrap at 16 bits, and holes between them are none of the vocabulary. */
START_TEST(ids_beyond_sixteen_bits_come_out_as_they_are)
{
    struct lk_tokenizer *tokenizer = made(
        PLAIN("\"vocab\":{\"a\":65535,\"b\":65536,\"c\":65552,\"bc\":65540},\"merges\":[\"b c\"]"));
    size_t n = 0;
    expect(tokenizer, "abcab", "65535 65540 65535 65536");
    ck_assert_uint_eq(lk_tokenizer_vocab(tokenizer), 65553);
    ck_assert_ptr_nonnull(lk_tokenizer_bytes(tokenizer, 65540, &n));
    ck_assert_ptr_null(lk_tokenizer_bytes(tokenizer, 0, &n));
    ck_assert_ptr_null(lk_tokenizer_bytes(tokenizer, 65553, &n));
    lk_tokenizer_free(tokenizer);
}
END_TEST

START_TEST(the_parts_of_a_file_may_stand_in_any_order)
{
    expect_json("{\"model\":{\"merges\":[[\"b\",\"c\"],[\"a\",\"b\"]]," ABC ",\"type\":\"BPE\"},"
                "\"pre_tokenizer\":" LEVEL("false", "false") "}", "abc", "0 5");
    refuse("{\"model\":{\"merges\":[[\"b\",\"c\"],[\"a\",\"z\"]]," ABC ",\"type\":\"BPE\"},"
           "\"pre_tokenizer\":" LEVEL("false", "false") "}", LK_INVALID_ARGUMENT,
           "$.model.merges[1]: the part \"z\"");
    refuse("{\"model\":{\"merges\":[[\"b\",\"z\"],[\"a\"]]," ABC "}}", LK_INVALID_ARGUMENT,
           "$.model.merges[0]: the part \"z\"");
    refuse("{\"model\":{" ABC ",\"merges\":[[\"b\",\"c\"],[\"b\",\"z\"],[\"a\"]]}}", LK_INVALID_ARGUMENT,
           "$.model.merges[1]: the part \"z\"");
    refuse("{\"model\":{" ABC ",\"merges\":[[\"b\",\"c\"],[\"a\"],[\"b\",\"z\"]]}}", LK_INVALID_ARGUMENT,
           "$.model.merges[1]: expected 2 tokens, found 1");
}
END_TEST

START_TEST(the_bytes_tokenizer_is_its_bytes)
{
    struct lk_tokenizer_files files = {.kind = LK_TOKENIZER_BYTES};
    struct lk_tokenizer *split = NULL, *text = NULL;
    struct lk_err err;
    uint32_t id = 0;
    size_t n = 0;

    ck_assert(lk_tokenizer_new(&files, &split, &err) == LK_OK);
    files.special_in_text = LK_SPECIAL_TEXT;
    ck_assert(lk_tokenizer_new(&files, &text, &err) == LK_OK);
    expect_n(split, "a\0\xc3\xa9", 4, "97 0 195 169");
    expect(split, "a<|endoftext|>b", "97 256 98");
    expect(text, "<|e", "60 124 101");
    expect(text, "<|endoftext|>", "60 124 101 110 100 111 102 116 101 120 116 124 62");
    ck_assert_uint_eq(lk_tokenizer_vocab(split), 257);
    ck_assert(lk_tokenizer_find(split, "eos", &id, &err) == LK_OK && id == 256);
    ck_assert(lk_tokenizer_find(split, "bos", &id, &err) == LK_NOT_FOUND);
    ck_assert_ptr_null(lk_tokenizer_bytes(split, 257, &n));
    ck_assert_mem_eq(lk_tokenizer_bytes(split, 256, &n), "<|endoftext|>", 13);
    ck_assert(!lk_digest_equal(lk_tokenizer_digest(split), lk_tokenizer_digest(text)));
    ck_assert_str_eq(lk_tokenizer_notes(split), "");
    lk_tokenizer_free(split);
    lk_tokenizer_free(text);
}
END_TEST

/* How many special tokens an encoder counts in the text; asked twice, as the count is a running one. */
static uint64_t specials_in(const struct lk_tokenizer *tokenizer, const char *text)
{
    struct lk_encoder *encoder = lk_encoder_new(tokenizer);
    struct lk_tokens ids = {0};
    lk_encode(encoder, (const uint8_t *)text, strlen(text), &ids);
    uint64_t once = lk_encoder_specials(encoder);
    lk_encode(encoder, (const uint8_t *)text, strlen(text), &ids);
    ck_assert_uint_eq(lk_encoder_specials(encoder), 2 * once);
    lk_tokens_done(&ids);
    lk_encoder_free(encoder);
    return once;
}

#define SPECIAL(id, text, flags)                                                                   \
    "{\"id\":" #id ",\"content\":\"" text "\"," flags ",\"special\":true}"

START_TEST(special_tokens_in_text_are_counted_split_or_not) /* RC-059 */
{
    static const char json[] =
        WITH_ADDED(SPECIAL(2, "[S]", FLAGS("false", "false", "false", "false")) ","
                   SPECIAL(3, "[N]", FLAGS("false", "false", "false", "true")) ","
                   SPECIAL(4, "W", FLAGS("true", "false", "false", "false")) ","
                   ADDED(5, "[M]", FLAGS("false", "false", "false", "false")),
                   "\"vocab\":{\"\u0120\":0,\"a\":1},\"merges\":[]");
    static const struct {
        const char *text;
        uint64_t want;
    } cases[] = {
        {"", 0},     {"a a", 0},  {"[S", 0},         {"[M]", 0}, /* added, but not special */
        {"[S]", 1},  {"a[N]", 1}, {"[S]a[N][S]", 3}, {"aW", 0},  /* no word of its own */
        {"a W a", 1},
    };
    for (int mode = LK_SPECIAL_SPLIT; mode <= LK_SPECIAL_TEXT; mode++) {
        struct lk_tokenizer *bytes = NULL, *hf = NULL;
        struct lk_tokenizer_files files = {.kind = LK_TOKENIZER_BYTES,
                                           .special_in_text = (enum lk_special_in_text)mode};
        struct lk_err err;
        ck_assert(lk_tokenizer_new(&files, &bytes, &err) == LK_OK);
        ck_assert_uint_eq(specials_in(bytes, "a<|endoftext|>b"), 1);
        ck_assert_uint_eq(specials_in(bytes, "a<|endoftext|><|endoftext|>"), 2);
        ck_assert_uint_eq(specials_in(bytes, "plain <|endoftext|"), 0);
        lk_tokenizer_free(bytes);
        ck_assert_msg(load_as(json, (enum lk_special_in_text)mode, &hf, &err) == LK_OK, "%s", err.text);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            ck_assert_msg(specials_in(hf, cases[i].text) == cases[i].want, "\"%s\"", cases[i].text);
        lk_tokenizer_free(hf);
    }
}
END_TEST

START_TEST(a_refused_document_names_its_first_special_token) /* RC-059, special_in_text: error */
{
    static const char json[] = FILE_OF(
        "\"normalizer\":{\"type\":\"NFC\"},\"added_tokens\":["
        SPECIAL(2, "[S]", FLAGS("false", "true", "true", "false")) ","
        SPECIAL(3, "[N]", FLAGS("false", "false", "false", "true")) ","
        SPECIAL(4, "W", FLAGS("true", "false", "false", "false")) ","
        ADDED(5, "[M]", FLAGS("false", "false", "false", "false")) "],"
        "\"pre_tokenizer\":" LEVEL("false", "false"), "\"vocab\":{\"\u0120\":0,\"a\":1},\"merges\":[]");
    static const struct {
        const char *text;
        uint32_t id; /* 0: none */
        size_t at;
    } cases[] = {
        {"a[S]a[N]", 2, 1},  {"a[N]a[S]", 3, 1}, {"a  [S]  [N]", 2, 3}, {"", 0, 0},
        {"aa [M] aW", 0, 0}, {"a [M]aa[N]", 3, 7}, {"a W", 4, 2},
        {"[M]e\u0301a[N]", 3, 3}, /* in a stretch that NFC changes: where it begins */
        {"e\u0301a[S][N]", 2, 4},  /* that one is looked for before */
    };
    for (int mode = LK_SPECIAL_SPLIT; mode <= LK_SPECIAL_ERROR; mode++) {
        struct lk_tokenizer *hf = NULL;
        struct lk_err err;
        struct lk_tokens ids = {0};
        uint32_t id;
        size_t at;
        ck_assert_msg(load_as(json, (enum lk_special_in_text)mode, &hf, &err) == LK_OK, "%s", err.text);
        struct lk_encoder *encoder = lk_encoder_new(hf);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            lk_encode(encoder, (const uint8_t *)cases[i].text, strlen(cases[i].text), &ids);
            bool refused = lk_encoder_refuses(encoder, &id, &at);
            ck_assert_msg(refused == (mode == LK_SPECIAL_ERROR && cases[i].id != 0), "%s", cases[i].text);
            if (refused)
                ck_assert_msg(id == cases[i].id && at == cases[i].at, "%s: %u at %zu", cases[i].text, id, at);
        }
        lk_encoder_free(encoder);
        lk_tokens_done(&ids);
        lk_tokenizer_free(hf);
    }
}
END_TEST

/* Text between matches would be lost: such a file is read only when there can be none. o200k's pattern ends
 * in a group that may be left out. */
START_TEST(text_between_matches_is_never_lost)
{
    static const struct {
        const char *pattern;
        bool read;
    } cases[] = {
        {"[^a]+|a(?:b|c)?", true}, {"[^a]+|(?:b|c)?a", true}, {"[^a]+|a(?:b(?!c))?", true},
        {"[^a]+|a(?:b|c)", false}, {"[^a]+|a(?!b)", false},   {"[^a]+", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *json = lk_format(FILE_OF("\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":["
                                       "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"%s\"},"
                                       "\"behavior\":\"Removed\",\"invert\":true}," LEVEL("false", "false") "]}",
                                       "\"vocab\":{\"\u0120\":0,\"a\":1},\"merges\":[]"),
                               cases[i].pattern);
        struct lk_tokenizer *tokenizer = NULL;
        struct lk_err err = {.text = ""};
        enum lk_code code = load_as(json, LK_SPECIAL_SPLIT, &tokenizer, &err);
        ck_assert_msg(code == (cases[i].read ? LK_OK : LK_UNIMPLEMENTED), "%s: %s", cases[i].pattern, err.text);
        ck_assert(cases[i].read || strstr(err.text, "would be lost") != NULL);
        lk_tokenizer_free(tokenizer);
        free(json);
    }
}
END_TEST

static const char two_ends[] =
    WITH_ADDED(ADDED(2, "<|endoftext|>", FLAGS("false", "false", "false", "false")) ","
               ADDED(3, "</s>", FLAGS("false", "false", "false", "false")), SPACE_A);

static enum lk_code find_with(const char *config, const char *name, uint32_t *ret_id,
                              struct lk_err *err)
{
    struct lk_tokenizer_files files = {.kind = LK_TOKENIZER_HF,
                                       .main = (const uint8_t *)two_ends,
                                       .main_bytes = sizeof two_ends - 1,
                                       .main_name = "t.json",
                                       .config = (const uint8_t *)config,
                                       .config_bytes = config == NULL ? 0 : strlen(config),
                                       .config_name = "c.json"};
    struct lk_tokenizer *tokenizer = NULL;
    enum lk_code code = lk_tokenizer_new(&files, &tokenizer, err);
    if (code == LK_OK)
        code = lk_tokenizer_find(tokenizer, name, ret_id, err);
    lk_tokenizer_free(tokenizer);
    return code;
}

START_TEST(eos_and_bos_are_what_the_configuration_says)
{
    struct lk_err err;
    uint32_t id = 9;

    ck_assert(find_with("{\"eos_token\":\"</s>\"}", "eos", &id, &err) == LK_OK && id == 3);
    ck_assert(find_with("{\"eos_token\":{\"content\":\"<|endoftext|>\",\"lstrip\":false}}", "eos",
                        &id, &err) == LK_OK && id == 2);
    ck_assert(find_with("{\"bos_token\":null}", "bos", &id, &err) == LK_NOT_FOUND);
    ck_assert(find_with("{\"eos_token\":\"<end>\"}", "eos", &id, &err) == LK_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.text, "<end>"));
    ck_assert(find_with(NULL, "eos", &id, &err) == LK_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.text, "<|endoftext|>, </s>"));
    ck_assert(find_with(NULL, "</s>", &id, &err) == LK_OK && id == 3);
    ck_assert(find_with(NULL, " ", &id, &err) == LK_OK && id == 0);
    ck_assert(find_with(NULL, "nothing", &id, &err) == LK_NOT_FOUND);
    ck_assert(find_with("{\"eos_token\":", "eos", &id, &err) == LK_INVALID_ARGUMENT);
    ck_assert(strncmp(err.text, "c.json: ", 8) == 0);
    ck_assert(find_with("[]", "eos", &id, &err) == LK_INVALID_ARGUMENT);
}
END_TEST

START_TEST(the_digest_follows_ids_and_not_chat_templates)
{
    static const char model[] = PLAIN(ABC ",\"merges\":[]");
    static const char other[] = PLAIN(ABC ",\"merges\":[\"a b\"]");
    struct lk_tokenizer *a = made(model), *b = made(model), *c = made(other);
    ck_assert(lk_digest_equal(lk_tokenizer_digest(a), lk_tokenizer_digest(b)));
    ck_assert(!lk_digest_equal(lk_tokenizer_digest(a), lk_tokenizer_digest(c)));
    lk_tokenizer_free(a);
    lk_tokenizer_free(b);
    lk_tokenizer_free(c);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("op/tokenizer");
    TCase *t = tcase_create("tokenizer");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, merges_go_by_rank_and_leftmost_among_equals);
    tcase_add_test(t, long_pieces_merge_like_short_ones);
    tcase_add_test(t, ignore_merges_takes_whole_words_from_the_vocabulary);
    tcase_add_test(t, merges_may_be_pairs_or_strings_and_nothing_else);
    tcase_add_test(t, dropout_truncation_and_padding_are_ignored_with_a_note);
    tcase_add_test(t, bytes_without_a_token_vanish_as_in_the_reference_and_are_noted);
    tcase_add_test(t, rc_064_unknown_characters_fall_back_or_fuse_or_vanish);
    tcase_add_test(t, characters_that_vanish_make_neighbours_of_others);
    tcase_add_test(t, the_parts_of_a_file_may_stand_in_any_order);
    tcase_add_test(t, odd_merge_lists_mean_what_the_reference_takes_them_for);
    tcase_add_test(t, ids_beyond_sixteen_bits_come_out_as_they_are);
    tcase_add_test(t, prefix_space_goes_before_every_part_that_lacks_one);
    tcase_add_test(t, added_tokens_swallow_spaces_as_they_say);
    tcase_add_test(t, single_words_and_overlaps_match_leftmost_longest);
    tcase_add_test(t, an_added_token_gets_the_reference_id_or_is_refused);
    tcase_add_test(t, nfc_composes_before_bpe_and_only_if_asked);
    tcase_add_test(t, broken_files_are_refused_with_their_json_path);
    tcase_add_test(t, unknown_components_are_refused_never_skipped);
    tcase_add_test(t, replacing_multiplies_the_length_of_a_text_by_256_at_most);
    tcase_add_test(t, deep_nesting_and_every_truncation_are_errors);
    tcase_add_test(t, damaged_files_are_refused_or_give_a_tokenizer_that_works);
    tcase_add_test(t, the_bytes_tokenizer_is_its_bytes);
    tcase_add_test(t, special_tokens_in_text_are_counted_split_or_not);
    tcase_add_test(t, a_refused_document_names_its_first_special_token);
    tcase_add_test(t, text_between_matches_is_never_lost);
    tcase_add_test(t, eos_and_bos_are_what_the_configuration_says);
    tcase_add_test(t, the_digest_follows_ids_and_not_chat_templates);
    suite_add_tcase(s, t);
    return s;
}
