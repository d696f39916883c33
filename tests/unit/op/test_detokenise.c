/* Ids back to bytes, and what is told of a tokenizer. */
#include "op/tokenise/describe.h"
#include "op/tokenise/detokenise.h"
#include "tests/lib/check_main.h"

#include <stdlib.h>
#include <string.h>

/* Characters as in SentencePiece's files: 0 to 2 special, bytes, a mark, letters, one merge, an added token
 * of two marks, and a hole before it. */
static const char pieces_json[] =
    "{\"added_tokens\":["
    "{\"id\":0,\"content\":\"<unk>\",\"special\":true,\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false},"
    "{\"id\":1,\"content\":\"<s>\",\"special\":true,\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false},"
    "{\"id\":2,\"content\":\"</s>\",\"special\":true,\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false},"
    "{\"id\":9,\"content\":\"\u2581\u2581\u2581\",\"special\":false,\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false}],"
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"\u2581\"},"
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\u2581\"}]},"
    "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"\u2581\"},\"content\":\" \"},"
    "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]},"
    "\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"fuse_unk\":true,\"byte_fallback\":true,"
    "\"vocab\":{\"<unk>\":0,\"<s>\":1,\"</s>\":2,\"<0xC3>\":3,\"<0xA9>\":4,\"\u2581\":5,\"a\":6,\"\u2581a\":7,"
    "\"\u2581\u2581\u2581\":9},\"merges\":[\"\u2581 a\"]}}";

static struct lk_tokenizer *pieces, *bytes;

static void setup(void)
{
    struct lk_tokenizer_files files = {.kind = LK_TOKENIZER_BYTES, .main_name = "bytes"};
    struct lk_err err;
    ck_assert_msg(lk_tokenizer_new(&files, &bytes, &err) == LK_OK, "%s", err.text);
    files = (struct lk_tokenizer_files){.kind = LK_TOKENIZER_HF,
                                        .main = (const uint8_t *)pieces_json,
                                        .main_bytes = sizeof pieces_json - 1,
                                        .main_name = "t.json"};
    ck_assert_msg(lk_tokenizer_new(&files, &pieces, &err) == LK_OK, "%s", err.text);
}

static void teardown(void)
{
    lk_tokenizer_free(pieces);
    lk_tokenizer_free(bytes);
}

/* The text of ids, cut into calls after every @step of them; the caller frees. */
static char *text_of(const struct lk_tokenizer *tokenizer, bool skip, const uint32_t *ids, size_t n,
                     size_t step)
{
    struct lk_detokeniser *d = lk_detokeniser_new(tokenizer, skip);
    struct lk_buf out = {0};
    struct lk_err err;
    size_t bad;
    for (size_t i = 0; i < n; i += step) {
        size_t some = n - i < step ? n - i : step;
        ck_assert_int_eq(lk_detokenise(d, ids + i, some, &out, &bad, &err), LK_OK);
    }
    lk_detokeniser_free(d);
    char *text = lk_strndup(lk_buf_cstr(&out), out.len);
    lk_buf_done(&out);
    return text;
}

static const struct {
    uint32_t ids[6];
    size_t n;
    const char *text, *skipped; /* skipped: without special tokens */
} cases[] = {
    {{0}, 0, "", ""},
    {{7}, 1, "a", "a"},
    {{5, 7}, 2, " a", " a"},         /* one space was put there, the other one not */
    {{6, 7}, 2, "a a", "a a"},
    {{1, 7, 2}, 3, "<s> a</s>", "a"}, /* the space belongs to the beginning, or it does not */
    {{7, 3, 4}, 3, "a\xc3\xa9", "a\xc3\xa9"},
    {{9, 6}, 2, "  a", "  a"},
    {{5}, 1, "", ""},
    {{2, 2}, 2, "</s></s>", ""},
};

/* The expected texts are the reference library's. */
START_TEST(ids_become_the_text_that_the_file_says_however_they_are_cut)
{
    for (size_t step = 1; step <= 3; step++) {
        char *whole = text_of(pieces, false, cases[_i].ids, cases[_i].n, step);
        char *plain = text_of(pieces, true, cases[_i].ids, cases[_i].n, step);
        ck_assert_str_eq(whole, cases[_i].text);
        ck_assert_str_eq(plain, cases[_i].skipped);
        free(whole);
        free(plain);
    }
}
END_TEST

START_TEST(every_document_begins_anew)
{
    struct lk_detokeniser *d = lk_detokeniser_new(pieces, false);
    struct lk_buf out = {0};
    struct lk_err err;
    static const uint32_t ids[] = {7, 7};
    size_t bad;
    ck_assert_int_eq(lk_detokenise(d, ids, 2, &out, &bad, &err), LK_OK);
    lk_detokeniser_begin(d);
    ck_assert_int_eq(lk_detokenise(d, ids, 2, &out, &bad, &err), LK_OK);
    ck_assert_str_eq(lk_buf_cstr(&out), "a aa a");
    lk_detokeniser_free(d);
    lk_buf_done(&out);
}
END_TEST

START_TEST(an_id_without_a_token_is_named_and_what_came_before_is_kept)
{
    static const struct {
        uint32_t ids[3];
        size_t bad;
        enum lk_code code;
        const char *text, *before;
    } wrong[] = {
        {{6, 10, 6}, 1, LK_OUT_OF_RANGE, "id 10: expected one below 10, the size of the vocabulary", "a"},
        {{UINT32_MAX, 6, 6}, 0, LK_OUT_OF_RANGE, "id 4294967295: expected one below 10", ""},
        {{6, 6, 8}, 2, LK_NOT_FOUND, "id 8: no token has it: it is a hole in the vocabulary", "aa"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct lk_detokeniser *d = lk_detokeniser_new(pieces, i % 2 == 0);
        struct lk_buf out = {0};
        struct lk_err err;
        size_t bad = 99;
        ck_assert_int_eq(lk_detokenise(d, wrong[i].ids, 3, &out, &bad, &err), wrong[i].code);
        ck_assert_uint_eq(bad, wrong[i].bad);
        ck_assert_ptr_nonnull(strstr(err.text, wrong[i].text));
        ck_assert_str_eq(lk_buf_cstr(&out), wrong[i].before);
        lk_detokeniser_free(d);
        lk_buf_done(&out);
    }
}
END_TEST

START_TEST(bytes_are_themselves)
{
    uint32_t ids[257];
    struct lk_detokeniser *d = lk_detokeniser_new(bytes, true);
    struct lk_buf out = {0};
    struct lk_err err;
    size_t bad;
    for (uint32_t i = 0; i < 257; i++)
        ids[i] = 256 - i;
    ck_assert_int_eq(lk_detokenise(d, ids, 257, &out, &bad, &err), LK_OK);
    ck_assert_uint_eq(out.len, 256);
    for (size_t i = 0; i < 256; i++)
        ck_assert_uint_eq(out.data[i], 255 - i);
    lk_detokeniser_free(d);
    lk_buf_done(&out);
}
END_TEST

START_TEST(a_tokenizer_is_told_as_it_is)
{
    struct lk_tokenizer_facts facts;
    lk_tokenizer_facts(pieces, &facts);
    ck_assert_int_eq(facts.kind, LK_TOKENIZER_HF);
    ck_assert_int_eq(facts.special_in_text, LK_SPECIAL_SPLIT);
    ck_assert_uint_eq(facts.vocab, 10);
    ck_assert_uint_eq(facts.tokens, 9);
    ck_assert_uint_eq(facts.added, 4);
    ck_assert_uint_eq(facts.special, 3);
    struct lk_tokenizer_added token = lk_tokenizer_added(pieces, 3);
    ck_assert(token.id == 9 && token.n == 9 && !token.special && !token.lstrip);
    ck_assert(lk_tokenizer_added(pieces, 2).special);
    lk_tokenizer_facts(bytes, &facts);
    ck_assert_int_eq(facts.kind, LK_TOKENIZER_BYTES);
    ck_assert(facts.vocab == 257 && facts.tokens == 257 && facts.added == 1 && facts.special == 1);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("op/detokenise");
    TCase *t = tcase_create("detokenise");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, ids_become_the_text_that_the_file_says_however_they_are_cut, 0,
                        (int)(sizeof cases / sizeof *cases));
    tcase_add_test(t, every_document_begins_anew);
    tcase_add_test(t, an_id_without_a_token_is_named_and_what_came_before_is_kept);
    tcase_add_test(t, bytes_are_themselves);
    tcase_add_test(t, a_tokenizer_is_told_as_it_is);
    suite_add_tcase(s, t);
    return s;
}
