#include "format/jsonl.h"

#include "base/hasher.h"
#include "base/mem.h"
#include "format/index.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct lk_jsonl {
    lk_jsonl_each *each;
    void *owner;
    uint64_t line;    /* number of the current line, from 1; blank ones count */
    uint64_t line_at; /* where it begins */
    uint8_t head[4];  /* the first bytes of the data, until there are enough to know them by */
    size_t head_n;
    bool begun;

    /* The current line when it does not lie in one piece: */
    bool carried;
    bool blank;      /* so far */
    bool cr;         /* a CR was last: part of the row only if something follows */
    uint64_t bytes;  /* so far, without that CR */
    struct lk_hasher *hasher;
};

struct lk_jsonl *lk_jsonl_new(lk_jsonl_each *each, void *owner)
{
    struct lk_jsonl *j = lk_zalloc(1, sizeof *j);
    j->each = each;
    j->owner = owner;
    j->line = 1;
    j->hasher = lk_hasher_new();
    return j;
}

void lk_jsonl_free(struct lk_jsonl *j)
{
    if (j == NULL)
        return;
    lk_hasher_free(j->hasher);
    free(j);
}

static bool is_blank(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != ' ' && p[i] != '\t' && p[i] != '\r')
            return false;
    return true;
}

static enum lk_code check_length(const struct lk_jsonl *j, uint64_t bytes, struct lk_err *err)
{
    if (bytes <= LK_ROW_BYTES_MAX)
        return LK_OK;
    return lk_fail(err, LK_INVALID_ARGUMENT,
                   "line %llu (byte %llu): longer than %u bytes, the longest row allowed",
                   (unsigned long long)j->line, (unsigned long long)j->line_at, LK_ROW_BYTES_MAX);
}

/* A line that lies in one piece, without its 0A. */
static enum lk_code whole_line(struct lk_jsonl *j, const uint8_t *p, size_t n, struct lk_err *err)
{
    size_t row = n > 0 && p[n - 1] == '\r' ? n - 1 : n;

    if (!is_blank(p, row)) {
        LK_TRY(check_length(j, row, err));
        struct lk_jsonl_row found = {
            .offset = j->line_at, .bytes = (uint32_t)row, .hash = lk_hash32(p, row)};
        LK_TRY(j->each(j->owner, &found, err));
    }
    j->line++;
    j->line_at += n + 1;
    return LK_OK;
}

/* A piece of a line whose end is not known yet. */
static enum lk_code carry(struct lk_jsonl *j, const uint8_t *p, size_t n, struct lk_err *err)
{
    if (n == 0)
        return LK_OK;
    if (!j->carried) {
        j->carried = j->blank = true;
        j->cr = false;
        j->bytes = 0;
        lk_hasher_reset(j->hasher);
    }
    if (j->cr)
        lk_hasher_put(j->hasher, "\r", 1);
    j->bytes += j->cr;
    j->cr = p[n - 1] == '\r';
    n -= j->cr;
    lk_hasher_put(j->hasher, p, n);
    j->bytes += n;
    j->blank = j->blank && is_blank(p, n);
    return check_length(j, j->bytes, err);
}

static enum lk_code end_carried(struct lk_jsonl *j, struct lk_err *err)
{
    if (!j->blank) {
        struct lk_jsonl_row found = {.offset = j->line_at,
                                     .bytes = (uint32_t)j->bytes,
                                     .hash = lk_hasher_hash32(j->hasher)};
        LK_TRY(j->each(j->owner, &found, err));
    }
    j->carried = false;
    j->line++;
    j->line_at += j->bytes + j->cr + 1;
    return LK_OK;
}

static enum lk_code put_lines(struct lk_jsonl *j, const uint8_t *p, size_t n, struct lk_err *err)
{
    const uint8_t *end = p + n;

    while (p < end) {
        const uint8_t *lf = memchr(p, '\n', (size_t)(end - p));
        if (lf == NULL)
            return carry(j, p, (size_t)(end - p), err);
        if (j->carried) {
            LK_TRY(carry(j, p, (size_t)(lf - p), err));
            LK_TRY(end_carried(j, err));
        } else {
            LK_TRY(whole_line(j, p, (size_t)(lf - p), err));
        }
        p = lf + 1;
    }
    return LK_OK;
}

/* What the first bytes say of the encoding. NUL is nowhere valid in JSON, so one here is UTF-16. */
static enum lk_code begin(struct lk_jsonl *j, struct lk_err *err)
{
    const uint8_t *head = j->head;
    size_t skip = 0;

    j->begun = true;
    if ((j->head_n >= 2 && (head[0] ^ head[1]) == 1 && (head[0] & head[1]) == 0xfe) ||
        memchr(head, 0, j->head_n) != NULL)
        return lk_fail(err, LK_INVALID_ARGUMENT,
                       "line 1 (byte 0): the data are UTF-16 or UTF-32, expected UTF-8");
    if (j->head_n >= 3 && memcmp(head, "\xef\xbb\xbf", 3) == 0)
        j->line_at = skip = 3;
    return put_lines(j, head + skip, j->head_n - skip, err);
}

enum lk_code lk_jsonl_put(struct lk_jsonl *j, const uint8_t *bytes, size_t n, struct lk_err *err)
{
    if (!j->begun) {
        size_t take = sizeof j->head - j->head_n;
        if (take > n)
            take = n;
        if (take > 0)
            memcpy(j->head + j->head_n, bytes, take);
        j->head_n += take;
        bytes += take;
        n -= take;
        if (j->head_n < sizeof j->head)
            return LK_OK;
        LK_TRY(begin(j, err));
    }
    return put_lines(j, bytes, n, err);
}

enum lk_code lk_jsonl_end(struct lk_jsonl *j, struct lk_err *err)
{
    if (!j->begun)
        LK_TRY(begin(j, err));
    return j->carried ? end_carried(j, err) : LK_OK;
}
