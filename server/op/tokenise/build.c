/*
 * From what the files say to the tables that encoding uses.
 */
#include "op/tokenise/internal.h"

#include "base/json.h"
#include "op/pretok/joins.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define SHOWN 80 /* bytes of a file's string in a message */

void lk_bpe_files_done(struct lk_bpe_files *files)
{
    lk_names_done(&files->names);
    free(files->merges);
    free(files->unknown);
    lk_buf_done(&files->joined);
    *files = (struct lk_bpe_files){0};
}

void lk_note(struct lk_tokenizer *tokenizer, const char *format, ...)
{
    char line[256];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (tokenizer->notes.len > 0)
        lk_buf_puts(&tokenizer->notes, "\n");
    lk_buf_puts(&tokenizer->notes, line);
}

/* Fails with a text about a string of the file, quoted and cut. */
static enum lk_code fail_about(struct lk_err *err, const char *before, const void *text, size_t n,
                               const char *after)
{
    struct lk_buf quoted = {0};

    lk_json_quote(&quoted, text, n < SHOWN ? n : SHOWN);
    enum lk_code code = lk_fail(err, LK_INVALID_ARGUMENT, "%s%s%s%s", before,
                                lk_buf_cstr(&quoted), n < SHOWN ? "" : "...", after);
    lk_buf_done(&quoted);
    return code;
}

enum lk_code lk_add_token(struct lk_bpe_files *files, const uint8_t *text, size_t n, uint64_t id,
                          struct lk_err *err)
{
    if (id >= LK_VOCAB_MAX)
        return lk_fail(err, LK_INVALID_ARGUMENT, "id %llu, expected at most %u",
                       (unsigned long long)id, LK_VOCAB_MAX - 1);
    if (!lk_names_add(&files->names, text, n, (uint32_t)id))
        return fail_about(err, "the token ", text, n, " is given twice");
    return LK_OK;
}

void lk_push_merge(struct lk_bpe_files *files, struct lk_merge merge)
{
    if (files->merges_n == files->merges_cap) {
        files->merges_cap = files->merges_cap == 0 ? 1024 : files->merges_cap * 2;
        files->merges = lk_resize(files->merges, files->merges_cap, sizeof *files->merges);
    }
    files->merges[files->merges_n++] = merge;
}

enum lk_code lk_find_part(const struct lk_bpe_files *files, const uint8_t *text, size_t n,
                          uint32_t *ret_place, struct lk_err *err)
{
    *ret_place = lk_names_place(&files->names, text, n);
    if (*ret_place == LK_NO_ID)
        return fail_about(err, "the part ", text, n, " is not in the vocabulary");
    return LK_OK;
}

static bool is_joined(const struct lk_names *names, uint32_t place, const struct lk_name *left,
                      const struct lk_name *right)
{
    if (place >= names->n || names->items[place].n != left->n + right->n)
        return false;
    const uint8_t *text = lk_name_text(names, &names->items[place]);
    return memcmp(text, lk_name_text(names, left), left->n) == 0 &&
           memcmp(text + left->n, lk_name_text(names, right), right->n) == 0;
}

/* The place of what a merge makes. Merges mostly make the vocabulary's tokens in order, so that it is
 * guessed first. */
static uint32_t find_joined(struct lk_bpe_files *files, const struct lk_name *left,
                            const struct lk_name *right)
{
    const struct lk_names *names = &files->names;

    if (is_joined(names, files->made, left, right))
        return files->made;
    if (is_joined(names, files->made + 1, left, right))
        return files->made + 1;
    files->joined.len = 0;
    lk_buf_put(&files->joined, lk_name_text(names, left), left->n);
    lk_buf_put(&files->joined, lk_name_text(names, right), right->n);
    return lk_names_place(names, files->joined.data, files->joined.len);
}

enum lk_code lk_add_merge_of(struct lk_bpe_files *files, uint32_t left, uint32_t right,
                             struct lk_err *err)
{
    const struct lk_name *items = files->names.items;
    uint32_t made = find_joined(files, &items[left], &items[right]);

    if (made == LK_NO_ID)
        return fail_about(err, "the result ", files->joined.data, files->joined.len,
                          " is not in the vocabulary");
    files->made = made;
    lk_push_merge(files, (struct lk_merge){
                             .left = items[left].id, .right = items[right].id, .id = items[made].id});
    return LK_OK;
}

enum lk_code lk_add_merge(struct lk_bpe_files *files, const uint8_t *left, size_t left_n,
                          const uint8_t *right, size_t right_n, struct lk_err *err)
{
    uint32_t places[2] = {0};

    LK_TRY(lk_find_part(files, left, left_n, &places[0], err));
    LK_TRY(lk_find_part(files, right, right_n, &places[1], err));
    return lk_add_merge_of(files, places[0], places[1], err);
}

/* The byte that "<0xNN>" stands for; -1: it is not spelled so. */
static int byte_token(const uint8_t *text, size_t n)
{
    static const char digits[] = "0123456789ABCDEF";

    if (n != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>')
        return -1;
    const char *high = memchr(digits, text[3], 16), *low = memchr(digits, text[4], 16);
    return high == NULL || low == NULL ? -1 : (int)((high - digits) << 4 | (low - digits));
}

/* Appends @text with another spelling of the marks: U+2581 becomes ' '. */
static void put_spaced(struct lk_buf *out, const uint8_t *text, size_t n)
{
    const uint8_t *end = text + n;

    while (text < end) {
        const uint8_t *mark = memmem(text, (size_t)(end - text), "\xe2\x96\x81", 3);
        lk_buf_put(out, text, (size_t)((mark == NULL ? end : mark) - text));
        if (mark == NULL)
            break;
        lk_buf_puts(out, " ");
        text = mark + 3;
    }
}

/* What the file's decoder makes of a token. */
static void put_shown(const struct lk_bpe_files *files, const uint8_t *text, size_t n,
                      struct lk_buf *out)
{
    int byte = byte_token(text, n);

    if (files->decoder.bytes && byte >= 0) {
        uint8_t value = (uint8_t)byte;
        lk_buf_put(out, &value, 1);
    } else if (files->decoder.marks) {
        put_spaced(out, text, n);
    } else {
        lk_buf_put(out, text, n);
    }
}

/* A token of a model of characters: its place in the alphabet, and what detokenising shows of it. Appends
 * to @bytes how it stands in text, and says whether text so spelled may be looked up as a whole. */
static bool add_character_token(struct lk_tokenizer *tokenizer, const struct lk_bpe_files *files,
                                const struct lk_name *name, struct lk_buf *bytes)
{
    struct lk_alphabet *alphabet = &tokenizer->bpe.alphabet;
    const uint8_t *text = files->names.pool.data + name->start;
    int byte = byte_token(text, name->n);
    struct lk_buf shown = {0};
    size_t length = 0;

    if (byte >= 0 && files->byte_fallback)
        alphabet->byte_id[byte] = name->id;
    uint32_t point = name->n > 0 ? lk_decode(text, text + name->n, &length) : 0;
    bool space = memchr(text, ' ', name->n) != NULL;
    if (length > 0 && length == name->n && !(tokenizer->marks && space)) {
        lk_alphabet_add(alphabet, point, name->id);
        if (tokenizer->marks && point == LK_MARK)
            lk_alphabet_add(alphabet, ' ', name->id);
    }
    if (tokenizer->marks)
        put_spaced(bytes, text, name->n);
    else
        lk_buf_put(bytes, text, name->n);
    put_shown(files, text, name->n, &shown);
    lk_vocab_set(&tokenizer->shown, name->id, shown.data, shown.len);
    lk_buf_done(&shown);
    return name->n > 0 && !(tokenizer->marks && space); /* such a token is never made */
}

/* The same of a token that stands for bytes. */
static bool add_byte_token(struct lk_tokenizer *tokenizer, const struct lk_bpe_files *files,
                           const struct lk_name *name, struct lk_buf *bytes)
{
    const uint8_t *text = files->names.pool.data + name->start;
    bool spelled = true;

    if (files->spelling == LK_SPELLING_RAW)
        lk_buf_put(bytes, text, name->n);
    else
        spelled = lk_byte_unspell(text, name->n, bytes);
    if (!spelled)
        lk_buf_put(bytes, text, name->n);
    if (spelled && bytes->len == 1)
        tokenizer->bpe.alphabet.byte_id[bytes->data[0]] = name->id;
    return spelled;
}

/* Id → bytes, and the symbols that merging starts from. */
static enum lk_code build_vocab(struct lk_tokenizer *tokenizer, const struct lk_bpe_files *files,
                                bool *spelled, struct lk_err *err)
{
    const struct lk_names *names = &files->names;
    struct lk_buf bytes = {0};
    enum lk_code code = LK_OK;

    lk_vocab_reserve(&tokenizer->vocab, (uint32_t)names->n, names->pool.len);
    for (size_t i = 0; i < names->n && code == LK_OK; i++) {
        const struct lk_name *name = &names->items[i];
        if (lk_vocab_has(&tokenizer->vocab, name->id)) {
            char after[48];
            (void)snprintf(after, sizeof after, " has the id %u of another token", name->id);
            code = fail_about(err, "the token ", names->pool.data + name->start, name->n, after);
            break;
        }
        bytes.len = 0;
        spelled[i] = files->spelling == LK_SPELLING_CHARACTERS
                         ? add_character_token(tokenizer, files, name, &bytes)
                         : add_byte_token(tokenizer, files, name, &bytes);
        lk_vocab_set(&tokenizer->vocab, name->id, bytes.data, bytes.len);
    }
    lk_buf_done(&bytes);
    return code;
}

/* Pieces that are one token whatever merging makes of them. Without ignore_merges there are none. */
static void build_words(struct lk_tokenizer *tokenizer, const struct lk_bpe_files *files,
                        const bool *spelled)
{
    for (size_t i = 0; files->ignore_merges && i < files->names.n; i++) {
        uint32_t id = files->names.items[i].id;
        struct lk_span span = tokenizer->vocab.spans[id];
        if (spelled[i] && span.n > 0)
            lk_bpe_add_word(&tokenizer->bpe, tokenizer->vocab.pool.data + span.start, span.n, id);
    }
}

/* What becomes of characters without a token; says so if there can be any. */
static enum lk_code build_unknown(struct lk_tokenizer *tokenizer, const struct lk_bpe_files *files,
                                  struct lk_err *err)
{
    struct lk_alphabet *alphabet = &tokenizer->bpe.alphabet;
    unsigned missing = lk_alphabet_missing_bytes(alphabet);

    if (missing == 0)
        return LK_OK; /* there are none */
    if (files->byte_fallback && files->spelling == LK_SPELLING_BYTES)
        return lk_fail(err, LK_UNIMPLEMENTED,
                       "byte_fallback in a byte-level model that lacks %u byte values is not "
                       "implemented", missing);
    if (files->unknown != NULL) {
        alphabet->unknown = lk_names_find(&files->names, files->unknown, files->unknown_n);
        if (alphabet->unknown == LK_NO_ID)
            return fail_about(err, "the unk_token ", files->unknown, files->unknown_n,
                              " is not in the vocabulary");
        alphabet->fuse = files->fuse_unknown;
        return LK_OK;
    }
    if (alphabet->characters)
        lk_note(tokenizer, "there is no unk_token%s: characters without a token are left out, as the "
                           "reference does",
                files->byte_fallback ? " and some of the tokens of bytes are missing" : "");
    else
        lk_note(tokenizer,
                "%u of the byte values that UTF-8 uses have no token: where text has them, they "
                "are left out, as the reference does",
                missing);
    return LK_OK;
}

/* ---- where texts can be cut although the model merges them whole ---- */

/* First and last characters of tokens, by id. */
struct ends {
    uint32_t first, last;
};

static struct ends *ends_of(const struct lk_tokenizer *tokenizer, const struct lk_names *names)
{
    struct ends *ends = lk_zalloc(tokenizer->vocab.n, sizeof *ends);

    for (size_t i = 0; i < names->n; i++) {
        const struct lk_name *name = &names->items[i];
        const uint8_t *p = names->pool.data + name->start, *end = p + name->n, *last = end;
        size_t n;
        if (name->n == 0)
            continue;
        do
            last--;
        while (last > p && (*last & 0xc0) == 0x80);
        ends[name->id] = (struct ends){.first = lk_decode(p, end, &n),
                                       .last = lk_decode(last, end, &n)};
    }
    return ends;
}

/* Do all merges work on tokens that are made of their own characters? A token of a byte and the unknown
 * one also stand for other characters. */
static bool merges_characters_only(const struct lk_tokenizer *tokenizer,
                                   const struct lk_bpe_files *files)
{
    const struct lk_alphabet *alphabet = &tokenizer->bpe.alphabet;
    bool *other = lk_zalloc(tokenizer->vocab.n, sizeof *other);
    bool only = true;

    for (unsigned b = 0; b < 256; b++)
        if (alphabet->byte_id[b] != LK_NO_ID)
            other[alphabet->byte_id[b]] = true;
    if (alphabet->unknown != LK_NO_ID)
        other[alphabet->unknown] = true;
    for (size_t i = 0; i < files->merges_n && only; i++)
        only = !other[files->merges[i].left] && !other[files->merges[i].right];
    free(other);
    return only;
}

/* A cutter where no merge joins, after those that the file has. Without one a text is a single piece: as
 * exact, only slower. It needs that nothing vanishes, which would make neighbours of others, and that no
 * piece is looked up whole. */
static void build_joins(struct lk_tokenizer *tokenizer, const struct lk_bpe_files *files)
{
    const struct lk_alphabet *alphabet = &tokenizer->bpe.alphabet;
    struct lk_pretok *pretok = &tokenizer->pretok;
    bool vanishes = lk_alphabet_missing_bytes(alphabet) > 0 && alphabet->unknown == LK_NO_ID;

    if (files->ignore_merges || vanishes || pretok->n == LK_PRETOK_STAGES ||
        !merges_characters_only(tokenizer, files))
        return;
    struct lk_joins *joins = lk_joins_new(tokenizer->marks ? LK_MARK : ' ');
    struct ends *ends = ends_of(tokenizer, &files->names);
    for (size_t i = 0; i < files->merges_n; i++)
        lk_joins_add(joins, ends[files->merges[i].left].last, ends[files->merges[i].right].first);
    free(ends);
    if (alphabet->unknown != LK_NO_ID) {
        bool known[128];
        for (unsigned c = 0; c < 128; c++)
            known[c] = alphabet->ascii_id[c] != LK_NO_ID;
        lk_joins_keep_unknown(joins, known);
    }
    lk_cutter_joins(joins, &pretok->stages[pretok->n++]);
}

/* Ids may have holes, but memory must follow the file's size, not a number in it. */
static enum lk_code check_ids(const struct lk_names *names, struct lk_err *err)
{
    for (size_t i = 0; i < names->n; i++)
        if (names->items[i].id > names->n * 8 + 65536)
            return lk_fail(err, LK_INVALID_ARGUMENT, "id %u in a vocabulary of %zu tokens",
                           names->items[i].id, names->n);
    return LK_OK;
}

enum lk_code lk_build(struct lk_tokenizer *tokenizer, const struct lk_bpe_files *files,
                      struct lk_err *err)
{
    LK_TRY(check_ids(&files->names, err));
    if (files->merges_n > LK_RANKS_MAX)
        return lk_fail(err, LK_INVALID_ARGUMENT, "%zu merges, expected at most %u", files->merges_n,
                       LK_RANKS_MAX);
    bool *spelled = lk_zalloc(files->names.n + 1, sizeof *spelled);

    lk_unicode_init(&tokenizer->unicode);
    lk_normal_build(&tokenizer->normal, &tokenizer->unicode);
    lk_normal_build(&tokenizer->section, &tokenizer->unicode);
    lk_bpe_init(&tokenizer->bpe, files->merges_n, files->ignore_merges ? files->names.n : 0);
    if (files->spelling == LK_SPELLING_CHARACTERS)
        lk_alphabet_use_characters(&tokenizer->bpe.alphabet);
    for (size_t i = 0; i < files->merges_n; i++)
        lk_bpe_add_pair(&tokenizer->bpe, files->merges[i].left, files->merges[i].right,
                        files->ids_are_ranks ? files->merges[i].id : (uint32_t)i,
                        files->merges[i].id);
    enum lk_code code = build_vocab(tokenizer, files, spelled, err);
    if (code == LK_OK)
        code = build_unknown(tokenizer, files, err);
    if (code == LK_OK) {
        if (tokenizer->bpe.alphabet.characters)
            build_joins(tokenizer, files);
        if (tokenizer->pretok.n == 0)
            lk_cutter_whole(&tokenizer->pretok.stages[tokenizer->pretok.n++]);
        build_words(tokenizer, files, spelled);
        lk_bpe_finish(&tokenizer->bpe);
    }
    free(spelled);
    return code;
}

/* The reference's rule for a token that the vocabulary lacks. */
static uint32_t next_free_id(const struct lk_added *added, const struct lk_names *names)
{
    return added->end_id > names->n ? added->end_id : (uint32_t)names->n;
}

/* What is looked for: the token as the text has it where that is done. */
static void put_pattern(const struct lk_tokenizer *tokenizer, const struct lk_added_token *token,
                        struct lk_buf *pattern)
{
    struct lk_normal_scratch scratch = {0};
    const uint8_t *text = token->text;
    size_t n = token->n;

    if (token->normalized)
        lk_normal_apply(&tokenizer->normal, &scratch, text, n, &text, &n);
    lk_buf_put(pattern, text, n);
    lk_normal_scratch_done(&scratch);
}

/* Decoders make no difference between added tokens and others. */
static void show_added(struct lk_tokenizer *tokenizer, const struct lk_bpe_files *files,
                       const struct lk_added_token *token)
{
    struct lk_buf shown = {0};

    if (tokenizer->shown.n == 0)
        return;
    put_shown(files, token->text, token->n, &shown);
    lk_vocab_set(&tokenizer->shown, token->id, shown.data, shown.len);
    lk_buf_done(&shown);
}

void lk_push_special(struct lk_tokenizer *tokenizer, const char *text, uint32_t id)
{
    struct lk_added_token token = {.text = (uint8_t *)lk_strdup(text),
                                   .n = strlen(text),
                                   .pattern = (uint8_t *)lk_strdup(text),
                                   .pattern_n = strlen(text),
                                   .id = id,
                                   .special = true};

    lk_added_push(&tokenizer->added, token);
    if (!lk_vocab_has(&tokenizer->vocab, id))
        lk_vocab_set(&tokenizer->vocab, id, text, token.n);
}

enum lk_code lk_add_added(struct lk_tokenizer *tokenizer, const struct lk_bpe_files *files,
                          const struct lk_added_token *token, uint32_t want, struct lk_err *err)
{
    struct lk_added_token copy = *token;

    if (token->n == 0)
        return lk_fail(err, LK_INVALID_ARGUMENT, "an added token without text");
    if (lk_added_find(&tokenizer->added, token->text, token->n) != NULL)
        return fail_about(err, "the added token ", token->text, token->n, " is given twice");
    copy.id = lk_names_find(&files->names, token->text, token->n);
    if (copy.id == LK_NO_ID)
        copy.id = next_free_id(&tokenizer->added, &files->names);
    if (want != LK_NO_ID && want != copy.id) {
        char after[96];
        (void)snprintf(after, sizeof after, " has the id %u, but the reference gives it %u", want,
                       copy.id);
        return fail_about(err, "the added token ", token->text, token->n, after);
    }
    if (copy.id >= LK_VOCAB_MAX)
        return lk_fail(err, LK_INVALID_ARGUMENT, "no id is left below %u", LK_VOCAB_MAX);
    struct lk_buf pattern = {0};
    put_pattern(tokenizer, token, &pattern);
    if (pattern.len == 0) {
        lk_buf_done(&pattern);
        return fail_about(err, "nothing is left after normalisation of the added token ",
                          token->text, token->n, "");
    }
    if (lk_added_has_pattern(&tokenizer->added, token->normalized, pattern.data, pattern.len)) {
        lk_buf_done(&pattern); /* the reference takes either, by chance */
        return fail_about(err, "after normalisation another added token is the same as ",
                          token->text, token->n, "");
    }
    copy.text = lk_alloc(token->n);
    memcpy(copy.text, token->text, token->n);
    copy.pattern = pattern.data;
    copy.pattern_n = pattern.len;
    lk_added_push(&tokenizer->added, copy);
    lk_vocab_set(&tokenizer->vocab, copy.id, copy.text, copy.n);
    show_added(tokenizer, files, &copy);
    return LK_OK;
}
