/* Files of ranks (.tiktoken), made here: tiktoken's rule of merging, and what is refused with its line. */
#include "base/mem.h"
#include "op/tokenise/tokenizer.h"
#include "tests/lib/check_main.h"
#include "tests/lib/expect_ids.h"

#include <string.h>

/* One line of a .tiktoken file. */
static void put_rank(struct lk_buf *out, const char *bytes, size_t n, unsigned rank)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < n; i += 3) {
        uint8_t part[3] = {0};
        memcpy(part, bytes + i, n - i < 3 ? n - i : 3);
        uint32_t bits = (uint32_t)part[0] << 16 | (uint32_t)part[1] << 8 | part[2];
        lk_buf_putf(out, "%c%c%c%c", digits[bits >> 18], digits[bits >> 12 & 63],
                    n - i < 2 ? '=' : digits[bits >> 6 & 63], n - i < 3 ? '=' : digits[bits & 63]);
    }
    lk_buf_putf(out, " %u\n", rank);
}

static void put_bytes(struct lk_buf *out, unsigned first)
{
    for (unsigned b = first; b < 256; b++) {
        char byte = (char)b;
        put_rank(out, &byte, 1, b);
    }
}

static enum lk_code load_ranks(const char *scheme, struct lk_buf *ranks,
                               struct lk_tokenizer **ret_tokenizer, struct lk_err *err)
{
    struct lk_tokenizer_files files = {.kind = LK_TOKENIZER_TIKTOKEN,
                                       .main = ranks->data,
                                       .main_bytes = ranks->len,
                                       .main_name = "t.tiktoken",
                                       .scheme = scheme};
    return lk_tokenizer_new(&files, ret_tokenizer, err);
}

START_TEST(ranks_look_a_piece_up_and_merge_by_what_is_made)
{
    struct lk_buf ranks = {0};
    struct lk_tokenizer *tokenizer = NULL;
    struct lk_err err;
    uint32_t id = 0;

    put_bytes(&ranks, 0);
    put_rank(&ranks, "ab", 2, 256);
    put_rank(&ranks, "bc", 2, 257);
    put_rank(&ranks, "abcd", 4, 258); /* no two tokens make it */
    put_rank(&ranks, "bcb", 3, 259);  /* two ways make it: bc b, and never b cb */
    ck_assert_msg(load_ranks("gpt2", &ranks, &tokenizer, &err) == LK_OK, "%s", err.text);
    expect(tokenizer, "abcd", "258");
    expect(tokenizer, " abcd", "32 256 99 100");
    expect(tokenizer, "bcab", "257 256");
    expect(tokenizer, "bcbc", "257 257"); /* 257 goes before 259, the leftmost first */
    expect(tokenizer, "bcbb", "259 98");
    expect(tokenizer, "a<|endoftext|>b", "97 50256 98");
    ck_assert(lk_tokenizer_find(tokenizer, "eos", &id, &err) == LK_OK && id == 50256);
    ck_assert_uint_eq(lk_tokenizer_vocab(tokenizer), 50257);
    ck_assert_ptr_nonnull(strstr(lk_tokenizer_notes(tokenizer), "tiktoken's rule"));
    lk_tokenizer_free(tokenizer);
    lk_buf_done(&ranks);
}
END_TEST

/* Whole pieces are tokens, so that ids show where text was cut. */
START_TEST(cl100k_by_ranks_ends_a_text_with_one_piece_of_spaces)
{
    struct lk_buf ranks = {0};
    struct lk_tokenizer *tokenizer = NULL;
    struct lk_err err;

    put_bytes(&ranks, 0);
    put_rank(&ranks, "\n ", 2, 256);
    put_rank(&ranks, "\n  ", 3, 257);
    put_rank(&ranks, "!\n", 2, 258);
    put_rank(&ranks, "  ", 2, 259);
    ck_assert_msg(load_ranks("cl100k_base", &ranks, &tokenizer, &err) == LK_OK, "%s", err.text);
    expect(tokenizer, "a\n  ", "97 257");
    expect(tokenizer, "\n  ", "257");
    expect(tokenizer, "a\n  a", "97 10 32 32 97"); /* "\n", " ", " a" */
    expect(tokenizer, "a!\n  ", "97 258 259");
    expect(tokenizer, "\n  <|endoftext|>\n ", "257 100257 256"); /* a special token ends it, too */
    struct lk_buf text = {0}, want = {0};
    for (size_t n = 250; n < 262; n++) { /* pieces are found 256 at a time */
        text.len = want.len = 0;
        for (size_t i = 0; i < n; i++) {
            lk_buf_puts(&text, "a!");
            lk_buf_puts(&want, "97 33 ");
        }
        lk_buf_puts(&text, "a\n  ");
        lk_buf_puts(&want, "97 257");
        expect_n(tokenizer, (const char *)text.data, text.len, lk_buf_cstr(&want));
    }
    lk_buf_done(&text);
    lk_buf_done(&want);
    lk_tokenizer_free(tokenizer);
    lk_buf_done(&ranks);
}
END_TEST

START_TEST(broken_ranks_are_refused_with_their_line)
{
    static const struct {
        const char *line, *part;
    } cases[] = {
        {"YWI=", "t.tiktoken:257: expected a token in base64, a space and its rank"},
        {"YWI= x", "t.tiktoken:257: expected"},
        {"YWI= 256 1", "t.tiktoken:257: expected"},
        {"YWI= -1", "t.tiktoken:257: expected"},
        {"YWI= ", "t.tiktoken:257: expected"},
        {"YWI 256", "t.tiktoken:257: the token is not base64"},
        {"YW*= 256", "t.tiktoken:257: the token is not base64"},
        {"Y=I= 256", "t.tiktoken:257: the token is not base64"},
        {"==== 256", "t.tiktoken:257: the token is not base64"},
        {" 256", "t.tiktoken:257: the token is not base64"},
        {"YQ== 256", "t.tiktoken:257: the token \"a\" is given twice"},
        {"YWI= 97", "has the id 97 of another token"},
        {"YWI= 16777216", "t.tiktoken:257: id 16777216"},
        {"YWI= 50256", "the rank 50256, which is <|endoftext|> in this scheme"},
    };
    struct lk_tokenizer *tokenizer = NULL;
    struct lk_buf ranks = {0};
    struct lk_err err;

    put_bytes(&ranks, 0);
    size_t bytes = ranks.len;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ranks.len = bytes;
        lk_buf_puts(&ranks, cases[i].line);
        ck_assert_msg(load_ranks("r50k_base", &ranks, &tokenizer, &err) == LK_INVALID_ARGUMENT, "%s",
                      cases[i].line);
        ck_assert_msg(strstr(err.text, cases[i].part) != NULL, "%s: %s", cases[i].line, err.text);
    }
    ranks.len = bytes;
    lk_buf_puts(&ranks, "YWFh");
    for (int i = 0; i < 341; i++) /* 1,026 bytes */
        lk_buf_puts(&ranks, "YWFh");
    lk_buf_puts(&ranks, " 256\n");
    ck_assert(load_ranks("r50k_base", &ranks, &tokenizer, &err) == LK_INVALID_ARGUMENT);
    ck_assert_msg(strstr(err.text, "t.tiktoken:257: a token of 1026 bytes, expected at most 1024") != NULL,
                  "%s", err.text);
    ranks.len = bytes;
    ck_assert(load_ranks("r60k", &ranks, &tokenizer, &err) == LK_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(err.text, "o200k_harmony"));
    ck_assert(load_ranks(NULL, &ranks, &tokenizer, &err) == LK_INVALID_ARGUMENT);
    ranks.len = 0;
    put_bytes(&ranks, 1);
    ck_assert(load_ranks("r50k_base", &ranks, &tokenizer, &err) == LK_INVALID_ARGUMENT);
    ck_assert_msg(strstr(err.text, "the byte 0x00 has no token") != NULL, "%s", err.text);
    ck_assert_ptr_null(tokenizer);
    lk_buf_done(&ranks);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("op/ranks");
    TCase *t = tcase_create("ranks");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, ranks_look_a_piece_up_and_merge_by_what_is_made);
    tcase_add_test(t, cl100k_by_ranks_ends_a_text_with_one_piece_of_spaces);
    tcase_add_test(t, broken_ranks_are_refused_with_their_line);
    suite_add_tcase(s, t);
    return s;
}
