/*
 * Memory and growable arrays. Running out of memory in a small allocation stops the process: every
 * large one is bounded by configuration and checked before it is made, so there is nothing sensible
 * left to do. Never size an allocation by a number read from a file or a peer before checking it.
 */
#ifndef LK_BASE_MEM_H
#define LK_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *lk_alloc(size_t bytes);                               /* uninitialised; never NULL */
void *lk_zalloc(size_t count, size_t size);                 /* zeroed; count*size is checked */
void *lk_resize(void *old, size_t count, size_t size);      /* realloc, checked; never NULL */
char *lk_strdup(const char *text);
char *lk_strndup(const char *text, size_t bytes);
char *lk_format(const char *format, ...) __attribute__((format(printf, 1, 2))); /* caller frees */

/* A growable run of bytes. Zeroed = empty. */
struct lk_buf {
    uint8_t *data;
    size_t len;
    size_t cap;
};

void lk_buf_done(struct lk_buf *buf);                       /* frees; safe on a zeroed one, and twice */
uint8_t *lk_buf_room(struct lk_buf *buf, size_t bytes);     /* makes room for @bytes more; where they go. len unchanged */
void lk_buf_put(struct lk_buf *buf, const void *bytes, size_t n);
void lk_buf_puts(struct lk_buf *buf, const char *text);     /* without the NUL */
void lk_buf_putf(struct lk_buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *lk_buf_cstr(struct lk_buf *buf);                /* NUL-terminated view; len unchanged */

/* Token ids of one row or more: a growable array of u32. Zeroed = empty. */
struct lk_tokens {
    uint32_t *ids;
    size_t n;
    size_t cap;
    bool borrowed; /* @ids is somebody else's memory */
};

void lk_tokens_done(struct lk_tokens *tokens);
/* Empties @tokens and has what is put into it lie at @ids, as long as @cap is enough: beyond that it moves to
 * memory of its own. */
void lk_tokens_borrow(struct lk_tokens *tokens, uint32_t *ids, size_t cap);
uint32_t *lk_tokens_room(struct lk_tokens *tokens, size_t n); /* room for @n more; n unchanged */

static inline void lk_tokens_push(struct lk_tokens *tokens, uint32_t id)
{
    if (tokens->n == tokens->cap)
        (void)lk_tokens_room(tokens, 1);
    tokens->ids[tokens->n++] = id;
}

#endif
