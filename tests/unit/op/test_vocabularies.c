/*
 * Real vocabularies, from $LK_TOKENIZERS (default build/tokenizers; tests/fetch_tokenizers.sh): strings
 * that implementations got wrong, with the ids on which the reference libraries agree, and long runs.
 * A vocabulary that is not there is said so and left out.
 */
#include "op/tokenise/internal.h"
#include "tests/lib/check_main.h"
#include "tests/lib/tokenizer_files.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static struct lk_tokenizer *opened(const char *name, enum lk_special_in_text special)
{
    const char *root = getenv("LK_TOKENIZERS");
    char *directory = lk_format("%s/%s", root == NULL ? "build/tokenizers" : root, name);
    struct lk_tokenizer *tokenizer = NULL;
    struct lk_err err;
    enum lk_code code = lk_test_tokenizer(directory, special, &tokenizer, &err);

    if (code == LK_NOT_FOUND && getenv("LK_REQUIRE_TOKENIZERS") != NULL)
        ck_abort_msg("%s, and LK_REQUIRE_TOKENIZERS is set", err.text);
    else if (code == LK_NOT_FOUND)
        printf("skipped: no vocabulary in %s\n", directory);
    else if (code != LK_OK)
        ck_abort_msg("%s", err.text);
    free(directory);
    return tokenizer;
}

static char *text_of(const struct lk_tokens *ids)
{
    struct lk_buf out = {0};
    for (size_t i = 0; i < ids->n; i++)
        lk_buf_putf(&out, i == 0 ? "%u" : " %u", ids->ids[i]);
    char *copy = lk_strdup(lk_buf_cstr(&out));
    lk_buf_done(&out);
    return copy;
}

/* decode(encode(x)) == x: no byte is lost, and spaces that encoding puts in front are taken away. */
static void expect_bytes_back(const struct lk_tokenizer *tokenizer, const struct lk_tokens *ids,
                              const char *text, size_t n)
{
    struct lk_buf back = {0};
    for (size_t i = 0; i < ids->n; i++) {
        size_t part_n = 0;
        const uint8_t *part = lk_tokenizer_bytes(tokenizer, ids->ids[i], &part_n);
        ck_assert_ptr_nonnull(part);
        ck_assert_uint_lt(ids->ids[i], lk_tokenizer_vocab(tokenizer));
        lk_buf_put(&back, part, part_n);
    }
    size_t strip = 0;
    while (strip < lk_tokenizer_strip(tokenizer) && strip < back.len && back.data[strip] == ' ')
        strip++;
    ck_assert_uint_eq(back.len - strip, n);
    if (n > 0)
        ck_assert_mem_eq(back.data + strip, text, n);
    lk_buf_done(&back);
}

static void expect_n(const struct lk_tokenizer *tokenizer, const char *text, size_t n,
                     const char *want)
{
    struct lk_encoder *encoder = lk_encoder_new(tokenizer);
    struct lk_tokens ids = {0};

    lk_encode(encoder, (const uint8_t *)text, n, &ids);
    char *got = text_of(&ids);
    ck_assert_msg(strcmp(got, want) == 0, "\"%s\": got [%s], expected [%s]", text, got, want);
    free(got);
    expect_bytes_back(tokenizer, &ids, text, n);
    lk_tokens_done(&ids);
    lk_encoder_free(encoder);
}

static void expect(const struct lk_tokenizer *tokenizer, const char *text, const char *want)
{
    expect_n(tokenizer, text, strlen(text), want);
}

static const struct {
    const char *text;
    size_t n;
    const char *gpt2;
    const char *cl100k;
} strings[] = {
    {"Hello  World", 12,
     "15496 220 2159",
     "9906 220 4435"},
    {"   lead and trail  ", 19,
     "220 220 1085 290 8025 220 220",
     "256 3063 323 9025 256"},
    {"a\012\012\012 b\011\011 c\015\012\015\012d", 15,
     "64 628 198 275 197 197 269 201 198 201 198 67",
     "64 1432 293 298 272 881 67"},
    {"IT'S WE'RE I'LL don't DON'T y'all'd've", 38,
     "2043 6 50 12887 6 2200 314 6 3069 836 470 23917 6 51 331 6 439 1549 1053",
     "964 13575 20255 95253 358 6 4178 1541 956 45373 17773 379 65948 4265 3077"},
    {"3 33 333 3333 33333 333333 3333333 1234567890", 45,
     "18 4747 23460 513 20370 23460 2091 23460 20370 23460 24840 17031 2231 30924 3829",
     "18 220 1644 220 8765 220 8765 18 220 8765 1644 220 8765 8765 220 8765 8765 18 220 4513 10961 16474 15"},
    {"it\342\200\231s don\342\200\231t", 14,
     "270 447 247 82 836 447 247 83",
     "275 753 1541 1431"},
    {"\360\237\221\251\342\200\215\360\237\221\251\342\200\215\360\237\221\247\342\200\215\360\237\221\246", 25,
     "41840 102 447 235 41840 102 447 235 41840 100 447 235 41840 99",
     "9468 239 102 378 235 9468 239 102 378 235 9468 239 100 378 235 9468 239 99"},
    {"cafe\314\201", 6,
     "66 8635 136 223",
     "936 1897 54939"},
    {"caf\303\251", 5,
     "66 1878 2634",
     "936 59958"},
    {"a\000b", 3,
     "64 188 65",
     "64 188 65"},
    {"\357\273\277hello", 8,
     "171 119 123 31373",
     "3305 15339"},
    {"\357\277\275", 3,
     "4210",
     "5809"},
    {"a\342\200\250b\302\205c", 8,
     "64 447 101 65 126 227 66",
     "64 378 101 65 126 227 66"},
    {" Vi\341\273\207t", 7,
     "16049 157 119 229 83",
     "11655 26298 83"},
    {"line1\015\012line2\015\012", 14,
     "1370 16 201 198 1370 17 201 198",
     "1074 16 319 1074 17 319"},
    {"\011if x:\012\011\011return  1\012", 19,
     "197 361 2124 25 198 197 197 7783 220 352 198",
     "748 865 512 197 862 220 220 16 198"},
    {"", 0,
     "",
     ""},
    {" ", 1,
     "220",
     "220"},
    {"Hello-----------------", 22,
     "15496 1783 12",
     "9906 776 12"},
    {"\344\275\240\345\245\275\357\274\214\344\270\226\347\225\214\343\200\202", 18,
     "19526 254 25001 121 171 120 234 10310 244 45911 234 16764",
     "57668 53901 3922 3574 244 98220 1811"},
};

#define STRINGS (sizeof strings / sizeof *strings)

START_TEST(gpt2_gives_the_published_ids_from_either_kind_of_file) /* RC-051, RC-065 */
{
    static const char *const names[] = {"gpt2", "gpt2-pair"};
    for (size_t k = 0; k < 2; k++) {
        struct lk_tokenizer *tokenizer = opened(names[k], LK_SPECIAL_SPLIT);
        for (size_t i = 0; tokenizer != NULL && i < STRINGS; i++)
            expect_n(tokenizer, strings[i].text, strings[i].n, strings[i].gpt2);
        lk_tokenizer_free(tokenizer);
    }
}
END_TEST

START_TEST(cl100k_gives_the_published_ids) /* RC-051, RC-065 */
{
    struct lk_tokenizer *tokenizer = opened("cl100k", LK_SPECIAL_SPLIT);
    for (size_t i = 0; tokenizer != NULL && i < STRINGS; i++)
        expect_n(tokenizer, strings[i].text, strings[i].n, strings[i].cl100k);
    lk_tokenizer_free(tokenizer);
}
END_TEST

static const char *const llama2_ids[] = {
    "22557 28705 3304",
    "2287 1736 304 8005 259",
    "264 13 13 13 287 12 12 277 28801 13 28801 13 28715",
    "8862 28742 28735 21026 28742 896 315 28742 5292 949 28742 28707 384 832 28742 28738 337 28742 455 28742 28715 28742 333",
    "28705 28770 28705 28770 28770 28705 28770 28770 28770 28705 28770 28770 28770 28770 28705 28770 28770 28770 28770 28770 28705 28770 28770 28770 28770 28770 28770 28705 28770 28770 28770 28770 28770 28770 28770 28705 28740 28750 28770 28781 28782 28784 28787 28783 28774 28734",
    "378 28809 28713 949 28809 28707",
    "28705 243 162 148 172 29274 243 162 148 172 29274 243 162 148 170 29274 243 162 148 169",
    "7913 1512 28949",
    "28345",
    "264 3 28726",
    "28705 31759 21558",
    "28705 29137",
    "264 229 131 171 28726 31363 28717",
    "28705 11004 29539 28707",
    "1407 28740 28801 13 1081 28750 28801 13",
    "28705 12 335 1318 28747 13 12 12 807 259 28740 13",
    "",
    "259",
    "22557 1177 28733",
    "28705 29383 29530 28924 30050 29822 28944",
};
static const char *const gemma3_ids[] = {
    "9259 138 14447",
    "139 40227 532 13234 138",
    "236746 109 518 255969 505 251 107 251 107 236753",
    "1768 236789 236773 19716 236789 1357 564 236789 2182 1537 236789 236745 52402 236789 236774 570 236789 712 236789 236753 236789 560",
    "236800 236743 236800 236800 236743 236800 236800 236800 236743 236800 236800 236800 236800 236743 236800 236800 236800 236800 236800 236743 236800 236800 236800 236800 236800 236800 236743 236800 236800 236800 236800 236800 236800 236800 236743 236770 236778 236800 236812 236810 236825 236832 236828 236819 236771",
    "509 236858 236751 1537 236858 236745",
    "243767 237243 243767 237243 244814 237243 244990",
    "101727 238288",
    "123125 236859",
    "236746 238 236763",
    "237922 23391",
    "238479",
    "236746 464 366 406 236763 432 371 236755",
    "33154",
    "1257 236770 251 107 1257 236778 251 107",
    "255968 584 1123 236787 107 255969 2060 138 236770 107",
    "",
    "236743",
    "9259 2819 236772",
    "144626 236900 12811 236924",
};

START_TEST(models_of_characters_give_the_published_ids) /* RC-051, RC-064, RC-065 */
{
    struct lk_tokenizer *llama2 = opened("llama2", LK_SPECIAL_SPLIT);
    struct lk_tokenizer *gemma3 = opened("gemma3", LK_SPECIAL_SPLIT);
    ck_assert_uint_eq(sizeof llama2_ids / sizeof *llama2_ids, STRINGS);
    ck_assert_uint_eq(sizeof gemma3_ids / sizeof *gemma3_ids, STRINGS);
    for (size_t i = 0; i < STRINGS; i++) {
        if (llama2 != NULL)
            expect_n(llama2, strings[i].text, strings[i].n, llama2_ids[i]);
        if (gemma3 != NULL)
            expect_n(gemma3, strings[i].text, strings[i].n, gemma3_ids[i]);
    }
    lk_tokenizer_free(llama2);
    lk_tokenizer_free(gemma3);
}
END_TEST

/* Random text of a vocabulary's own tokens and of what it does not know. */
static void put_random(const struct lk_tokenizer *tokenizer, uint32_t *state, struct lk_buf *text)
{
    static const char *const others[] = {" ", "\xe2\x96\x81", "\n", "  ", "\u0436\u0301", "\U0001f469\u200d",
                                         "\u0e33", "a", "1", "\x7f", ">", "\u4e2d"};
    text->len = 0;
    for (unsigned i = 0; i < 400; i++) {
        *state = *state * 1664525u + 1013904223u;
        size_t n = 0;
        const uint8_t *token = lk_tokenizer_bytes(tokenizer, (*state >> 8) % lk_tokenizer_vocab(tokenizer), &n);
        bool whole = token != NULL && n > 1; /* or it may be a byte of no character */
        if ((*state >> 4) % 3 == 0 || !whole)
            lk_buf_puts(text, others[(*state >> 8) % 12]);
        else
            lk_buf_put(text, token, n);
    }
}

/* Cutting where no merge joins must not be seen: the same text merged whole. */
START_TEST(texts_cut_where_no_merge_joins_have_the_ids_of_the_whole)
{
    static const char *const names[] = {"llama2", "gemma3"};
    for (size_t k = 0; k < 2; k++) {
        struct lk_tokenizer *cut = opened(names[k], LK_SPECIAL_SPLIT), *whole = opened(names[k], LK_SPECIAL_SPLIT);
        struct lk_tokens ids = {0}, want = {0};
        struct lk_buf text = {0};
        uint32_t state = 7;
        if (cut == NULL || whole == NULL)
            continue;
        ck_assert_uint_eq(whole->pretok.n, 1);
        lk_cutter_done(&whole->pretok.stages[0]);
        lk_cutter_whole(&whole->pretok.stages[0]);
        struct lk_encoder *a = lk_encoder_new(cut), *b = lk_encoder_new(whole);
        for (int i = 0; i < 200; i++) {
            put_random(cut, &state, &text);
            ids.n = want.n = 0;
            lk_encode(a, text.data, text.len, &ids);
            lk_encode(b, text.data, text.len, &want);
            ck_assert_uint_eq(ids.n, want.n);
            ck_assert_mem_eq(ids.ids, want.ids, ids.n * sizeof *ids.ids);
        }
        lk_encoder_free(a);
        lk_encoder_free(b);
        lk_tokens_done(&ids);
        lk_tokens_done(&want);
        lk_buf_done(&text);
        lk_tokenizer_free(cut);
        lk_tokenizer_free(whole);
    }
}
END_TEST

START_TEST(llama3_takes_words_that_no_merge_makes) /* RC-054 */
{
    struct lk_tokenizer *tokenizer = opened("llama3", LK_SPECIAL_SPLIT);
    if (tokenizer != NULL)
        expect(tokenizer, " Vi\341\273\207t", "101798");
    lk_tokenizer_free(tokenizer);
}
END_TEST

START_TEST(special_tokens_in_text_are_tokens_or_text) /* RC-059 */
{
    static const struct {
        const char *name, *split, *text;
    } cases[] = {
        {"gpt2", "64 50256 65", "64 27 91 437 1659 5239 91 29 65"},
        {"gpt2-pair", "64 50256 65", "64 27 91 437 1659 5239 91 29 65"},
        {"cl100k", "64 100257 65", "64 27 91 8862 728 428 91 29 65"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lk_tokenizer *split = opened(cases[i].name, LK_SPECIAL_SPLIT);
        struct lk_tokenizer *text = opened(cases[i].name, LK_SPECIAL_TEXT);
        if (split != NULL && text != NULL) {
            expect(split, "a<|endoftext|>b", cases[i].split);
            expect(text, "a<|endoftext|>b", cases[i].text);
            ck_assert(!lk_digest_equal(lk_tokenizer_digest(split), lk_tokenizer_digest(text)));
        }
        lk_tokenizer_free(split);
        lk_tokenizer_free(text);
    }
}
END_TEST

START_TEST(eos_is_found_in_every_vocabulary)
{
    static const struct {
        const char *name;
        uint32_t eos;
    } cases[] = {{"gpt2", 50256}, {"gpt2-pair", 50256}, {"cl100k", 100257}, {"llama3", 128001},
                 {"qwen3", 151645}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lk_tokenizer *tokenizer = opened(cases[i].name, LK_SPECIAL_SPLIT);
        struct lk_err err;
        uint32_t id = 0;
        if (tokenizer == NULL)
            continue;
        ck_assert(lk_tokenizer_find(tokenizer, "eos", &id, &err) == LK_OK);
        ck_assert_uint_eq(id, cases[i].eos);
        lk_tokenizer_free(tokenizer);
    }
}
END_TEST

/* ---- long runs: RC-060 ---- */

static double seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* @n bytes of one letter: @count times @id, then @last unless it is 0. */
static void expect_run(const struct lk_tokenizer *tokenizer, char letter, size_t n, size_t count,
                       uint32_t id, uint32_t last)
{
    struct lk_encoder *encoder = lk_encoder_new(tokenizer);
    struct lk_tokens ids = {0};
    char *text = lk_alloc(n);

    memset(text, letter, n);
    double start = seconds();
    lk_encode(encoder, (uint8_t *)text, n, &ids);
    double took = seconds() - start;
    ck_assert_uint_eq(ids.n, count + (last != 0));
    for (size_t i = 0; i < count; i++)
        ck_assert_uint_eq(ids.ids[i], id);
    if (last != 0)
        ck_assert_uint_eq(ids.ids[count], last);
    /* 2 s for 1 MB is the bound to hold; with sanitizers everything takes several times as long. */
    ck_assert_msg(took < 10.0, "%zu bytes took %.1f s", n, took);
    free(text);
    lk_tokens_done(&ids);
    lk_encoder_free(encoder);
}

START_TEST(runs_of_one_letter_are_no_worse_for_models_of_characters)
{
    struct lk_tokenizer *gemma3 = opened("gemma3", LK_SPECIAL_SPLIT);

    if (gemma3 != NULL) {
        expect_run(gemma3, 'a', 1000000, 125000, 128820, 0);
        expect_run(gemma3, '^', 1000000, 250000, 172109, 0);
    }
    lk_tokenizer_free(gemma3);
}
END_TEST

START_TEST(runs_of_one_letter_are_neither_quadratic_nor_recursive)
{
    struct rlimit stack;
    struct lk_tokenizer *gpt2 = opened("gpt2-pair", LK_SPECIAL_SPLIT);
    struct lk_tokenizer *cl100k = opened("cl100k", LK_SPECIAL_SPLIT);

    ck_assert_int_eq(getrlimit(RLIMIT_STACK, &stack), 0);
    stack.rlim_cur = 256 * 1024; /* it may not grow beyond what it has, or this much */
    ck_assert_int_eq(setrlimit(RLIMIT_STACK, &stack), 0);
    if (gpt2 != NULL) {
        expect_run(gpt2, '^', 1000000, 250000, 39397, 0);
        expect_run(gpt2, 'a', 10000, 2500, 24794, 0);
        expect_run(gpt2, ' ', 10000, 10000, 220, 0);
        expect_run(gpt2, ' ', 1000000, 1000000, 220, 0);
        expect_run(gpt2, '\n', 1000000, 500000, 628, 0);
    }
    if (cl100k != NULL) {
        expect_run(cl100k, 'a', 100000, 12500, 70540, 0);
        expect_run(cl100k, 'a', 1000000, 125000, 70540, 0);
        expect_run(cl100k, ' ', 10000, 78, 58040, 338);
        expect_run(cl100k, '\n', 1000000, 31250, 80183, 0);
    }
    lk_tokenizer_free(gpt2);
    lk_tokenizer_free(cl100k);
}
END_TEST

/* Seconds for @n random letters without a space. */
static double random_letters(struct lk_encoder *encoder, size_t n)
{
    struct lk_tokens ids = {0};
    uint8_t *text = lk_alloc(n);
    uint32_t state = 1;

    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        text[i] = (uint8_t)('a' + (state >> 24) % 26);
    }
    double start = seconds();
    lk_encode(encoder, text, n, &ids);
    double took = seconds() - start;
    free(text);
    lk_tokens_done(&ids);
    return took;
}

START_TEST(a_long_word_takes_time_in_proportion_to_its_length)
{
    struct lk_tokenizer *tokenizer = opened("gpt2-pair", LK_SPECIAL_SPLIT);
    if (tokenizer == NULL)
        return;
    struct lk_encoder *encoder = lk_encoder_new(tokenizer);
    double small = 1e9, large = 1e9;
    for (int i = 0; i < 3; i++) { /* the best of three: other programs run here, too */
        double a = random_letters(encoder, 100000), b = random_letters(encoder, 800000);
        small = a < small ? a : small;
        large = b < large ? b : large;
    }
    /* 8 times the text: quadratic would be 64 times the time. */
    ck_assert_msg(large < small * 24, "100 kB took %.4f s, 800 kB %.4f s", small, large);
    lk_encoder_free(encoder);
    lk_tokenizer_free(tokenizer);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("op/vocabularies");
    TCase *t = tcase_create("vocabularies");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, gpt2_gives_the_published_ids_from_either_kind_of_file);
    tcase_add_test(t, cl100k_gives_the_published_ids);
    tcase_add_test(t, models_of_characters_give_the_published_ids);
    tcase_add_test(t, texts_cut_where_no_merge_joins_have_the_ids_of_the_whole);
    tcase_add_test(t, llama3_takes_words_that_no_merge_makes);
    tcase_add_test(t, special_tokens_in_text_are_tokens_or_text);
    tcase_add_test(t, eos_is_found_in_every_vocabulary);
    tcase_add_test(t, runs_of_one_letter_are_neither_quadratic_nor_recursive);
    tcase_add_test(t, runs_of_one_letter_are_no_worse_for_models_of_characters);
    tcase_add_test(t, a_long_word_takes_time_in_proportion_to_its_length);
    suite_add_tcase(s, t);
    return s;
}
