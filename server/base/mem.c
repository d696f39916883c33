#include "base/mem.h"

#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *lk_alloc(size_t bytes)
{
    void *p = malloc(bytes > 0 ? bytes : 1);
    LK_CHECK(p != NULL);
    return p;
}

void *lk_zalloc(size_t count, size_t size)
{
    void *p = calloc(count > 0 ? count : 1, size > 0 ? size : 1);
    LK_CHECK(p != NULL);
    return p;
}

void *lk_resize(void *old, size_t count, size_t size)
{
    LK_CHECK(size > 0 && count <= SIZE_MAX / size);
    void *p = realloc(old, count > 0 ? count * size : 1);
    LK_CHECK(p != NULL);
    return p;
}

char *lk_strndup(const char *text, size_t bytes)
{
    char *copy = lk_alloc(bytes + 1);
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    return copy;
}

char *lk_strdup(const char *text)
{
    return lk_strndup(text, strlen(text));
}

char *lk_format(const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    LK_CHECK(n >= 0);
    char *text = lk_alloc((size_t)n + 1);
    (void)vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    va_end(args);
    return text;
}

/* Doubling keeps the cost of growing linear in the final size. */
static size_t grown(size_t cap, size_t need)
{
    size_t next = cap < 64 ? 64 : cap;
    while (next < need) {
        LK_CHECK(next <= SIZE_MAX / 2);
        next *= 2;
    }
    return next;
}

void lk_buf_done(struct lk_buf *buf)
{
    free(buf->data);
    *buf = (struct lk_buf){0};
}

uint8_t *lk_buf_room(struct lk_buf *buf, size_t bytes)
{
    LK_CHECK(bytes <= SIZE_MAX - buf->len - 1);
    if (buf->cap - buf->len < bytes || buf->data == NULL) {
        buf->cap = grown(buf->cap, buf->len + bytes);
        buf->data = lk_resize(buf->data, buf->cap, 1);
    }
    return buf->data + buf->len;
}

void lk_buf_put(struct lk_buf *buf, const void *bytes, size_t n)
{
    if (n > 0)
        memcpy(lk_buf_room(buf, n), bytes, n);
    buf->len += n;
}

void lk_buf_puts(struct lk_buf *buf, const char *text)
{
    lk_buf_put(buf, text, strlen(text));
}

void lk_buf_putf(struct lk_buf *buf, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    LK_CHECK(n >= 0);
    (void)vsnprintf((char *)lk_buf_room(buf, (size_t)n + 1), (size_t)n + 1, format, again);
    buf->len += (size_t)n;
    va_end(again);
    va_end(args);
}

const char *lk_buf_cstr(struct lk_buf *buf)
{
    *lk_buf_room(buf, 1) = '\0';
    return (const char *)buf->data;
}

void lk_tokens_done(struct lk_tokens *tokens)
{
    if (!tokens->borrowed)
        free(tokens->ids);
    *tokens = (struct lk_tokens){0};
}

void lk_tokens_borrow(struct lk_tokens *tokens, uint32_t *ids, size_t cap)
{
    lk_tokens_done(tokens);
    *tokens = (struct lk_tokens){.ids = ids, .cap = cap, .borrowed = true};
}

/* Room that was lent is not for us to resize. */
static void tokens_move(struct lk_tokens *tokens, size_t cap)
{
    uint32_t *lent = tokens->borrowed ? tokens->ids : NULL;
    tokens->ids = lk_resize(lent != NULL ? NULL : tokens->ids, cap, sizeof *tokens->ids);
    if (lent != NULL && tokens->n > 0)
        memcpy(tokens->ids, lent, tokens->n * sizeof *lent);
    tokens->cap = cap;
    tokens->borrowed = false;
}

uint32_t *lk_tokens_room(struct lk_tokens *tokens, size_t n)
{
    LK_CHECK(n <= SIZE_MAX / sizeof *tokens->ids - tokens->n);
    if (tokens->cap - tokens->n < n || tokens->ids == NULL)
        tokens_move(tokens, grown(tokens->cap, tokens->n + n));
    return tokens->ids + tokens->n;
}
