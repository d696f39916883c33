/*
 * The cache of pieces: it may forget, but what it says is what was put in, whatever collides or
 * is replaced. And pieces through it: the very ids that merging each alone gives.
 */
#include "op/tokenise/pieces.h"
#include "tests/lib/check_main.h"

#include <stdlib.h>
#include <string.h>

static uint32_t roll(uint64_t *state, uint32_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % below;
}

/* ---- the cache alone ---- */

/* Piece number @i: of 1 to 40 bytes, some around the borders of a key and of what is kept. */
static size_t piece_of(uint32_t i, uint8_t bytes[LK_CACHE_LONG_BYTES + 1])
{
    static const uint16_t border[] = {15, 16, 17, LK_CACHE_LONG_BYTES, LK_CACHE_LONG_BYTES + 1};
    uint64_t state = i;
    size_t n = roll(&state, 4) == 0 ? border[roll(&state, 5)] : 4 + roll(&state, 37);

    memset(bytes, 'x', n);
    memcpy(bytes, &i, 4); /* it differs from every other early, or at its very end */
    if (n > 8 && i % 2 == 0) {
        memset(bytes, 'y', 4);
        memcpy(bytes + n - 4, &i, 4);
    }
    return n;
}

/* Its ids, so many that every way of keeping them is used; never more than a piece can have. */
static size_t ids_of(uint32_t i, size_t n, uint32_t ids[64])
{
    static const uint8_t counts[] = {0, 1, 2, 3, 4, 5, 14, 15, 16, 17, 30};
    size_t count = counts[i % sizeof counts] < n ? counts[i % sizeof counts] : n;

    for (size_t k = 0; k < count; k++)
        ids[k] = i * 31 + (uint32_t)k;
    return count;
}

static struct lk_key key_of(const uint8_t *bytes, size_t n)
{
    return n > LK_KEY_BYTES ? lk_cache_long_key(bytes, n) : lk_key_at_end(bytes, n);
}

/* Whether it is there; what is there is right. */
static bool check_piece(struct lk_cache *cache, uint32_t i)
{
    uint8_t bytes[LK_CACHE_LONG_BYTES + 1];
    uint32_t want[64];
    size_t n = piece_of(i, bytes), want_n = ids_of(i, n, want), got_n = 99;
    struct lk_key key = key_of(bytes, n);
    const uint32_t *got = lk_cache_find(cache, key, lk_key_hash(key), bytes, n, &got_n);

    if (got == NULL)
        return false;
    ck_assert_uint_eq(got_n, want_n);
    ck_assert(memcmp(got, want, want_n * sizeof *want) == 0);
    return true;
}

static bool put_piece(struct lk_cache *cache, uint32_t i)
{
    uint8_t bytes[LK_CACHE_LONG_BYTES + 1];
    uint32_t ids[64];
    size_t n = piece_of(i, bytes), ids_n = ids_of(i, n, ids);
    struct lk_key key = key_of(bytes, n);

    lk_cache_put(cache, key, lk_key_hash(key), bytes, n, ids, ids_n);
    return n <= LK_CACHE_LONG_BYTES;
}

START_TEST(what_it_says_is_what_was_put)
{
    static const size_t sizes[][2] = {{16, 1024}, {64, 2048}, {1u << 13, 1u << 16}};
    for (size_t s = 0; s < 3; s++) {
        struct lk_cache cache;
        uint64_t state = s;
        size_t hits = 0, all = 0;
        lk_cache_init(&cache, sizes[s][0], sizes[s][1]);
        for (uint32_t i = 0; i < 60000; i++) {
            uint32_t piece = roll(&state, roll(&state, 2) == 0 ? 30 : 20000);
            bool found = check_piece(&cache, piece);
            hits += found;
            all++;
            if (found)
                continue;
            if (put_piece(&cache, piece)) /* the last one put is always there */
                ck_assert(check_piece(&cache, piece));
            else
                ck_assert(!check_piece(&cache, piece));
        }
        ck_assert_uint_gt(cache.head, cache.ring_n); /* old words were overwritten */
        ck_assert_uint_gt(hits, all / 50);
        lk_cache_done(&cache);
    }
}
END_TEST

START_TEST(it_keeps_what_it_has_room_for)
{
    struct lk_cache cache;
    size_t kept = 0, there = 0;

    lk_cache_init(&cache, LK_CACHE_ENTRIES, LK_CACHE_RING);
    for (uint32_t i = 0; i < 50000; i++)
        kept += !check_piece(&cache, i) && put_piece(&cache, i);
    for (uint32_t i = 0; i < 50000; i++)
        there += check_piece(&cache, i);
    ck_assert_uint_ge(there, kept - kept / 100); /* all but a few whose places were all taken */
    lk_cache_done(&cache);
}
END_TEST

START_TEST(pieces_of_one_hash_are_told_apart)
{
    struct lk_cache cache;
    uint32_t ids[6] = {1, 2, 3, 4, 5, 6}, other = 9;
    size_t n = 0;
    uint8_t a[20] = "aaaaaaaaaaaaaaaaaaaa", b[20] = "aaaaaaaaaaaaaaaaaaab";
    struct lk_key key = lk_cache_long_key(a, 20);

    lk_cache_init(&cache, 64, 1024);
    lk_cache_put(&cache, key, 5, a, 20, ids, 6);
    ck_assert_ptr_nonnull(lk_cache_find(&cache, key, 5, a, 20, &n));
    ck_assert_ptr_null(lk_cache_find(&cache, key, 5, b, 20, &n)); /* same key, other bytes */
    for (uint8_t i = 0; i < LK_CACHE_WINDOW; i++) { /* short ones at one place: as many as a window */
        uint8_t text[3] = {'k', i, 0};
        other = 100 + i;
        lk_cache_put(&cache, lk_key_at_end(text, 2), 40, text, 2, &other, 1);
    }
    for (uint8_t i = 0; i < LK_CACHE_WINDOW; i++) {
        uint8_t text[3] = {'k', i, 0};
        const uint32_t *got = lk_cache_find(&cache, lk_key_at_end(text, 2), 40, text, 2, &n);
        ck_assert_ptr_nonnull(got);
        ck_assert_uint_eq(n, 1);
        ck_assert_uint_eq(*got, 100u + i);
        ck_assert_ptr_null(lk_cache_find(&cache, lk_key_at_end(text, 3), 40, text, 3, &n));
    }
    lk_cache_done(&cache);
}
END_TEST

/* ---- through the cache ---- */

/* Cuts after every space and at every 600th byte; stops after as many pieces as it likes. */
static size_t cut_words(const struct lk_cutter *cutter, const uint8_t *p, const uint8_t *end,
                        const uint8_t *ret_stops[LK_PIECES_MAX])
{
    size_t n = 0, most = 1 + (size_t)(end - p) % LK_PIECES_MAX;

    (void)cutter;
    while (n < most && p < end) {
        const uint8_t *space = memchr(p, ' ', (size_t)(end - p));
        const uint8_t *stop = space == NULL ? end : space + 1;
        ret_stops[n++] = p = stop - p > 600 ? p + 600 : stop;
    }
    return n;
}

/* Byte-level, with two hundred merges of small letters; ids of words are 1000 and more. */
static void make_bpe(struct lk_bpe *bpe)
{
    uint64_t state = 3;

    lk_bpe_init(bpe, 200, 3);
    for (uint32_t b = 0; b < 256; b++)
        bpe->alphabet.byte_id[b] = b;
    for (uint32_t i = 0; i < 200; i++) {
        uint32_t left = roll(&state, 26 + i), right = roll(&state, 26 + i);
        lk_bpe_add_pair(bpe, left < 26 ? 'a' + left : 230 + left, right < 26 ? 'a' + right : 230 + right, i,
                        256 + i);
    }
    lk_bpe_finish(bpe);
    lk_bpe_add_word(bpe, (const uint8_t *)"the ", 4, 1000);
    lk_bpe_add_word(bpe, (const uint8_t *)"fourteen_bytes ", 15, 1001);
    lk_bpe_add_word(bpe, (const uint8_t *)"longer_than_a_key ", 18, 1002);
}

static void put_word(struct lk_buf *text, uint64_t *state)
{
    static const char *const words[] = {"the ", "fourteen_bytes ", "longer_than_a_key ", "the", " "};
    uint32_t kind = roll(state, 16);
    uint32_t n = kind == 5 ? roll(state, 700) : 1 + roll(state, 20);

    if (kind < 5) {
        lk_buf_puts(text, words[kind]);
        return;
    }
    uint64_t seed = kind < 11 ? roll(state, 50) : *state; /* half of them are common words */
    for (uint32_t i = 0; i < n; i++)
        *lk_buf_room(text, 1) = (uint8_t)(kind == 15 ? 128 + roll(&seed, 128) : 'a' + roll(&seed, 26)),
        text->len++;
    lk_buf_puts(text, " ");
}

static void ids_by_definition(const struct lk_bpe *bpe, const uint8_t *p, const uint8_t *end,
                              struct lk_tokens *out)
{
    static const char *const words[] = {"the ", "fourteen_bytes ", "longer_than_a_key "};
    const uint8_t *stops[LK_PIECES_MAX];
    struct lk_bpe_scratch scratch = {0};

    while (p < end) {
        size_t count = cut_words(NULL, p, end, stops);
        for (size_t i = 0; i < count; p = stops[i++]) {
            size_t n = (size_t)(stops[i] - p);
            uint32_t id = LK_NO_ID;
            for (uint32_t w = 0; w < 3; w++)
                if (strlen(words[w]) == n && memcmp(words[w], p, n) == 0)
                    id = 1000 + w;
            if (id != LK_NO_ID)
                lk_tokens_push(out, id);
            else
                out->n += lk_bpe_merge(bpe, &scratch, p, n, lk_tokens_room(out, n));
        }
    }
    lk_bpe_scratch_done(&scratch);
}

/* About half of a text, between two pieces: what follows is readable, but no part of it. */
static size_t half_of(const uint8_t *p, size_t n)
{
    const uint8_t *space = n == 0 ? NULL : memchr(p + n / 2, ' ', n - n / 2);
    return space == NULL ? n : (size_t)(space - p) + 1;
}

START_TEST(pieces_become_what_each_alone_becomes)
{
    struct lk_pretok pretok = {.stages = {{.cut = cut_words}}, .n = 1};
    struct lk_bpe bpe;
    struct lk_pieces pieces;
    uint64_t state = 11;
    struct lk_tokens got = {0}, want = {0};

    make_bpe(&bpe);
    lk_pieces_init(&pieces, &pretok, &bpe, LK_CACHE_ENTRIES, LK_CACHE_RING);
    for (int document = 0; document < 400; document++) {
        struct lk_buf text = {0};
        for (uint32_t i = roll(&state, 2000); i > 0; i--)
            put_word(&text, &state);
        uint8_t *copy = lk_alloc(text.len); /* no more: ASan sees what is read beyond */
        memcpy(copy, text.data, text.len);
        want.n = 0;
        ids_by_definition(&bpe, copy, copy + text.len, &want);
        for (int pass = 0; pass < 2; pass++) {
            lk_tokens_done(&got); /* so that it grows each time */
            size_t part = pass == 0 ? text.len : half_of(copy, text.len);
            lk_pieces_encode(&pieces, copy, copy + part, copy + text.len, &got);
            if (part < text.len)
                lk_pieces_encode(&pieces, copy + part, copy + text.len, copy + text.len, &got);
            ck_assert_uint_eq(got.n, want.n);
            ck_assert(want.n == 0 || memcmp(got.ids, want.ids, want.n * sizeof *want.ids) == 0);
        }
        free(copy);
        lk_buf_done(&text);
    }
    lk_pieces_done(&pieces);
    lk_bpe_done(&bpe);
    lk_tokens_done(&got);
    lk_tokens_done(&want);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("op/cache");
    TCase *t = tcase_create("cache");

    tcase_set_timeout(t, 120);
    tcase_add_test(t, what_it_says_is_what_was_put);
    tcase_add_test(t, it_keeps_what_it_has_room_for);
    tcase_add_test(t, pieces_of_one_hash_are_told_apart);
    tcase_add_test(t, pieces_become_what_each_alone_becomes);
    suite_add_tcase(s, t);
    return s;
}
