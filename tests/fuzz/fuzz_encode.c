/*
 * Byte pair encoding by the book against lk_encode: a small tokenizer.json is made of the input, over bytes
 * or over characters (with byte fallback and unknown tokens), and a text of its letters; merging one pair
 * after the other, as the algorithm is written down, must give the same ids as lk_encode's tables, caches
 * and heaps, also the second time.
 *
 * Input: a byte of flags, a byte that says which letters have a token, the number of merges and two
 * bytes for each, and the text, a byte a letter (the upper bits repeat it).
 */
#include "op/tokenise/tokenizer.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>

enum {
    PIECES = 1,        /* over characters */
    IGNORE_MERGES = 2, /* a word of the vocabulary is that token */
    FUSE = 4,          /* unknowns in a row are one */
    FALLBACK = 8,      /* tokens for bytes, where all of a character's have one */
    UNKNOWN = 16,      /* there is a token for the unknown; otherwise it vanishes */
    FEW_BYTES = 32,    /* not every byte has a token */
};
enum { LETTERS = 8, TOKENS_MAX = 400, TOKEN_BYTES = 64, MERGES_MAX = 48, SYMBOLS_MAX = 1024 };

/* Over bytes, each byte of a letter is a symbol; over characters, each letter. */
static const char *const byte_letters[LETTERS] = {"a", "b", "c", " ", "\n", "\xc3\xa9", "d", "\xe4\xb8\xad"};
static const char *const piece_letters[LETTERS] = {
    "a", "b", "\xe2\x96\x81", "c", "\xc3\xa9", "\xe4\xb8\xad", "\xf0\x9f\x98\x80", "<"};

struct model {
    uint8_t flags;
    struct {
        char text[TOKEN_BYTES + 1]; /* as in the text, not as the file spells it */
    } tokens[TOKENS_MAX];
    uint32_t n;
    struct {
        uint32_t left, right, id;
    } merges[MERGES_MAX];
    uint32_t merges_n;
    uint32_t byte_id[256]; /* of <0x00> … when FALLBACK */
    uint32_t unknown;
};

#define NONE UINT32_MAX

static uint32_t find(const struct model *model, const char *text, size_t n)
{
    for (uint32_t i = 0; i < model->n; i++)
        if (strlen(model->tokens[i].text) == n && memcmp(model->tokens[i].text, text, n) == 0)
            return i;
    return NONE;
}

static uint32_t token(struct model *model, const char *text, size_t n)
{
    uint32_t id = find(model, text, n);

    if (id != NONE)
        return id;
    LK_CHECK(model->n < TOKENS_MAX && n <= TOKEN_BYTES);
    memcpy(model->tokens[model->n].text, text, n);
    return model->n++;
}

static void make_alphabet(struct model *model, uint8_t which)
{
    bool pieces = (model->flags & PIECES) != 0;

    model->unknown = NONE;
    if (pieces && (model->flags & UNKNOWN) != 0)
        model->unknown = token(model, "<unk>", 5);
    for (size_t i = 0; i < LETTERS; i++) {
        const char *letter = pieces ? piece_letters[i] : byte_letters[i];
        if ((which >> i & 1) == 0 && i > 0)
            continue;
        if (pieces)
            (void)token(model, letter, strlen(letter));
        for (const char *p = letter; !pieces && *p != '\0'; p++)
            (void)token(model, p, 1);
    }
    for (unsigned byte = 0; byte < 256; byte++) {
        char name[8];
        model->byte_id[byte] = NONE;
        if (!pieces || (model->flags & FALLBACK) == 0 ||
            ((model->flags & FEW_BYTES) != 0 && byte % 3 == 0))
            continue;
        (void)snprintf(name, sizeof name, "<0x%02X>", byte);
        model->byte_id[byte] = token(model, name, 6);
    }
}

static void make_merges(struct model *model, struct lk_fuzz_input *input)
{
    uint32_t first = model->unknown == NONE ? 0 : 1, n = lk_fuzz_byte(input) % (MERGES_MAX + 1);
    char joined[2 * TOKEN_BYTES + 1];

    for (uint32_t i = 0; i < n; i++) {
        uint32_t left = first + lk_fuzz_byte(input) % (model->n - first);
        uint32_t right = first + lk_fuzz_byte(input) % (model->n - first);
        int bytes = snprintf(joined, sizeof joined, "%s%s", model->tokens[left].text,
                             model->tokens[right].text);
        if (bytes > TOKEN_BYTES)
            continue;
        uint32_t id = token(model, joined, (size_t)bytes);
        model->merges[model->merges_n].left = left;
        model->merges[model->merges_n].right = right;
        model->merges[model->merges_n++].id = id;
    }
}

/* ---- the file ---- */

/* As GPT-2 spells bytes: those that are no printable character stand further up. */
static uint32_t spelled(uint8_t byte)
{
    uint32_t moved = 0;

    for (unsigned i = 0; i <= byte; i++) {
        bool printable = (i >= 33 && i <= 126) || (i >= 161 && i <= 172) || i >= 174;
        if (i == byte && printable)
            return byte;
        moved += !printable;
    }
    return 255 + moved;
}

static void put_token(struct lk_buf *out, const struct model *model, uint32_t id)
{
    lk_buf_puts(out, "\"");
    for (const char *p = model->tokens[id].text; *p != '\0'; p++) {
        uint8_t bytes[4] = {(uint8_t)*p};
        size_t n = 1;
        if ((model->flags & PIECES) == 0)
            n = lk_utf8_put(spelled((uint8_t)*p), bytes);
        lk_buf_put(out, bytes, n);
    }
    lk_buf_puts(out, "\"");
}

static void put_flag(struct lk_buf *out, const char *name, bool flag)
{
    lk_buf_putf(out, "\"%s\":%s,", name, flag ? "true" : "false");
}

static struct lk_buf file_of(const struct model *model)
{
    struct lk_buf out = {0};
    bool pieces = (model->flags & PIECES) != 0;

    if (pieces)
        lk_buf_puts(&out, "{\"pre_tokenizer\":null,\"model\":{\"type\":\"BPE\",");
    else
        lk_buf_puts(&out, "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
                          "\"use_regex\":false},\"model\":{\"type\":\"BPE\",");
    put_flag(&out, "ignore_merges", (model->flags & IGNORE_MERGES) != 0);
    put_flag(&out, "fuse_unk", (model->flags & FUSE) != 0);
    put_flag(&out, "byte_fallback", pieces && (model->flags & FALLBACK) != 0);
    if (model->unknown != NONE)
        lk_buf_puts(&out, "\"unk_token\":\"<unk>\",");
    lk_buf_puts(&out, "\"vocab\":{");
    for (uint32_t i = 0; i < model->n; i++) {
        lk_buf_puts(&out, i > 0 ? "," : "");
        put_token(&out, model, i);
        lk_buf_putf(&out, ":%u", i);
    }
    lk_buf_puts(&out, "},\"merges\":[");
    for (uint32_t i = 0; i < model->merges_n; i++) {
        lk_buf_puts(&out, i > 0 ? ",[" : "[");
        put_token(&out, model, model->merges[i].left);
        lk_buf_puts(&out, ",");
        put_token(&out, model, model->merges[i].right);
        lk_buf_puts(&out, "]");
    }
    lk_buf_puts(&out, "]}}");
    return out;
}

/* ---- by the book ---- */

static bool put_bytes(const struct model *model, const char *letter, struct lk_tokens *out)
{
    if ((model->flags & FALLBACK) == 0)
        return false;
    for (const char *p = letter; *p != '\0'; p++)
        if (model->byte_id[(uint8_t)*p] == NONE)
            return false;
    for (const char *p = letter; *p != '\0'; p++)
        lk_tokens_push(out, model->byte_id[(uint8_t)*p]);
    return true;
}

/* The reference keeps an unknown back until it knows whether another follows, and byte tokens pass it. */
static void put_letter(const struct model *model, const char *letter, bool *kept, struct lk_tokens *out)
{
    uint32_t id = find(model, letter, strlen(letter));

    if (id != NONE) {
        if (*kept)
            lk_tokens_push(out, model->unknown);
        *kept = false;
        lk_tokens_push(out, id);
    } else if (!put_bytes(model, letter, out) && model->unknown != NONE) {
        if (*kept && (model->flags & FUSE) == 0)
            lk_tokens_push(out, model->unknown);
        *kept = true;
    }
}

static uint32_t rank_of(const struct model *model, uint32_t left, uint32_t right)
{
    for (uint32_t i = model->merges_n; i-- > 0;) /* the last one counts */
        if (model->merges[i].left == left && model->merges[i].right == right)
            return i;
    return NONE;
}

static void merge_by_the_book(const struct model *model, struct lk_tokens *ids)
{
    for (;;) {
        uint32_t best = NONE;
        size_t at = 0;
        for (size_t i = 0; i + 1 < ids->n; i++) {
            uint32_t rank = rank_of(model, ids->ids[i], ids->ids[i + 1]);
            if (rank < best) {
                best = rank;
                at = i;
            }
        }
        if (best == NONE)
            return;
        ids->ids[at] = model->merges[best].id;
        memmove(ids->ids + at + 1, ids->ids + at + 2, (ids->n - at - 2) * sizeof *ids->ids);
        ids->n--;
    }
}

/* @letters: numbers of letters, one a byte. */
static void encode_by_the_book(const struct model *model, const struct lk_buf *letters,
                               const struct lk_buf *text, struct lk_tokens *out)
{
    uint32_t whole = find(model, (const char *)text->data, text->len);
    bool kept = false;

    if ((model->flags & IGNORE_MERGES) != 0 && whole != NONE) {
        lk_tokens_push(out, whole);
        return;
    }
    for (size_t i = 0; i < letters->len && (model->flags & PIECES) != 0; i++)
        put_letter(model, piece_letters[letters->data[i]], &kept, out);
    if (kept)
        lk_tokens_push(out, model->unknown);
    for (size_t i = 0; i < text->len && (model->flags & PIECES) == 0; i++) {
        uint32_t id = find(model, (const char *)text->data + i, 1);
        if (id != NONE)
            lk_tokens_push(out, id);
    }
    merge_by_the_book(model, out);
}

/* ---- one input ---- */

static void make_text(const struct model *model, struct lk_fuzz_input *input, struct lk_buf *letters,
                      struct lk_buf *text)
{
    const char *const *all = (model->flags & PIECES) != 0 ? piece_letters : byte_letters;

    while (input->left > 0) {
        uint8_t byte = lk_fuzz_byte(input);
        uint8_t letter = byte % LETTERS;
        unsigned times = 1u << (byte / LETTERS / 4); /* 1 … 128 */
        for (; times > 0 && letters->len < SYMBOLS_MAX; times--) {
            lk_buf_put(letters, &letter, 1);
            lk_buf_puts(text, all[letter]);
        }
    }
}

static void check(struct lk_encoder *encoder, const struct lk_buf *text, const struct lk_tokens *want)
{
    uint8_t *exact = lk_fuzz_copy(text->data, text->len);
    struct lk_tokens got = {0};

    lk_encode(encoder, exact, text->len, &got);
    LK_CHECK(got.n == want->n);
    for (size_t i = 0; i < got.n; i++)
        LK_CHECK(got.ids[i] == want->ids[i]);
    lk_tokens_done(&got);
    free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct lk_fuzz_input input = {data, n};
    struct model *model = lk_zalloc(1, sizeof *model);
    struct lk_buf letters = {0}, text = {0};
    struct lk_tokens want = {0};
    struct lk_tokenizer *tokenizer = NULL;
    struct lk_err err = {0};

    model->flags = lk_fuzz_byte(&input);
    make_alphabet(model, lk_fuzz_byte(&input));
    make_merges(model, &input);
    make_text(model, &input, &letters, &text);
    struct lk_buf file = file_of(model);
    struct lk_tokenizer_files files = {
        .kind = LK_TOKENIZER_HF, .main = file.data, .main_bytes = file.len, .main_name = "made"};
    enum lk_code code = lk_tokenizer_new(&files, &tokenizer, &err);
    if (code != LK_OK)
        fprintf(stderr, "fuzz_encode: %s\n%s\n", err.text, lk_buf_cstr(&file));
    LK_CHECK(code == LK_OK);
    if (text.len > 0) {
        struct lk_encoder *encoder = lk_encoder_new_small(tokenizer);
        encode_by_the_book(model, &letters, &text, &want);
        check(encoder, &text, &want);
        check(encoder, &text, &want); /* from the caches */
        lk_encoder_free(encoder);
    }
    lk_tokenizer_free(tokenizer);
    lk_tokens_done(&want);
    lk_buf_done(&file);
    lk_buf_done(&letters);
    lk_buf_done(&text);
    free(model);
    return 0;
}
