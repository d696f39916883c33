/*
 * Matches of an expression, found by PCRE2 in the classes of the characters (regex_tree.h).
 *
 * PCRE2 sees a window of the text, which is longer each time that a match may go on beyond it ("partial"
 * matching says so, also of look-ahead): a call looks at little more text than it cuts. It backtracks as
 * the reference's engine does and may take exponential time, so its work and its memory are limited, and
 * who goes beyond that ends the process (lk_regex_too_hard): a cutter cannot fail. The reference has such a
 * limit too, and panics.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "op/pretok/regex.h"

#include "base/mem.h"
#include "op/pretok/regex_tree.h"

#include <stdlib.h>
#include <string.h>

#define WINDOW 512                /* characters, at first */
#define HEAP_LIMIT_KIB (1u << 20) /* for the places to go back to; some hundred bytes each */

struct regex {
    struct lk_regex_code code;
    pcre2_match_context *limits; /* not changed any more, so that threads may share it */
    enum lk_split how;
    bool spelled;
    uint8_t bytes[256];          /* the classes of spelled text */
    size_t n;
    uint8_t text[];              /* the expression, for messages */
};

/* One call of the cutter. */
struct job {
    const struct regex *regex;
    pcre2_match_data *data;
    const uint8_t *p, *end;   /* the next character, which is [at] in the window */
    size_t at, n, cap;
    bool whole;               /* the window reaches up to the end */
    int failed;               /* a code of PCRE2's, or 0 */
    uint8_t *classes, *widths; /* of the characters of the window; in bytes */
    uint8_t own[2 * WINDOW];
};

static void regex_free(void *data)
{
    struct regex *regex = data;

    lk_regex_code_done(&regex->code);
    pcre2_match_context_free(regex->limits);
    free(regex);
}

/* ---- the window ---- */

/* Begins a window at @p. */
static void look(struct job *job, const uint8_t *p)
{
    const struct regex *regex = job->regex;
    size_t n = 1;

    job->p = p;
    job->at = job->n = 0;
    for (; p < job->end && job->n < job->cap; p += n) {
        job->classes[job->n] = regex->spelled ? regex->bytes[*p]
                                              : lk_flags_at(&regex->code.classes, p, job->end, &n);
        job->widths[job->n++] = (uint8_t)n;
    }
    job->whole = p == job->end;
}

static void skip_to(struct job *job, size_t at)
{
    while (job->at < at)
        /* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): PCRE2 was given @n, finds nothing beyond it */
        job->p += job->widths[job->at++];
}

static void grow(struct job *job)
{
    if (job->classes != job->own)
        free(job->classes);
    job->cap *= 2;
    job->classes = lk_alloc(2 * job->cap);
    job->widths = job->classes + job->cap;
}

/* ---- matching ---- */

/* JIT code has a stack of 32 KiB; what needs more is interpreted. */
static int match(const struct job *job)
{
    const struct lk_regex_code *code = &job->regex->code;
    uint32_t options = job->whole ? 0 : PCRE2_PARTIAL_HARD;
    int found = PCRE2_ERROR_JIT_STACKLIMIT;

    if (code->jit)
        found = pcre2_jit_match(code->code, job->classes, job->n, job->at, options, job->data,
                                job->regex->limits);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
        found = pcre2_match(code->code, job->classes, job->n, job->at, options | PCRE2_NO_JIT,
                            job->data, job->regex->limits);
    return found;
}

static bool find_match(const struct lk_cutter *cutter, const uint8_t *p, const uint8_t *end,
                       struct lk_match *ret_match)
{
    struct job *job = cutter->data;
    const size_t *found = pcre2_get_ovector_pointer(job->data);

    LK_CHECK(p == job->p && end == job->end);
    for (;;) {
        int code = match(job);
        if (code > 0) {
            skip_to(job, found[0]);
            ret_match->start = job->p;
            skip_to(job, found[1]);
            ret_match->stop = job->p;
            return true;
        }
        if (code != PCRE2_ERROR_PARTIAL && (code != PCRE2_ERROR_NOMATCH || job->whole)) {
            job->failed = code == PCRE2_ERROR_NOMATCH ? 0 : code;
            return false;
        }
        skip_to(job, code == PCRE2_ERROR_PARTIAL ? found[0] : job->n);
        if (job->at == 0)
            grow(job);
        look(job, job->p);
    }
}

static size_t cut_regex(const struct lk_cutter *cutter, const uint8_t *p, const uint8_t *end,
                        const uint8_t *ret_stops[LK_PIECES_MAX])
{
    const struct regex *regex = cutter->data;
    struct job job; /* not initialised as a whole: the window is large */
    struct lk_cutter with_job = {.data = &job};

    job.regex = regex;
    job.data = pcre2_match_data_create(1, NULL);
    LK_CHECK(job.data != NULL);
    job.end = end;
    job.failed = 0;
    job.cap = WINDOW;
    job.classes = job.own;
    job.widths = job.own + WINDOW;
    look(&job, p);
    size_t n = lk_split_cut(&with_job, find_match, regex->how, p, end, ret_stops);
    pcre2_match_data_free(job.data);
    if (job.classes != job.own)
        free(job.classes);
    if (job.failed != 0)
        lk_regex_too_hard((struct lk_pattern){.text = regex->text, .n = regex->n}, job.failed);
    return n;
}

/* ---- from an expression ---- */

static pcre2_match_context *make_limits(void)
{
    pcre2_match_context *limits = pcre2_match_context_create(NULL);

    LK_CHECK(limits != NULL);
    (void)pcre2_set_match_limit(limits, lk_regex_steps);
    (void)pcre2_set_depth_limit(limits, lk_regex_steps);
    (void)pcre2_set_heap_limit(limits, HEAP_LIMIT_KIB);
    return limits;
}

enum lk_code lk_cutter_regex(const struct lk_pattern *pattern, const struct lk_unicode *unicode,
                             enum lk_split how, lk_spelled *spelled, struct lk_cutter *ret_cutter,
                             struct lk_err *err)
{
    struct lk_regex_tree *tree = lk_zalloc(1, sizeof *tree);
    struct regex *regex = lk_zalloc(1, sizeof *regex + pattern->n);
    enum lk_code code = lk_regex_parse(pattern, tree, err);

    if (code == LK_OK)
        code = lk_regex_compile(tree, &regex->code, err);
    lk_regex_tree_done(tree);
    free(tree);
    if (code != LK_OK) {
        regex_free(regex);
        return code;
    }
    regex->limits = make_limits();
    regex->how = how;
    regex->spelled = spelled != NULL;
    for (unsigned b = 0; b < 256 && spelled != NULL; b++)
        regex->bytes[b] = lk_unicode_flags(&regex->code.classes, (*spelled)[b]);
    regex->n = pattern->n;
    memcpy(regex->text, pattern->text, pattern->n);
    *ret_cutter = (struct lk_cutter){
        .cut = cut_regex, .unicode = unicode, .data = regex, .data_done = regex_free};
    return LK_OK;
}
