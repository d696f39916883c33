/*
 * Merging against the definition: look at every pair of neighbours, replace the one of lowest rank, the
 * leftmost of several, until there is none. Vocabularies and pieces are random, from fixed seeds, over so
 * few symbols that most pieces merge many times.
 */
#include "op/tokenise/bpe.h"
#include "tests/lib/check_main.h"

#include <stdlib.h>
#include <string.h>

#define IDS_MAX 512u
#define MERGES_MAX 1024u
#define PIECE_MAX 1200u

static uint32_t roll(uint64_t *state, uint32_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % below;
}

/* ---- the definition ---- */

struct model {
    uint32_t merges[MERGES_MAX][3]; /* left, right, result */
    uint32_t merges_n, ids_n;
    bool ids_are_ranks;              /* as in .tiktoken files: several pairs may have the same; else their order */
    uint32_t rank[IDS_MAX][IDS_MAX]; /* the last one given; UINT32_MAX: no pair */
    uint32_t id[IDS_MAX][IDS_MAX];   /* what it makes */
};

static size_t merge_by_definition(const struct model *model, uint32_t *ids, size_t n)
{
    for (;;) {
        uint32_t best = UINT32_MAX;
        size_t at = 0;
        for (size_t i = 0; i + 1 < n; i++)
            if (model->rank[ids[i]][ids[i + 1]] < best) {
                best = model->rank[ids[i]][ids[i + 1]];
                at = i;
            }
        if (best == UINT32_MAX)
            return n;
        ids[at] = model->id[ids[at]][ids[at + 1]];
        n--;
        memmove(ids + at + 1, ids + at + 2, (n - at - 1) * sizeof *ids);
    }
}

/* ---- random models ---- */

static void add_merge(struct model *model, uint32_t left, uint32_t right, uint32_t id)
{
    uint32_t *merge = model->merges[model->merges_n];

    merge[0] = left;
    merge[1] = right;
    merge[2] = id;
    model->rank[left][right] = model->ids_are_ranks ? id : model->merges_n;
    model->id[left][right] = id;
    model->merges_n++;
}

/* @symbols ids that pieces start from, and merges of them and of what they become. One in eight merges
 * makes a token that another makes, too; one in eight pairs comes twice, the second time with another
 * result; with @wild, parts may be tokens that only later merges make, so that what they need has a
 * higher rank than they have themselves. */
static void make_model(struct model *model, uint64_t *state, uint32_t symbols, uint32_t merges,
                       bool wild)
{
    model->merges_n = 0;
    model->ids_n = symbols;
    memset(model->rank, 0xff, sizeof model->rank);
    uint32_t last = symbols + merges < IDS_MAX ? symbols + merges : IDS_MAX;
    while (model->merges_n < merges) {
        uint32_t known = wild ? last : model->ids_n;
        uint32_t left = roll(state, known), right = roll(state, known), id = model->ids_n;
        if (roll(state, 3) == 0)
            left = roll(state, symbols);
        if (roll(state, 3) == 0)
            right = left;
        if (model->merges_n > 0 && roll(state, 8) == 0) {
            uint32_t again = roll(state, model->merges_n);
            left = model->merges[again][0];
            right = model->merges[again][1];
        }
        if ((model->ids_n > symbols && roll(state, 8) == 0) || id == last)
            id = symbols + roll(state, model->ids_n - symbols);
        else
            model->ids_n++;
        add_merge(model, left, right, id);
    }
}

static void give_merges(struct lk_bpe *bpe, const struct model *model)
{
    for (uint32_t i = 0; i < model->merges_n; i++)
        lk_bpe_add_pair(bpe, model->merges[i][0], model->merges[i][1],
                        model->ids_are_ranks ? model->merges[i][2] : i, model->merges[i][2]);
    lk_bpe_finish(bpe);
}

/* ---- comparing ---- */

static void compare(const struct lk_bpe *bpe, struct lk_bpe_scratch *scratch,
                    const struct model *model, const uint8_t *bytes, size_t n,
                    const uint32_t *start, size_t start_n)
{
    uint32_t want[PIECE_MAX], *got = lk_alloc(n * sizeof *got); /* no more: ASan sees if it is */
    memcpy(want, start, start_n * sizeof *start);
    size_t want_n = merge_by_definition(model, want, start_n);
    uint8_t *piece = lk_alloc(n);
    memcpy(piece, bytes, n);
    ck_assert_uint_eq(lk_bpe_merge(bpe, scratch, piece, n, got), want_n);
    ck_assert(memcmp(got, want, want_n * sizeof *want) == 0);
    free(piece);
    free(got);
}

/* Lengths of every kind: the shortest, those around the border between the two ways of merging, any, and
 * a few long ones. */
static size_t some_length(uint64_t *state, size_t max)
{
    static const size_t border[] = {1, 2, 3, 4, 5, 63, 64, 65, 66};
    size_t n = roll(state, 2) == 0 ? border[roll(state, 9)]
                                   : 1 + roll(state, roll(state, 16) == 0 ? PIECE_MAX : 200);
    return n < max ? n : max;
}

static void random_bytes(bool all, bool wild)
{
    struct model *model = lk_alloc(sizeof *model);
    struct lk_bpe_scratch scratch = {0};
    uint64_t state = 7 + all * 2 + wild;

    for (int round = 0; round < 60; round++) {
        uint32_t letters = 1 + roll(&state, 6);
        uint32_t symbols = all ? 256 : letters;
        model->ids_are_ranks = round % 4 == 3;
        make_model(model, &state, symbols, 1 + roll(&state, all ? 250 : 200), wild);
        struct lk_bpe bpe;
        lk_bpe_init(&bpe, model->merges_n, 0);
        for (uint32_t b = 0; b < symbols; b++)
            bpe.alphabet.byte_id[all ? b : 'a' + b] = all ? (b + letters) % 256 : b;
        give_merges(&bpe, model);
        ck_assert((bpe.byte_pairs != NULL) == all);
        for (int piece = 0; piece < 60; piece++) {
            uint8_t bytes[PIECE_MAX];
            uint32_t ids[PIECE_MAX];
            size_t n = some_length(&state, PIECE_MAX), ids_n = 0;
            for (size_t i = 0; i < n; i++) {
                bytes[i] = (uint8_t)('a' + roll(&state, letters + !all)); /* one has no token */
                if (bpe.alphabet.byte_id[bytes[i]] != LK_NO_ID)
                    ids[ids_n++] = bpe.alphabet.byte_id[bytes[i]];
            }
            compare(&bpe, &scratch, model, bytes, n, ids, ids_n);
        }
        lk_bpe_done(&bpe);
    }
    lk_bpe_scratch_done(&scratch);
    free(model);
}

START_TEST(bytes_merge_as_defined)
{
    random_bytes(true, false);
    random_bytes(false, false);
}
END_TEST

START_TEST(merges_whose_parts_come_later)
{
    random_bytes(true, true);
    random_bytes(false, true);
}
END_TEST

/* UTF-8 of two and three bytes; each character is one symbol. */
static size_t put_character(uint8_t *p, uint32_t point)
{
    if (point < 0x80) {
        p[0] = (uint8_t)point;
        return 1;
    }
    if (point < 0x800) {
        p[0] = (uint8_t)(0xc0 | point >> 6);
        p[1] = (uint8_t)(0x80 | (point & 63));
        return 2;
    }
    p[0] = (uint8_t)(0xe0 | point >> 12);
    p[1] = (uint8_t)(0x80 | (point >> 6 & 63));
    p[2] = (uint8_t)(0x80 | (point & 63));
    return 3;
}

START_TEST(characters_merge_as_defined)
{
    static const uint32_t points[] = {'a', 0xe9, 0x2581, 'b', 0x4e2d, ' '};
    struct model *model = lk_alloc(sizeof *model);
    struct lk_bpe_scratch scratch = {0};
    uint64_t state = 99;

    for (int round = 0; round < 60; round++) {
        uint32_t symbols = 1 + roll(&state, 6);
        model->ids_are_ranks = round % 4 == 3;
        make_model(model, &state, symbols, 1 + roll(&state, 200), round % 2 == 0);
        struct lk_bpe bpe;
        lk_bpe_init(&bpe, model->merges_n, 0);
        lk_alphabet_use_characters(&bpe.alphabet);
        for (uint32_t i = 0; i < symbols; i++)
            lk_alphabet_add(&bpe.alphabet, points[i], i);
        give_merges(&bpe, model);
        for (int piece = 0; piece < 60; piece++) {
            uint8_t bytes[PIECE_MAX * 3];
            uint32_t ids[PIECE_MAX];
            size_t count = some_length(&state, PIECE_MAX), n = 0;
            for (size_t i = 0; i < count; i++) {
                ids[i] = roll(&state, symbols);
                n += put_character(bytes + n, points[ids[i]]);
            }
            compare(&bpe, &scratch, model, bytes, n, ids, count);
        }
        lk_bpe_done(&bpe);
    }
    lk_bpe_scratch_done(&scratch);
    free(model);
}
END_TEST

START_TEST(words_are_found_by_their_bytes)
{
    struct lk_bpe bpe;
    uint8_t text[40];
    const uint32_t n = 5000;

    lk_bpe_init(&bpe, 0, n);
    for (uint32_t i = 0; i < n; i++) { /* of 5 to 15 bytes; a NUL inside and at the end makes a difference */
        size_t length = 5 + i % 11;
        memset(text, 0, sizeof text);
        memcpy(text + 1, &i, sizeof i);
        lk_bpe_add_word(&bpe, text, length, i);
    }
    lk_bpe_add_word(&bpe, (const uint8_t *)"0123456789abcdef", 16, 77);
    for (uint32_t i = 0; i < n; i++) {
        size_t length = 5 + i % 11;
        memset(text, 0, sizeof text);
        memcpy(text + 1, &i, sizeof i);
        struct lk_key key = lk_key_at_end(text, length);
        ck_assert_uint_eq(lk_bpe_word(&bpe, key, lk_key_hash(key)), i);
        key = lk_key_at_end(text, length == 15 ? 5 : length + 1);
        ck_assert_uint_eq(lk_bpe_word(&bpe, key, lk_key_hash(key)), LK_NO_ID);
    }
    ck_assert_uint_eq(lk_names_find(&bpe.long_words, "0123456789abcdef", 16), 77);
    lk_bpe_done(&bpe);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("op/bpe");
    TCase *t = tcase_create("merging");

    tcase_set_timeout(t, 120);
    tcase_add_test(t, bytes_merge_as_defined);
    tcase_add_test(t, merges_whose_parts_come_later);
    tcase_add_test(t, characters_merge_as_defined);
    tcase_add_test(t, words_are_found_by_their_bytes);
    suite_add_tcase(s, t);
    return s;
}
