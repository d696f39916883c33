/*
 * A .tiktoken file: one token a line, its bytes in base64 and its rank, which is its id. What else belongs to
 * a tokenizer is not in the file, but in a scheme that goes by a name.
 *
 * tiktoken's rule: a piece that is a token is that token; in any other, the two neighbours whose joined
 * bytes are the token of lowest rank are merged, the leftmost first, as long as there are any. So every
 * way of cutting a token into two tokens is a merge with that token's rank.
 */
#include "op/pretok/families.h"
#include "op/pretok/trailing.h"
#include "op/tokenise/internal.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- schemes ---- */

enum pattern { GPT2, CL100K, O200K };

/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): a table of a few, in the order it is read in */
struct scheme {
    const char *name;
    enum pattern pattern;
    struct special {
        const char *text;
        uint32_t id;
    } specials[17]; /* the first without text ends them */
    uint32_t reserved, reserved_end; /* ids of tokens <|reserved_ID|> besides, */
    uint32_t also_reserved;          /*   of which one has another name, too */
};

#define END_OF_TEXT "<|endoftext|>"

static const struct scheme schemes[] = {
    {"gpt2", GPT2, {{END_OF_TEXT, 50256}}, 0, 0, 0},
    {"r50k_base", GPT2, {{END_OF_TEXT, 50256}}, 0, 0, 0},
    {"p50k_base", GPT2, {{END_OF_TEXT, 50256}}, 0, 0, 0},
    {"p50k_edit",
     GPT2,
     {{END_OF_TEXT, 50256}, {"<|fim_prefix|>", 50281}, {"<|fim_middle|>", 50282}, {"<|fim_suffix|>", 50283}},
     0,
     0,
     0},
    {"cl100k_base",
     CL100K,
     {{END_OF_TEXT, 100257},
      {"<|fim_prefix|>", 100258},
      {"<|fim_middle|>", 100259},
      {"<|fim_suffix|>", 100260},
      {"<|endofprompt|>", 100276}},
     0,
     0,
     0},
    {"o200k_base", O200K, {{END_OF_TEXT, 199999}, {"<|endofprompt|>", 200018}}, 0, 0, 0},
    {"o200k_harmony",
     O200K,
     {{"<|startoftext|>", 199998},
      {END_OF_TEXT, 199999},
      {"<|reserved_200000|>", 200000},
      {"<|reserved_200001|>", 200001},
      {"<|return|>", 200002},
      {"<|constrain|>", 200003},
      {"<|reserved_200004|>", 200004},
      {"<|channel|>", 200005},
      {"<|start|>", 200006},
      {"<|end|>", 200007},
      {"<|message|>", 200008},
      {"<|reserved_200009|>", 200009},
      {"<|reserved_200010|>", 200010},
      {"<|reserved_200011|>", 200011},
      {"<|call|>", 200012},
      {"<|endofprompt|>", 200018}},
     200013,
     201088,
     200018},
};

#define SCHEMES_N (sizeof schemes / sizeof *schemes)

static enum lk_code find_scheme(const char *name, const struct scheme **ret_scheme, struct lk_err *err)
{
    struct lk_buf names = {0};

    for (size_t i = 0; i < SCHEMES_N; i++) {
        if (name != NULL && strcmp(name, schemes[i].name) == 0) {
            *ret_scheme = &schemes[i];
            lk_buf_done(&names);
            return LK_OK;
        }
        lk_buf_putf(&names, "%s%s", i == 0 ? "" : ", ", schemes[i].name);
    }
    enum lk_code code = lk_fail(err, LK_INVALID_ARGUMENT, "no scheme is called \"%s\"; there are %s",
                                name == NULL ? "" : name, lk_buf_cstr(&names));
    lk_buf_done(&names);
    return code;
}

static void use_pattern(struct lk_tokenizer *tokenizer, enum pattern pattern)
{
    struct lk_cutter *cutter = &tokenizer->pretok.stages[tokenizer->pretok.n++];
    enum lk_simd simd = lk_simd_here();

    if (pattern == CL100K) /* unlike the file that others made of it, tiktoken has this expression */
        lk_cutter_trailing(lk_cut_cl100k(simd), &tokenizer->unicode, cutter);
    else
        *cutter = (struct lk_cutter){.cut = pattern == GPT2 ? lk_cut_gpt2(simd) : lk_cut_o200k(simd),
                                     .unicode = &tokenizer->unicode};
}

static enum lk_code add_special(struct lk_tokenizer *tokenizer, const char *text, uint32_t id,
                                struct lk_err *err)
{
    if (lk_vocab_has(&tokenizer->vocab, id))
        return lk_fail(err, LK_INVALID_ARGUMENT,
                       "a token has the rank %u, which is %s in this scheme: are the ranks another one's?",
                       id, text);
    lk_push_special(tokenizer, text, id);
    return LK_OK;
}

static enum lk_code add_specials(struct lk_tokenizer *tokenizer, const struct scheme *scheme,
                                 struct lk_err *err)
{
    char text[32];

    for (const struct special *special = scheme->specials; special->text != NULL; special++)
        LK_TRY(add_special(tokenizer, special->text, special->id, err));
    for (uint32_t id = scheme->reserved; id < scheme->reserved_end; id++) {
        (void)snprintf(text, sizeof text, "<|reserved_%u|>", id);
        if (id == scheme->also_reserved)
            lk_push_special(tokenizer, text, id);
        else
            LK_TRY(add_special(tokenizer, text, id, err));
    }
    return LK_OK;
}

/* ---- the file ---- */

static int digit_of(uint8_t c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Appends what base64 (RFC 4648, padded) stands for; false: it is none. */
static bool put_base64(struct lk_buf *out, const uint8_t *p, size_t n)
{
    unsigned pad = n > 0 && p[n - 1] == '=' ? 1 + (n > 1 && p[n - 2] == '=') : 0;
    uint32_t bits = 0;

    if (n == 0 || n % 4 != 0)
        return false;
    for (size_t i = 0; i < n; i++) {
        int digit = i + pad >= n ? 0 : digit_of(p[i]);
        if (digit < 0)
            return false;
        bits = bits << 6 | (uint32_t)digit;
        if (i % 4 == 3) {
            uint8_t three[3] = {(uint8_t)(bits >> 16), (uint8_t)(bits >> 8), (uint8_t)bits};
            lk_buf_put(out, three, i + 1 == n ? 3 - pad : 3);
        }
    }
    return true;
}

static bool read_rank(const uint8_t *p, size_t n, uint64_t *ret_rank)
{
    uint64_t rank = 0;

    if (n == 0 || n > 10)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (p[i] < '0' || p[i] > '9')
            return false;
        rank = rank * 10 + (p[i] - '0');
    }
    *ret_rank = rank;
    return true;
}

#define TOKEN_BYTES_MAX 1024 /* far above the longest there is: every way of cutting one is looked up */

static enum lk_code read_line(struct lk_bpe_files *out, struct lk_buf *bytes, const uint8_t *line,
                              size_t n, struct lk_err *err)
{
    const uint8_t *space = memchr(line, ' ', n);
    size_t token_n = space == NULL ? 0 : (size_t)(space - line);
    uint64_t rank = 0;

    bytes->len = 0;
    if (space == NULL || !read_rank(space + 1, n - token_n - 1, &rank))
        return lk_fail(err, LK_INVALID_ARGUMENT, "expected a token in base64, a space and its rank");
    if (!put_base64(bytes, line, token_n))
        return lk_fail(err, LK_INVALID_ARGUMENT, "the token is not base64");
    if (bytes->len > TOKEN_BYTES_MAX)
        return lk_fail(err, LK_INVALID_ARGUMENT, "a token of %zu bytes, expected at most %d", bytes->len,
                       TOKEN_BYTES_MAX);
    return lk_add_token(out, bytes->data, bytes->len, rank, err);
}

#define LINE_BYTES 20 /* roughly: it only spares growing */

static enum lk_code read_ranks(const struct lk_tokenizer_files *files, struct lk_bpe_files *out,
                               struct lk_err *err)
{
    const uint8_t *p = files->main, *end = p + files->main_bytes;
    struct lk_buf bytes = {0};
    enum lk_code code = LK_OK;

    lk_names_reserve(&out->names, files->main_bytes / LINE_BYTES);
    for (size_t number = 1; p < end && code == LK_OK; number++) {
        const uint8_t *stop = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)((stop == NULL ? end : stop) - p);
        size_t kept = n - (n > 0 && p[n - 1] == '\r');
        if (kept > 0)
            code = read_line(out, &bytes, p, kept, err);
        if (code != LK_OK)
            code = lk_fail_in(err, "%s:%zu", files->main_name, number);
        p += n + (stop != NULL);
    }
    lk_buf_done(&bytes);
    return code;
}

/* ---- ranks as merges ---- */

static void add_merges(struct lk_bpe_files *files)
{
    for (size_t i = 0; i < files->names.n; i++) {
        const struct lk_name *name = &files->names.items[i];
        const uint8_t *bytes = files->names.pool.data + name->start;
        for (uint32_t left_n = 1; left_n < name->n; left_n++) {
            struct lk_merge merge = {.id = name->id};
            merge.left = lk_names_find(&files->names, bytes, left_n);
            if (merge.left == LK_NO_ID)
                continue;
            merge.right = lk_names_find(&files->names, bytes + left_n, name->n - left_n);
            if (merge.right != LK_NO_ID)
                lk_push_merge(files, merge);
        }
    }
}

static enum lk_code check_bytes(const struct lk_names *names, struct lk_err *err)
{
    for (unsigned b = 0; b < 256; b++) {
        uint8_t byte = (uint8_t)b;
        if (lk_names_find(names, &byte, 1) == LK_NO_ID)
            return lk_fail(err, LK_INVALID_ARGUMENT, "the byte 0x%02X has no token", b);
    }
    return LK_OK;
}

static enum lk_code read_file(struct lk_tokenizer *tokenizer, const struct lk_tokenizer_files *files,
                              const struct scheme *scheme, struct lk_bpe_files *parsed,
                              struct lk_err *err)
{
    LK_TRY(read_ranks(files, parsed, err));
    enum lk_code code = check_bytes(&parsed->names, err);
    if (code == LK_OK) {
        add_merges(parsed);
        code = lk_build(tokenizer, parsed, err);
    }
    if (code == LK_OK)
        code = add_specials(tokenizer, scheme, err);
    return code == LK_OK ? LK_OK : lk_fail_in(err, "%s", files->main_name);
}

enum lk_code lk_load_tiktoken(struct lk_tokenizer *tokenizer, const struct lk_tokenizer_files *files,
                              struct lk_err *err)
{
    struct lk_bpe_files parsed = {
        .spelling = LK_SPELLING_RAW, .ignore_merges = true, .ids_are_ranks = true};
    const struct scheme *scheme = NULL;

    if (find_scheme(files->scheme, &scheme, err) != LK_OK)
        return lk_fail_in(err, "%s", files->main_name);
    use_pattern(tokenizer, scheme->pattern);
    enum lk_code code = read_file(tokenizer, files, scheme, &parsed, err);
    if (code == LK_OK)
        lk_note(tokenizer,
                "scheme %s, tiktoken's rule: a piece that is a token is that token, in others "
                "neighbours merge by the rank of what they make",
                scheme->name);
    lk_bpe_files_done(&parsed);
    return code;
}
