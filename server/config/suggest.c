/* The nearest known key: what a message offers instead of an unknown one. */
#include "config/keys.h"

#include <string.h>

#define WORD_MAX 40

/* Lower case without "_", "-", "." and spaces: "seq_len", "Seq-Len" and "seqlen" are one word. */
static size_t normalise(const char *text, char ret_word[WORD_MAX])
{
    size_t n = 0;
    for (; *text != '\0' && n < WORD_MAX; text++) {
        char c = *text;
        if (c == '_' || c == '-' || c == '.' || c == ' ')
            continue;
        ret_word[n++] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
    return n;
}

static unsigned least(unsigned a, unsigned b, unsigned c)
{
    unsigned m = a < b ? a : b;
    return m < c ? m : c;
}

/* Edits (insert, delete, replace) between two words of at most WORD_MAX bytes. */
static unsigned edits(const char *a, size_t n, const char *b, size_t m)
{
    unsigned row[WORD_MAX + 1];
    for (size_t j = 0; j <= m; j++)
        row[j] = (unsigned)j;
    for (size_t i = 1; i <= n; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            unsigned above = row[j];
            row[j] = least(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[m];
}

/* 0 = the same word; UINT32_MAX = too far to offer. A common start of three letters is near enough. */
static unsigned distance(const char *known, const char *unknown)
{
    char a[WORD_MAX], b[WORD_MAX];
    size_t n = normalise(known, a), m = normalise(unknown, b);
    unsigned d = edits(a, n, b, m);
    size_t longer = n > m ? n : m;
    bool same_start = n >= 3 && m >= 3 && memcmp(a, b, 3) == 0;
    return d <= 1 + longer / 4 || same_start ? d : UINT32_MAX;
}

static void put_meant(struct lk_buf *out, const char *word)
{
    if (word != NULL)
        lk_buf_putf(out, "; did you mean \"%s\"?", word);
}

void lk_word_put_suggestion(struct lk_buf *out, const char *const *words, const char *unknown)
{
    const char *best = NULL;
    unsigned best_distance = UINT32_MAX;
    for (; *words != NULL; words++) {
        unsigned d = distance(*words, unknown);
        if (d < best_distance) {
            best = *words;
            best_distance = d;
        }
    }
    put_meant(out, best);
}

static const char *last_name(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot != NULL ? dot + 1 : path;
}

void lk_key_put_suggestion(struct lk_buf *out, const char *section, const char *unknown)
{
    size_t n;
    const struct lk_key *keys = lk_keys(&n);
    const char *best = NULL, *elsewhere = NULL;
    unsigned best_distance = UINT32_MAX;
    for (size_t k = 0; k < n; k++) {
        const char *name = lk_key_name_in(&keys[k], section);
        unsigned d = name != NULL ? distance(name, unknown) : UINT32_MAX;
        if (d < best_distance) {
            best = name;
            best_distance = d;
        }
        if (elsewhere == NULL && strcmp(last_name(keys[k].path), unknown) == 0)
            elsewhere = keys[k].path;
    }
    if (elsewhere != NULL && best_distance > 1)
        lk_buf_putf(out, " here; it belongs at \"%s\"", elsewhere);
    else
        put_meant(out, best);
}
