/*
 * Normalising by the book (Unicode Annex #15: decompose, order by class, compose; the other steps word by
 * word) against lk_normal_apply, step by step and all steps in one go; forms, once taken, stay; and
 * text that lk_normal_quick lets pass is what the steps would make of it.
 *
 * Input: the number of steps, two bytes for each (its kind, its strings), and the text.
 */
#include "op/text/normal.h"
#include "op/text/unicode_data.h"
#include "tests/fuzz/fuzz.h"

enum { STEPS = 4, KINDS = LK_NORMAL_REPLACE + 1, TEXT_MAX = 512 }; /* by the book it takes time */

static const char *const from_strings[] = {" ", "\xe2\x96\x81", "aa", "\xc3\xa9", "\xcc\x81", "aba"};
static const char *const to_strings[] = {"\xe2\x96\x81", "", "a", " ", "\xcc\xa7", "aa"};

struct points {
    uint32_t *at;
    size_t n, cap;
};

static void push(struct points *points, uint32_t point)
{
    if (points->n == points->cap) {
        points->cap = points->cap * 2 + 64;
        points->at = lk_resize(points->at, points->cap, sizeof *points->at);
    }
    points->at[points->n++] = point;
}

/* ---- by the book ---- */

enum { S = 0xac00, L = 0x1100, V = 0x1161, T = 0x11a7, SN = 11172, LN = 19, VN = 21, TN = 28 };

#define POINTS 0x110000u

/* The tables, spread out by character once: looking through them for each would take nearly all of the time. */
static struct spread {
    uint8_t class[POINTS];
    uint16_t canonical[POINTS], compatible[POINTS]; /* number in its table + 1; 0: not there */
    uint16_t composition[POINTS];                   /* of the first with this left part, + 1 */
    uint16_t *next;                                 /* [lk_compositions_n] with the same left part, + 1 */
    uint32_t lower[POINTS];
    uint8_t accent[POINTS];
} spread;

static void spread_parts(const struct lk_decompositions *table, uint16_t *to)
{
    LK_CHECK(table->n < UINT16_MAX);
    for (size_t i = table->n; i-- > 0;)
        to[table->items[i].point] = (uint16_t)(i + 1);
}

static void spread_case(void)
{
    for (uint32_t point = 0; point < POINTS; point++)
        spread.lower[point] = point;
    for (size_t i = lk_case_ranges_n; i-- > 0;) {
        const struct lk_case_range *range = &lk_case_ranges[i];
        for (uint32_t point = range->first; point <= range->last; point += range->step)
            spread.lower[point] = point + (uint32_t)range->distance;
    }
}

static void spread_all(void)
{
    if (spread.next != NULL)
        return;
    for (size_t i = lk_ccc_ranges_n; i-- > 0;)
        memset(spread.class + lk_ccc_ranges[i].first, (int)lk_ccc_ranges[i].value,
               lk_ccc_ranges[i].last - lk_ccc_ranges[i].first + 1);
    for (size_t i = 0; i < lk_accent_ranges_n; i++)
        memset(spread.accent + lk_accent_ranges[i].first, 1,
               lk_accent_ranges[i].last - lk_accent_ranges[i].first + 1);
    spread_parts(&lk_canonical, spread.canonical);
    spread_parts(&lk_compatible, spread.compatible);
    spread_case();
    spread.next = lk_zalloc(lk_compositions_n + 1, sizeof *spread.next);
    for (size_t i = lk_compositions_n; i-- > 0;) {
        spread.next[i] = spread.composition[lk_compositions[i].left];
        spread.composition[lk_compositions[i].left] = (uint16_t)(i + 1);
    }
}

static unsigned class_of(uint32_t point)
{
    return spread.class[point];
}

/* The parts of @point in a table; false: it has none there. */
static bool push_parts(struct points *out, const struct lk_decompositions *table, const uint16_t *number,
                       uint32_t point)
{
    if (number[point] == 0)
        return false;
    const struct lk_decomposition *d = &table->items[number[point] - 1];
    for (size_t j = 0; j < d->n; j++)
        push(out, table->pool[d->start + j]);
    return true;
}

static void decompose(struct points *out, bool compatible, uint32_t point)
{
    if (point >= S && point < S + SN) {
        push(out, L + (point - S) / (VN * TN));
        push(out, V + (point - S) % (VN * TN) / TN);
        if ((point - S) % TN != 0)
            push(out, T + (point - S) % TN);
        return;
    }
    if ((!compatible || !push_parts(out, &lk_compatible, spread.compatible, point)) &&
        !push_parts(out, &lk_canonical, spread.canonical, point))
        push(out, point);
}

/* Marks in the order of their classes; equal ones stay as they are. */
static void order(struct points *points)
{
    for (bool again = true; again;) {
        again = false;
        for (size_t i = 0; i + 1 < points->n; i++) {
            unsigned left = class_of(points->at[i]), right = class_of(points->at[i + 1]);
            if (right == 0 || left <= right)
                continue;
            uint32_t point = points->at[i];
            points->at[i] = points->at[i + 1];
            points->at[i + 1] = point;
            again = true;
        }
    }
}

static uint32_t composed(uint32_t left, uint32_t right)
{
    if (left >= L && left < L + LN && right >= V && right < V + VN)
        return S + ((left - L) * VN + right - V) * TN;
    if (left >= S && left < S + SN && (left - S) % TN == 0 && right > T && right < T + TN)
        return left + right - T;
    for (size_t i = spread.composition[left]; i > 0; i = spread.next[i - 1])
        if (lk_compositions[i - 1].right == right)
            return lk_compositions[i - 1].composed;
    return 0;
}

/* Is @at the end of something that the starter @starter may not look beyond? */
static bool blocked(const struct points *points, size_t starter, size_t at)
{
    for (size_t i = starter + 1; i < at; i++) {
        unsigned class = class_of(points->at[i]);
        if (class == 0 || class >= class_of(points->at[at]))
            return true;
    }
    return false;
}

static void compose(struct points *points)
{
    for (size_t at = 1; at < points->n;) {
        size_t starter = at;
        while (starter-- > 0 && class_of(points->at[starter]) != 0)
            ;
        uint32_t whole = starter < points->n && !blocked(points, starter, at)
                             ? composed(points->at[starter], points->at[at])
                             : 0;
        if (whole == 0) {
            at++;
            continue;
        }
        points->at[starter] = whole;
        memmove(points->at + at, points->at + at + 1, (points->n - at - 1) * sizeof *points->at);
        points->n--;
    }
}

static void put_point(struct lk_buf *out, uint32_t point)
{
    uint8_t bytes[4];
    lk_buf_put(out, bytes, lk_utf8_put(point, bytes));
}

static void take_form(enum lk_form form, const struct lk_buf *text, struct lk_buf *out)
{
    struct points points = {0};

    for (size_t at = 0, n; at < text->len; at += n)
        decompose(&points, (form & 2) != 0, lk_decode(text->data + at, text->data + text->len, &n));
    order(&points);
    if ((form & 1) == 0)
        compose(&points);
    for (size_t i = 0; i < points.n; i++)
        put_point(out, points.at[i]);
    free(points.at);
}

static uint32_t lower(uint32_t point)
{
    return spread.lower[point];
}

static bool is_accent(uint32_t point)
{
    return spread.accent[point] != 0;
}

static bool is_space(const struct lk_unicode *unicode, uint32_t point)
{
    return (lk_unicode_flags(unicode, point) & LK_CLASS_MASK) == LK_CLASS_SPACE;
}

/* The steps that look at one character after the other. */
static void by_character(const struct lk_unicode *unicode, enum lk_normal_kind kind,
                         const struct lk_buf *text, struct lk_buf *out)
{
    size_t kept = 0; /* up to the last character that is no space */
    bool begun = false;

    for (size_t at = 0, n; at < text->len; at += n) {
        uint32_t point = lk_decode(text->data + at, text->data + text->len, &n);
        begun |= !is_space(unicode, point);
        if (kind == LK_NORMAL_LOWERCASE && point == 0x130)
            lk_buf_puts(out, "i\xcc\x87");
        else if (kind == LK_NORMAL_LOWERCASE)
            put_point(out, lower(point));
        else if (kind == LK_NORMAL_STRIP_ACCENTS ? !is_accent(point) : kind != LK_NORMAL_STRIP_LEFT || begun)
            put_point(out, point);
        if (!is_space(unicode, point))
            kept = out->len;
    }
    if (kind == LK_NORMAL_STRIP_RIGHT)
        out->len = kept;
}

static void replace(const char *from, const char *to, const struct lk_buf *text, struct lk_buf *out)
{
    size_t n = strlen(from);

    for (size_t at = 0; at < text->len;) {
        bool hit = text->len - at >= n && memcmp(text->data + at, from, n) == 0;
        if (hit)
            lk_buf_puts(out, to);
        else
            lk_buf_put(out, text->data + at, 1);
        at += hit ? n : 1;
    }
}

/* ---- one input ---- */

struct step {
    enum lk_normal_kind kind;
    const char *from, *to;
};

static void by_the_book(const struct lk_unicode *unicode, struct step step, struct lk_buf *text)
{
    struct lk_buf out = {0};

    if (step.kind <= LK_NORMAL_NFKD) {
        take_form((enum lk_form)step.kind, text, &out);
    } else if (step.kind == LK_NORMAL_REPLACE) {
        replace(step.from, step.to, text, &out);
    } else if (step.kind == LK_NORMAL_PREPEND) {
        lk_buf_puts(&out, text->len > 0 ? step.to : "");
        lk_buf_put(&out, text->data, text->len);
    } else {
        by_character(unicode, step.kind, text, &out);
    }
    lk_buf_done(text);
    *text = out;
}

static void add(struct lk_normal *normal, struct step step)
{
    struct lk_normal_step made = {.kind = step.kind};

    if (step.kind == LK_NORMAL_REPLACE) {
        made.from = (uint8_t *)lk_strdup(step.from);
        made.from_n = strlen(step.from);
    }
    if (step.kind == LK_NORMAL_REPLACE || step.kind == LK_NORMAL_PREPEND) {
        made.to = (uint8_t *)lk_strdup(step.to);
        made.to_n = strlen(step.to);
    }
    LK_CHECK(lk_normal_add(normal, made));
}

/* Building takes far longer than a text, so what was built is kept, for as long as its place is not wanted. */
static const struct lk_normal *built(const struct lk_unicode *unicode, const struct step *steps, size_t n)
{
    static struct {
        struct step steps[STEPS];
        size_t n;
        struct lk_normal normal;
    } kept[256];
    size_t place = n;

    for (size_t i = 0; i < n; i++)
        place = place * 31 + (size_t)steps[i].kind * 7 + (size_t)(steps[i].from[0] + 3 * steps[i].to[0]);
    place %= sizeof kept / sizeof *kept;
    bool same = kept[place].n == n;
    for (size_t i = 0; same && i < n; i++)
        same = kept[place].steps[i].kind == steps[i].kind && kept[place].steps[i].from == steps[i].from &&
               kept[place].steps[i].to == steps[i].to;
    if (same)
        return &kept[place].normal;
    lk_normal_done(&kept[place].normal);
    kept[place].normal = (struct lk_normal){0};
    kept[place].n = n;
    for (size_t i = 0; i < n; i++) {
        kept[place].steps[i] = steps[i];
        add(&kept[place].normal, steps[i]);
    }
    lk_normal_build(&kept[place].normal, unicode);
    return &kept[place].normal;
}

static void check(const struct lk_unicode *unicode, const struct step *steps, size_t n, const uint8_t *text,
                  size_t text_n)
{
    const struct lk_normal *normal = built(unicode, steps, n);
    struct lk_normal_scratch scratch = {0};
    struct lk_buf want = {0};
    const uint8_t *got = NULL;
    size_t got_n = 0;

    lk_buf_put(&want, text, text_n);
    for (size_t i = 0; i < n; i++)
        by_the_book(unicode, steps[i], &want);
    lk_normal_apply(normal, &scratch, text, text_n, &got, &got_n);
    LK_CHECK(got_n == want.len && (got_n == 0 || memcmp(got, want.data, got_n) == 0));
    if (lk_normal_quick(normal, text, text_n))
        LK_CHECK(got_n == text_n && (got_n == 0 || memcmp(got, text, got_n) == 0));
    if (n == 1 && steps[0].kind <= LK_NORMAL_NFKD) {
        uint8_t *again = lk_fuzz_copy(want.data, want.len);
        lk_normal_apply(normal, &scratch, again, want.len, &got, &got_n);
        LK_CHECK(got_n == want.len && (got_n == 0 || memcmp(got, want.data, got_n) == 0));
        free(again);
    }
    lk_normal_scratch_done(&scratch);
    lk_buf_done(&want);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct lk_unicode unicode; /* made once, for all inputs */
    struct lk_fuzz_input input = {data, n};
    struct step steps[STEPS];
    size_t steps_n = lk_fuzz_byte(&input) % STEPS + 1, text_n = 0;

    if (unicode.pages == NULL)
        lk_unicode_init(&unicode);
    spread_all();
    for (size_t i = 0; i < steps_n; i++) {
        steps[i].kind = (enum lk_normal_kind)(lk_fuzz_byte(&input) % KINDS);
        uint8_t strings = lk_fuzz_byte(&input);
        steps[i].from = from_strings[strings % (sizeof from_strings / sizeof *from_strings)];
        steps[i].to = to_strings[strings / 16 % (sizeof to_strings / sizeof *to_strings)];
    }
    uint8_t *text = lk_fuzz_text(input.at, input.left < TEXT_MAX ? input.left : TEXT_MAX, &text_n);
    for (size_t i = 0; i < steps_n && steps_n > 1; i++)
        check(&unicode, &steps[i], 1, text, text_n);
    check(&unicode, steps, steps_n, text, text_n);
    free(text);
    return 0;
}
