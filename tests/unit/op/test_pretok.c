/*
 * Where the reference cuts text into pieces; expected values from its own pre-tokenizers. The letters
 * outside ASCII are chosen for what implementations get wrong: marks, title case, modifier letters,
 * U+180E and U+200B (no spaces), U+0085 and U+3000 (spaces), the long s.
 */
#include "op/pretok/pretok.h"
#include "op/pretok/regex.h"

#include "base/mem.h"
#include "tests/lib/check_main.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAIL "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define CASED(end)                                                                                 \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+" end        \
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*" end "|"

static const char *const expressions[][3] = { /* one, or three that cut one after the other */
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"},
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
     " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" TAIL},
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
     " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" TAIL},
    {CASED("(?i:'s|'t|'re|'ve|'m|'ll|'d)?") "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" TAIL},
    {CASED("") "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" TAIL},
    {"\\p{N}{1,3}",
     "[\344\270\200-\351\276\245\343\201\200-\343\202\237\343\202\240-\343\203\277]+",
     "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
     " ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"},
};

#define EXPRESSIONS (sizeof expressions / sizeof *expressions)

static const struct {
    const char *text;
    const char *pieces[EXPRESSIONS]; /* separated by bars */
} cases[] = {
    {"It's we'RE o'clock 'llama",
     {"It|'s| we|'|RE| o|'|clock| '|llama",
      "It|'s| we|'RE| o|'clock| '|llama",
      "It|'s| we|'RE| o|'clock| '|llama",
      "It's| we'RE| o|'clock| '|llama",
      "It|'s| we|'RE| o|'clock| '|llama",
      "It|'s| we|'RE| o|'clock| '|llama"}},
    {"  two  spaces \012\012 \011 tab",
     {" | two| | spaces| \012\012 \011| tab",
      " | two| | spaces| \012\012| \011| tab",
      " | two| | spaces| \012\012| \011| tab",
      " | two| | spaces| \012\012| \011| tab",
      " | two| | spaces| \012\012| \011| tab",
      " | two| | spaces| \012\012| \011| tab"}},
    {"12345 67",
     {"12345| 67",
      "123|45| |67",
      "1|2|3|4|5| |6|7",
      "123|45| |67",
      "1|2|3|4|5| |6|7",
      "123|45| |67"}},
    {".NET getHTTPResponse/\012/x",
     {".|NET| getHTTPResponse|/|\012|/|x",
      ".NET| getHTTPResponse|/\012|/x",
      ".NET| getHTTPResponse|/\012|/x",
      ".NET| get|HTTPResponse|/\012/|x",
      ".NET| get|HTTPResponse|/\012/|x",
      ".NET| getHTTPResponse|/\012|/x"}},
    {"caf\303\251 e\314\201\314\201 \303\211COLE'S",
     {"caf\303\251| e|\314\201\314\201| \303\211COLE|'|S",
      "caf\303\251| e|\314\201\314\201| \303\211COLE|'S",
      "caf\303\251| e|\314\201\314\201| \303\211COLE|'S",
      "caf\303\251| e\314\201\314\201| \303\211COLE'S",
      "caf\303\251| e\314\201\314\201| \303\211COLE|'S",
      "caf\303\251| e\314\201\314\201| \303\211COLE|'S"}},
    {"\344\275\240\345\245\275\357\274\214\331\241\331\242\331\243\331\244 \343\200\200\343\200\200x",
     {"\344\275\240\345\245\275|\357\274\214|\331\241\331\242\331\243\331\244| \343\200\200|\343\200\200|x",
      "\344\275\240\345\245\275|\357\274\214|\331\241\331\242\331\243|\331\244| \343\200\200|\343\200\200x",
      "\344\275\240\345\245\275|\357\274\214|\331\241|\331\242|\331\243|\331\244| \343\200\200|\343\200\200x",
      "\344\275\240\345\245\275|\357\274\214|\331\241\331\242\331\243|\331\244| \343\200\200|\343\200\200x",
      "\344\275\240\345\245\275|\357\274\214|\331\241|\331\242|\331\243|\331\244| \343\200\200|\343\200\200x",
      "\344\275\240\345\245\275|\357\274\214|\331\241\331\242\331\243|\331\244| \343\200\200|\343\200\200x"}},
    {"a\341\240\216b\302\205c\342\200\213d \302\240e",
     {"a|\341\240\216|b|\302\205|c|\342\200\213|d| |\302\240|e",
      "a|\341\240\216b|\302\205c|\342\200\213d| |\302\240e",
      "a|\341\240\216b|\302\205c|\342\200\213d| |\302\240e",
      "a|\341\240\216b|\302\205c|\342\200\213d| |\302\240e",
      "a|\341\240\216b|\302\205c|\342\200\213d| |\302\240e",
      "a|\341\240\216b|\302\205c|\342\200\213d| |\302\240e"}},
    {"don'\305\277 'S",
     {"don|'|\305\277| '|S",
      "don|'\305\277| '|S",
      "don|'\305\277| '|S",
      "don'\305\277| '|S",
      "don|'\305\277| '|S",
      "don|'|\305\277| '|S"}},
    {"!!!\015\012\015\012  end  ",
     {"!!!|\015\012\015\012 | end|  ",
      "!!!\015\012\015\012| | end|  ",
      "!!!\015\012\015\012| | end|  ",
      "!!!\015\012\015\012| | end|  ",
      "!!!\015\012\015\012| | end|  ",
      "!!!\015\012\015\012| | end|  "}},
    {"\307\205a\312\260B\302\252c\314\201D",
     {"\307\205a\312\260B\302\252c|\314\201|D",
      "\307\205a\312\260B\302\252c|\314\201D",
      "\307\205a\312\260B\302\252c|\314\201D",
      "\307\205a\312\260|B\302\252c\314\201|D",
      "\307\205a\312\260|B\302\252c\314\201|D",
      "\307\205a\312\260B\302\252c\314\201D"}},
    {"\343\202\253\343\202\277\343\203\273\343\202\253\343\203\212  \346\227\245\012\344\270\200a\351\276\246",
     {"\343\202\253\343\202\277|\343\203\273|\343\202\253\343\203\212| | \346\227\245|\012|\344\270\200a\351\276\246",
      "\343\202\253\343\202\277|\343\203\273\343\202\253\343\203\212| | \346\227\245|\012|\344\270\200a\351\276\246",
      "\343\202\253\343\202\277|\343\203\273\343\202\253\343\203\212| | \346\227\245|\012|\344\270\200a\351\276\246",
      "\343\202\253\343\202\277|\343\203\273\343\202\253\343\203\212| | \346\227\245|\012|\344\270\200a\351\276\246",
      "\343\202\253\343\202\277|\343\203\273\343\202\253\343\203\212| | \346\227\245|\012|\344\270\200a\351\276\246",
      "\343\202\253\343\202\277|\343\203\273|\343\202\253\343\203\212|  |\346\227\245|\012|\344\270\200|a\351\276\246"}},
    {"\001\002a \001! !ab\303\251 \002\0021",
     {"\001\002|a| \001!| !|ab\303\251| \002\002|1",
      "\001\002|a| \001!| !|ab\303\251| \002\002|1",
      "\001\002|a| \001!| !|ab\303\251| \002\002|1",
      "\001\002|a| \001!| !|ab\303\251| \002\002|1",
      "\001\002|a| \001!| !|ab\303\251| \002\002|1",
      "\001|\002a| |\001|!| !|ab\303\251| |\002\002|1"}},
    {"  1 \012  \343\201\202\343\202\227\343\201\202\343\202\227\343\202\227\343\202\240\343\202\231",
     {" | 1| \012 | \343\201\202|\343\202\227|\343\201\202|\343\202\227\343\202\227\343\202\240\343\202\231",
      " | |1| \012| | \343\201\202|\343\202\227\343\201\202|\343\202\227\343\202\227\343\202\240\343\202\231",
      " | |1| \012| | \343\201\202|\343\202\227\343\201\202|\343\202\227\343\202\227\343\202\240\343\202\231",
      " | |1| \012| | \343\201\202|\343\202\227\343\201\202|\343\202\227\343\202\227\343\202\240\343\202\231",
      " | |1| \012| | \343\201\202|\343\202\227\343\201\202|\343\202\227\343\202\227\343\202\240\343\202\231",
      "  |1| \012|  |\343\201\202|\343\202\227\343\201\202|\343\202\227\343\202\227|\343\202\240|\343\202\231"}},
    {"it's's \344\275\240A\344\275\240Ab\344\275\240AB XYz'Sx",
     {"it|'s|'s| \344\275\240A\344\275\240Ab\344\275\240AB| XYz|'|Sx",
      "it|'s|'s| \344\275\240A\344\275\240Ab\344\275\240AB| XYz|'S|x",
      "it|'s|'s| \344\275\240A\344\275\240Ab\344\275\240AB| XYz|'S|x",
      "it's|'s| \344\275\240A\344\275\240Ab\344\275\240|AB| XYz'S|x",
      "it|'s|'s| \344\275\240A\344\275\240Ab\344\275\240|AB| XYz|'Sx",
      "it|'s|'s| |\344\275\240|A|\344\275\240|Ab|\344\275\240|AB| XYz|'Sx"}},
};

/* Number @k: each expression by the scalar code first, then by what the processor has. */
static struct lk_cutter cutter_of(const struct lk_unicode *unicode, size_t k)
{
    const char *const *texts = expressions[k % EXPRESSIONS];
    struct lk_pattern patterns[3];
    struct lk_cutter cutter;
    size_t n = 0;

    for (; n < 3 && texts[n] != NULL; n++)
        patterns[n] = (struct lk_pattern){.text = (const uint8_t *)texts[n], .n = strlen(texts[n])};
    enum lk_code code = lk_cutter_of_patterns(patterns, n, unicode, (enum lk_simd)(k / EXPRESSIONS),
                                              &cutter);
    ck_assert_msg(code == LK_OK, "%s", texts[0]);
    return cutter;
}

static char *cut(const struct lk_cutter *cutter, const uint8_t *p, const uint8_t *end)
{
    struct lk_buf out = {0};
    const uint8_t *stops[LK_PIECES_MAX];

    while (p < end) {
        size_t n = cutter->cut(cutter, p, end, stops);
        ck_assert_uint_gt(n, 0);
        for (size_t i = 0; i < n; p = stops[i++]) {
            ck_assert(stops[i] > p && stops[i] <= end);
            if (out.len > 0)
                lk_buf_puts(&out, "|");
            lk_buf_put(&out, p, (size_t)(stops[i] - p));
        }
    }
    char *copy = lk_strdup(lk_buf_cstr(&out));
    lk_buf_done(&out);
    return copy;
}

START_TEST(every_expression_cuts_where_the_reference_does)
{
    struct lk_unicode unicode;
    lk_unicode_init(&unicode);
    for (size_t k = 0; k < EXPRESSIONS * (LK_SIMD_BEST + 1); k++) {
        struct lk_cutter cutter = cutter_of(&unicode, k);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            size_t n = strlen(cases[i].text);
            uint8_t *exact = lk_alloc(n); /* sanitizers see a read beyond it */
            memcpy(exact, cases[i].text, n);
            char *got = cut(&cutter, exact, exact + n);
            ck_assert_msg(strcmp(got, cases[i].pieces[k % EXPRESSIONS]) == 0,
                          "%s\n\"%s\": got \"%s\", expected \"%s\"", *expressions[k % EXPRESSIONS],
                          cases[i].text, got, cases[i].pieces[k % EXPRESSIONS]);
            free(got);
            free(exact);
        }
    }
    lk_unicode_done(&unicode);
}
END_TEST

START_TEST(invalid_utf8_never_leads_outside_the_text)
{
    struct lk_unicode unicode;
    uint32_t state = 7;

    lk_unicode_init(&unicode);
    for (size_t round = 0; round < 3000; round++) {
        size_t n = 1 + round % 13;
        uint8_t *text = lk_alloc(n);
        for (size_t i = 0; i < n; i++) {
            state = state * 1664525u + 1013904223u;
            text[i] = (uint8_t)(state >> 24);
        }
        for (size_t k = 0; k < EXPRESSIONS * (LK_SIMD_BEST + 1); k++) {
            struct lk_cutter cutter = cutter_of(&unicode, k);
            free(cut(&cutter, text, text + n));
        }
        free(text);
    }
    lk_unicode_done(&unicode);
}
END_TEST

/*
 * Vector code against scalar code ------------------------------------------------------------------
 */

#define TEXT_MAX 4096

struct trial {
    struct lk_unicode unicode;
    enum lk_simd best; /* that this processor has */
    struct lk_cutter cutters[EXPRESSIONS][LK_SIMD_BEST + 1];
    uint8_t *room; /* texts stand at its end, so that sanitizers see a read beyond them */
    uint32_t *expected;
    size_t expected_n;
    uint64_t state;
};

static void trial_init(struct trial *trial, size_t bytes)
{
    *trial = (struct trial){.state = 7, .best = lk_simd_here()};
    lk_unicode_init(&trial->unicode);
    for (size_t k = 0; k < EXPRESSIONS * (LK_SIMD_BEST + 1); k++)
        trial->cutters[k % EXPRESSIONS][k / EXPRESSIONS] = cutter_of(&trial->unicode, k);
    trial->room = lk_alloc(bytes);
    trial->expected = lk_alloc(bytes * sizeof *trial->expected);
}

static void trial_done(struct trial *trial)
{
    free(trial->room);
    free(trial->expected);
    lk_unicode_done(&trial->unicode);
}

static uint32_t pick(struct trial *trial, uint32_t below)
{
    trial->state = trial->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((trial->state >> 33) % below);
}

static void differs(const uint8_t *text, size_t n, size_t family, enum lk_simd simd, size_t got,
                    size_t expected)
{
    size_t near = got < expected ? got : expected, from = near < 80 ? 0 : near - 80;
    char hex[3 * 160 + 1] = "";

    for (size_t i = 0; i < 160 && from + i < n; i++)
        (void)snprintf(hex + 3 * i, 4, "%02x ", text[from + i]);
    ck_abort_msg("%s, code %d: of %zu bytes, from the %zuth: %s: a piece ends at %zu, not at %zu",
                 *expressions[family], (int)simd, n, from, hex, got, expected);
}

/* From stop @from (SIZE_MAX: the beginning) on, the code of @simd finds what is expected: all of it if
 * @on, else as many as it finds in one call. */
static void find_as_expected(const struct trial *trial, const uint8_t *text, size_t n, size_t family,
                             enum lk_simd simd, size_t from, bool on)
{
    const struct lk_cutter *cutter = &trial->cutters[family][simd];
    const uint8_t *stops[LK_PIECES_MAX], *p = from == SIZE_MAX ? text : text + trial->expected[from];

    for (size_t k = from + 1; p < text + n;) {
        size_t found = cutter->cut(cutter, p, text + n, stops);
        if (found < 1 || found > LK_PIECES_MAX) /* ck_assert() is slow where it holds */
            ck_abort_msg("%zu pieces", found);
        for (size_t i = 0; i < found; i++, k++) {
            p = stops[i];
            if (k >= trial->expected_n || (size_t)(p - text) != trial->expected[k])
                differs(text, n, family, simd, (size_t)(p - text),
                        k < trial->expected_n ? trial->expected[k] : n);
        }
        if (!on)
            return;
    }
}

/* All kinds of code find the pieces of @text that the scalar code finds; @anywhere: also when
 * called anew at each of them. */
static void compare_at(struct trial *trial, const uint8_t *text, size_t n, bool anywhere)
{
    const uint8_t *stops[LK_PIECES_MAX];

    for (size_t family = 0; family < EXPRESSIONS; family++) {
        const struct lk_cutter *cutter = &trial->cutters[family][LK_SIMD_SCALAR];
        trial->expected_n = 0;
        for (const uint8_t *p = text; p < text + n; p = text + trial->expected[trial->expected_n - 1]) {
            size_t found = cutter->cut(cutter, p, text + n, stops);
            for (size_t i = 0; i < found; i++)
                trial->expected[trial->expected_n++] = (uint32_t)(stops[i] - text);
        }
        for (enum lk_simd simd = LK_SIMD_SCALAR + 1; simd <= trial->best; simd++) {
            find_as_expected(trial, text, n, family, simd, SIZE_MAX, true);
            for (size_t i = 0; anywhere && i < trial->expected_n; i++)
                find_as_expected(trial, text, n, family, simd, i, false);
        }
    }
}

static void compare(struct trial *trial, const char *text, size_t n, bool anywhere)
{
    uint8_t *at = trial->room + TEXT_MAX - n;
    memcpy(at, text, n);
    compare_at(trial, at, n, anywhere);
}

static size_t put_point(char *to, uint32_t c)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        to[i] = (char)(0x80 | (c & 63));
    to[0] = (char)((0xf00u >> n & 0xf0) | c);
    return n;
}

/* Every code point among others that its class may or may not join; '@' stands for it. */
START_TEST(every_code_point_is_of_one_class_to_all_code)
{
    static const char *const shapes[] = {
        "@", "@@", "a@b", " @ ", " @a@ ", "a'@'s@", "!@ @!!@a", "A@B@Cd", "1@2", "\n@\n@/a", "  @  @",
        "\343\201\202@\346\274\242@A", "a\314\201@!\314\201@A",
        "0123456789 012345678901234567890123456789012345678901234567@@ and so on, a\314\201@!",
    };
    static struct trial trial;

    trial_init(&trial, TEXT_MAX);
    for (uint32_t c = 0; c < 0x110000; c++) {
        if (c == 0xd800)
            c = 0xe000;
        if (c >= 0x20000 && c % 16 != 0 && c < 0xe0000) /* mostly one class, or none */
            continue;
        char text[256], point[4];
        size_t n = 0, bytes = put_point(point, c);
        const char *shape = shapes[c % (sizeof shapes / sizeof *shapes)];
        for (size_t i = 0; i < (c < 0x3400 ? sizeof shapes / sizeof *shapes : 1); i++) {
            shape = c < 0x3400 ? shapes[i] : shape;
            n = 0;
            for (const char *s = shape; *s != 0; s++) {
                memcpy(text + n, *s == '@' ? point : s, *s == '@' ? bytes : 1);
                n += *s == '@' ? bytes : 1;
            }
            compare(&trial, text, n, false);
        }
    }
    trial_done(&trial);
}
END_TEST

/* What the borders of classes are made of. */
static const char *const ingredients[] = {
    "a", "b", "s", "t", "x", "A", "B", "S", "T", "re", "VE", "lL", "the", "The", "HTTP", "'", "'", "'s", "'S",
    "'t", "'re", "'Re", "'ll", "'VE", "'d", "'m", "'\305\277", "\305\277", "''", " ", " ", "  ", "        ",
    "\n", "\n", "\r\n", "\r", "\t", "\v", "\n\n", "\n    ", " \n", "/", "/", "//", "!", "...", "-", "\"", "_",
    "#", "0", "1", "12", "2024", "12345", "\001", "\177", "\342\200\231", "\342\200\224",
    "\303\251", "\303\211", "\307\205", "\312\260", "\302\252", "\320\226", "\320\266", /* é É ǅ ʰ ª Ж ж */
    "\344\275\240", "\345\245\275", "\343\201\202", "\343\202\242", "\343\203\273", "\343\202\240",
    "\343\201\200", "\343\202\231", "\343\202\233", "\351\276\245", "\351\276\246", /* kana, its marks; U+9FA5, U+9FA6 */
    "\314\201", "\314\201", "\340\244\276", "\342\203\243", /* marks */
    "\331\241", "\340\245\247", "\302\262", "\342\205\253", "\360\235\237\231", /* numbers */
    "\302\240", "\343\200\200", "\342\200\250", "\302\205", "\341\232\200", "\341\240\216", "\342\200\213",
    "\360\237\221\251\342\200\215\360\237\222\273", "\360\237\217\275", "\357\270\217", "\357\277\275",
    "\315\270", "\356\200\200", "\364\217\277\277", "\360\220\220\200", "\360\220\220\250", /* none; Deseret */
};

/* A few ingredients, over and over, now and then many times in a row. */
static size_t mix(struct trial *trial, char *text, size_t most)
{
    const char *few[12];
    uint32_t kinds = 1 + pick(trial, 12);
    size_t n = 0;

    for (uint32_t i = 0; i < kinds; i++)
        few[i] = ingredients[pick(trial, sizeof ingredients / sizeof *ingredients)];
    for (;;) {
        const char *one = few[pick(trial, kinds)];
        size_t bytes = strlen(one), times = 1;
        if (pick(trial, 8) == 0)
            times += pick(trial, pick(trial, 4) == 0 ? 80 : 5);
        for (; times > 0; times--, n += bytes) {
            if (n + bytes > most)
                return n;
            memcpy(text + n, one, bytes);
        }
    }
}

START_TEST(mixes_are_cut_alike_by_all_code)
{
    static struct trial trial;
    char text[TEXT_MAX];

    trial_init(&trial, TEXT_MAX);
    for (size_t round = 0; round < 40000; round++) {
        size_t n = mix(&trial, text, 1 + pick(&trial, round % 3 == 0 ? 600 : 100));
        if (n > 0)
            compare(&trial, text, n, round % 16 == 0);
    }
    trial_done(&trial);
}
END_TEST

/* Ends of the pieces of @text under expressions, one after the other, by the engine for any
 * expression. */
static size_t cut_by_stages(const struct lk_pretok *stages, uint32_t stage, const uint8_t *text,
                            const uint8_t *p, const uint8_t *end, uint32_t *ret_ends)
{
    const struct lk_cutter *cutter = &stages->stages[stage];
    const uint8_t *stops[LK_PIECES_MAX];
    size_t count = 0;

    while (p < end) {
        size_t n = cutter->cut(cutter, p, end, stops);
        for (size_t i = 0; i < n; p = stops[i++]) {
            if (stage + 1 < stages->n)
                count += cut_by_stages(stages, stage + 1, text, p, stops[i], ret_ends + count);
            else
                ret_ends[count++] = (uint32_t)(stops[i] - text);
        }
    }
    return count;
}

static void stages_of(const struct lk_unicode *unicode, const char *const *texts,
                      struct lk_pretok *ret_stages)
{
    struct lk_err err;

    *ret_stages = (struct lk_pretok){0};
    for (; ret_stages->n < 3 && texts[ret_stages->n] != NULL; ret_stages->n++) {
        const char *text = texts[ret_stages->n];
        struct lk_pattern pattern = {.text = (const uint8_t *)text, .n = strlen(text)};
        ck_assert_msg(lk_cutter_regex(&pattern, unicode, LK_SPLIT_ISOLATED, NULL,
                                      &ret_stages->stages[ret_stages->n], &err) == LK_OK,
                      "%s: %s", text, err.text);
    }
}

/* What the families' code was worked out from is also run as it stands. */
START_TEST(families_cut_as_their_expressions_say)
{
    static struct trial trial;
    struct lk_pretok stages[EXPRESSIONS];
    char text[TEXT_MAX];

    trial_init(&trial, TEXT_MAX);
    for (size_t family = 0; family < EXPRESSIONS; family++)
        stages_of(&trial.unicode, expressions[family], &stages[family]);
    for (size_t round = 0; round < 6000; round++) {
        size_t n = mix(&trial, text, 1 + pick(&trial, round % 20 == 0 ? TEXT_MAX - 8 : 200));
        for (size_t family = 0; n > 0 && family < EXPRESSIONS; family++) {
            const uint8_t *p = (const uint8_t *)text;
            trial.expected_n = cut_by_stages(&stages[family], 0, p, p, p + n, trial.expected);
            find_as_expected(&trial, p, n, family, LK_SIMD_SCALAR, SIZE_MAX, true);
        }
    }
    for (size_t family = 0; family < EXPRESSIONS; family++)
        lk_pretok_done(&stages[family]);
    trial_done(&trial);
}
END_TEST

START_TEST(long_runs_are_cut_as_the_expressions_say)
{
    static const char *const runs[] = {"a", " ", "\r\n", "'", "1", "\344\275\240", "aA", "!"};
    static struct trial trial;
    struct lk_pretok stages;
    size_t most = 1 << 20;

    trial_init(&trial, most);
    for (size_t family = 0; family < EXPRESSIONS; family++) {
        stages_of(&trial.unicode, expressions[family], &stages);
        for (size_t k = 0; k < sizeof runs / sizeof *runs; k++) {
            size_t bytes = strlen(runs[k]), n = most / bytes * bytes;
            for (size_t i = 0; i < n; i += bytes)
                memcpy(trial.room + i, runs[k], bytes);
            const uint8_t *p = trial.room;
            trial.expected_n = cut_by_stages(&stages, 0, p, p, p + n, trial.expected);
            find_as_expected(&trial, p, n, family, LK_SIMD_SCALAR, SIZE_MAX, true);
        }
        lk_pretok_done(&stages);
    }
    trial_done(&trial);
}
END_TEST

START_TEST(what_is_no_utf8_is_cut_alike_by_all_code)
{
    static struct trial trial;
    char text[TEXT_MAX];

    trial_init(&trial, TEXT_MAX);
    for (size_t round = 0; round < 20000; round++) {
        size_t n = mix(&trial, text, 1 + pick(&trial, 200));
        for (uint32_t i = pick(&trial, 6); n > 0 && i > 0; i--)
            text[pick(&trial, (uint32_t)n)] = (char)pick(&trial, 256);
        for (size_t i = 0; round % 4 == 0 && i < n; i++)
            text[i] = (char)(128 * (round % 8 == 0) | pick(&trial, 256));
        n -= n > 1 ? pick(&trial, 2) : 0; /* perhaps within a character */
        if (n > 0)
            compare(&trial, text, n, false);
    }
    trial_done(&trial);
}
END_TEST

/* Also that it takes linear time: this would not end otherwise. */
START_TEST(long_runs_are_cut_alike_by_all_code)
{
    static const char *const runs[] = {
        "a", "A", "aA", " ", "\n", "\r\n", " \n", "'", "'s", "1", "!", "/", "!\n/", "\t", "\001",
        "\314\201", "\344\275\240", "\343\200\200", "\331\241", "\343\201\200", "\320\226", "\344\275\240A", "!\314\201",
    };
    static struct trial trial;
    size_t most = 1 << 20;

    trial_init(&trial, most);
    for (size_t k = 0; k < sizeof runs / sizeof *runs; k++) {
        size_t bytes = strlen(runs[k]), n = most / bytes * bytes;
        for (size_t i = 0; i < n; i += bytes)
            memcpy(trial.room + i, runs[k], bytes);
        compare_at(&trial, trial.room, n, false);
        trial.room[n - 1] = 'x';
        compare_at(&trial, trial.room, n, false);
    }
    trial_done(&trial);
}
END_TEST

START_TEST(another_expression_is_not_taken_for_a_known_one)
{
    struct lk_pattern pattern = {.text = (const uint8_t *)*expressions[0], .n = 0};
    struct lk_cutter cutter;

    ck_assert_int_eq(lk_cutter_of_patterns(&pattern, 1, NULL, LK_SIMD_BEST, &cutter), LK_NOT_FOUND);
    pattern.n = strlen(*expressions[0]) - 1;
    ck_assert_int_eq(lk_cutter_of_patterns(&pattern, 1, NULL, LK_SIMD_BEST, &cutter), LK_NOT_FOUND);
    ck_assert_int_eq(lk_cutter_of_patterns(&pattern, 0, NULL, LK_SIMD_BEST, &cutter), LK_NOT_FOUND);

    struct lk_pattern some[3]; /* two of DeepSeek's, and all three in another order */
    for (size_t i = 0; i < 3; i++) {
        const char *text = expressions[EXPRESSIONS - 1][i == 0 ? 0 : 3 - i];
        some[i] = (struct lk_pattern){.text = (const uint8_t *)text, .n = strlen(text)};
    }
    ck_assert_int_eq(lk_cutter_of_patterns(some, 3, NULL, LK_SIMD_BEST, &cutter), LK_NOT_FOUND);
    ck_assert_int_eq(lk_cutter_of_patterns(some, 1, NULL, LK_SIMD_BEST, &cutter), LK_NOT_FOUND);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("op/pretok");
    TCase *t = tcase_create("pretok");
    tcase_set_timeout(t, 180);
    tcase_add_test(t, every_expression_cuts_where_the_reference_does);
    tcase_add_test(t, invalid_utf8_never_leads_outside_the_text);
    tcase_add_test(t, every_code_point_is_of_one_class_to_all_code);
    tcase_add_test(t, mixes_are_cut_alike_by_all_code);
    tcase_add_test(t, families_cut_as_their_expressions_say);
    tcase_add_test(t, long_runs_are_cut_as_the_expressions_say);
    tcase_add_test(t, what_is_no_utf8_is_cut_alike_by_all_code);
    tcase_add_test(t, long_runs_are_cut_alike_by_all_code);
    tcase_add_test(t, another_expression_is_not_taken_for_a_known_one);
    suite_add_tcase(s, t);
    return s;
}
