/*
 * A parsed expression for PCRE2: every set is written out as the classes that belong to it, and what else an
 * expression may have means the same there.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/mem.h"
#include "op/pretok/regex_tree.h"

#include <stdlib.h>
#include <string.h>

#define CLASSES 256

struct printer {
    const struct lk_regex_tree *tree;
    uint64_t masks[CLASSES]; /* class → sets that it belongs to */
    size_t classes;
    struct lk_buf out;
};

void lk_regex_code_done(struct lk_regex_code *code)
{
    lk_unicode_done(&code->classes);
    pcre2_code_free(code->code);
    *code = (struct lk_regex_code){0};
}

/* ---- classes ---- */

struct event {
    uint32_t point;
    uint64_t sets; /* that begin or end there */
};

static int compare_events(const void *a, const void *b)
{
    const struct event *x = a, *y = b;
    return (x->point > y->point) - (x->point < y->point);
}

static struct event *events_of(const struct lk_regex_tree *tree, size_t *ret_n)
{
    size_t n = 0, cap = 0;

    for (uint32_t i = 0; i < tree->sets_n; i++)
        cap += 2 * tree->sets[i].n;
    struct event *events = lk_zalloc(cap + 1, sizeof *events);
    for (uint32_t i = 0; i < tree->sets_n; i++)
        for (size_t k = 0; k < tree->sets[i].n; k++) {
            events[n++] = (struct event){tree->sets[i].ranges[k].first, UINT64_C(1) << i};
            events[n++] = (struct event){tree->sets[i].ranges[k].last + 1, UINT64_C(1) << i};
        }
    qsort(events, n, sizeof *events, compare_events);
    *ret_n = n;
    return events;
}

/* Class 0 is what is in no set. */
static enum lk_code make_classes(struct printer *printer, struct lk_unicode *ret_classes,
                                 struct lk_err *err)
{
    size_t n = 0;
    struct event *events = events_of(printer->tree, &n);
    uint8_t *flags = lk_zalloc(0x110000, 1);
    uint64_t sets = 0;
    enum lk_code code = LK_OK;

    for (size_t i = 0; i < n && code == LK_OK; i++) {
        sets ^= events[i].sets;
        uint32_t from = events[i].point, to = i + 1 < n ? events[i + 1].point : 0x110000;
        if (from == to)
            continue;
        size_t class = 0;
        while (class < printer->classes && printer->masks[class] != sets)
            class++;
        if (class == CLASSES) {
            code = lk_fail(err, LK_UNIMPLEMENTED,
                           "an expression that divides characters into more than %d classes", CLASSES);
            break;
        }
        if (class == printer->classes)
            printer->masks[printer->classes++] = sets;
        memset(flags + from, (int)class, to - from);
    }
    free(events);
    lk_unicode_pack(ret_classes, flags);
    return code;
}

/* ---- printing ---- */

static void print_set(struct printer *printer, uint32_t set)
{
    bool any = false;

    lk_buf_puts(&printer->out, "[");
    for (size_t first = 0; first < printer->classes; first++) {
        size_t last = first;
        while (last < printer->classes && (printer->masks[last] >> set & 1) != 0)
            last++;
        if (last == first)
            continue;
        lk_buf_putf(&printer->out, last - first > 1 ? "\\x%02zx-\\x%02zx" : "\\x%02zx", first, last - 1);
        any = true;
        first = last;
    }
    lk_buf_puts(&printer->out, any ? "]" : "^\\x00-\\xff]"); /* an empty one: no character */
}

static void print_quantifier(struct printer *printer, const struct lk_node *repeat)
{
    static const char *const how[] = {
        [LK_REPEAT_GREEDY] = "", [LK_REPEAT_LAZY] = "?", [LK_REPEAT_POSSESSIVE] = "+"};

    if (repeat->max == LK_REGEX_ENDLESS)
        lk_buf_putf(&printer->out, "{%u,}%s", repeat->min, how[repeat->how]);
    else
        lk_buf_putf(&printer->out, "{%u,%u}%s", repeat->min, repeat->max, how[repeat->how]);
}

static void print(struct printer *printer, uint32_t index);

static void print_repeated(struct printer *printer, uint32_t index)
{
    bool alone = printer->tree->nodes[index].kind == LK_NODE_SET;

    lk_buf_puts(&printer->out, alone ? "" : "(?:");
    print(printer, index);
    lk_buf_puts(&printer->out, alone ? "" : ")");
}

static void print_children(struct printer *printer, uint32_t first, const char *between);

/* As deep as the parser allowed. */
static void print(struct printer *printer, uint32_t index)
{
    const struct lk_node *node = &printer->tree->nodes[index];

    switch (node->kind) {
    case LK_NODE_EMPTY:
        return;
    case LK_NODE_SET:
        print_set(printer, node->set);
        return;
    case LK_NODE_CAT:
        print_children(printer, node->child, "");
        return;
    case LK_NODE_ALT:
        lk_buf_puts(&printer->out, "(?:");
        print_children(printer, node->child, "|");
        break;
    case LK_NODE_REPEAT:
        print_repeated(printer, node->child);
        print_quantifier(printer, node);
        return;
    case LK_NODE_LOOK:
        lk_buf_puts(&printer->out, node->negative ? "(?!" : "(?=");
        print(printer, node->child);
        break;
    case LK_NODE_END:
        lk_buf_puts(&printer->out, "\\z");
        return;
    }
    lk_buf_puts(&printer->out, ")");
}

static void print_children(struct printer *printer, uint32_t first, const char *between)
{
    for (uint32_t i = first; i != 0; i = printer->tree->nodes[i].next) {
        if (i != first)
            lk_buf_puts(&printer->out, between);
        print(printer, i);
    }
}

enum lk_code lk_regex_compile(const struct lk_regex_tree *tree, struct lk_regex_code *ret_code,
                              struct lk_err *err)
{
    struct printer printer = {.tree = tree, .classes = 1};
    int why = 0;
    size_t where = 0;
    enum lk_code code = make_classes(&printer, &ret_code->classes, err);

    if (code == LK_OK) {
        print(&printer, tree->root);
        ret_code->code = pcre2_compile(printer.out.data, printer.out.len, 0, &why, &where, NULL);
        if (ret_code->code == NULL) /* the parser lets nothing pass that is wrong */
            code = lk_fail(err, LK_UNIMPLEMENTED, "an expression as long as this: not implemented");
    }
    if (code == LK_OK)
        ret_code->jit = pcre2_jit_compile(ret_code->code,
                                          PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD) == 0;
    lk_buf_done(&printer.out);
    return code;
}
