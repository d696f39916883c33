/*
 * What `lanekeeper top` shows: two samples to lines of text. No terminal, clock or daemon is touched.
 */
#ifndef LK_CLIENT_CLI_TOP_VIEW_H
#define LK_CLIENT_CLI_TOP_VIEW_H

#include "client/cli/sample.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tint { TINT_PLAIN, TINT_TITLE, TINT_HEAD, TINT_DIM, TINT_GOOD, TINT_WARN, TINT_BAD };

struct line {
    char *text; /* valid UTF-8 without control characters */
    enum tint tint;
};

struct lines {
    struct line *line; /* [n] */
    size_t n, cap;
};

#define TOP_WIDTH_MIN 20

struct top_view {
    unsigned width;      /* columns, TOP_WIDTH_MIN…; no line has more characters */
    unsigned height;     /* lines that there are, the last with the keys; 0: a text without end or keys */
    bool all;            /* every stream in full, not only @stream */
    uint32_t stream;     /* number of the one shown in full; a larger one is the last */
    const char *only;    /* its name instead; NULL: none */
    uint32_t first_lane; /* of those shown: lanes before it are scrolled away */
    const char *address;
    const char *away;    /* why the daemon does not answer, and @new is old; NULL: it does */
    bool paused;
};

/*
 * Replaces the contents of @out. Rates are of what lies between the samples: "-" where @old is zeroed, of
 * another daemon (by its pid), or of a cursor that was not there. @new may be zeroed when @view has away.
 */
void top_lines(const struct top_view *view, const struct sample *old, const struct sample *new,
               struct lines *out);
void lines_done(struct lines *lines);

/* 9,999, 12.3k, 4.56M, 1.20G, 3.00T: at most seven characters up to 999 T. */
void top_put_short(struct lk_buf *out, uint64_t n);

#endif
