/*
 * Oniguruma's Ruby syntax, as far as its meaning is certain; see regex.h.
 */
#include "op/pretok/regex_tree.h"

#include "base/mem.h"

#include <string.h>

#define DEPTH_MAX 32
#define ANY_LETTER 0xff

struct parser {
    const uint8_t *text, *p, *end;
    struct lk_regex_tree *tree;
    unsigned depth;
    bool ignore_case;
    uint8_t last_letter; /* under (?i:, the letter just before, in lower case; 0: none; or ANY_LETTER */
    struct lk_err *err;
};

void lk_regex_tree_done(struct lk_regex_tree *tree)
{
    for (uint32_t i = 0; i < tree->sets_n; i++)
        lk_set_done(&tree->sets[i]);
    tree->sets_n = 0;
}

static enum lk_code refuse(struct parser *parser, const uint8_t *at, const char *what)
{
    return lk_fail(parser->err, LK_UNIMPLEMENTED, "%s at byte %zu of the expression: not implemented",
                   what, (size_t)(at - parser->text));
}

static enum lk_code wrong(struct parser *parser, const uint8_t *at, const char *what)
{
    return lk_fail(parser->err, LK_INVALID_ARGUMENT, "%s at byte %zu of the expression", what,
                   (size_t)(at - parser->text));
}

static bool is_next(const struct parser *parser, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(parser->end - parser->p) >= n && memcmp(parser->p, text, n) == 0;
}

static bool take(struct parser *parser, const char *text)
{
    bool there = is_next(parser, text);
    if (there)
        parser->p += strlen(text);
    return there;
}

static uint32_t take_point(struct parser *parser)
{
    size_t n;
    uint32_t point = lk_decode(parser->p, parser->end, &n);
    parser->p += n;
    return point;
}

/* ---- nodes ---- */

static enum lk_code add_node(struct parser *parser, struct lk_node node, uint32_t *ret_node)
{
    struct lk_regex_tree *tree = parser->tree;

    if (tree->n + 1 >= LK_REGEX_NODES)
        return lk_fail(parser->err, LK_UNIMPLEMENTED, "an expression of so many parts");
    tree->nodes[++tree->n] = node;
    *ret_node = tree->n;
    return LK_OK;
}

/* Takes over @set. */
static enum lk_code add_set_node(struct parser *parser, struct lk_set *set, uint32_t *ret_node)
{
    struct lk_regex_tree *tree = parser->tree;
    uint32_t i = 0;

    lk_set_settle(set);
    while (i < tree->sets_n && !lk_set_equal(&tree->sets[i], set))
        i++;
    if (i < tree->sets_n) {
        lk_set_done(set);
    } else if (i < LK_REGEX_SETS) {
        tree->sets[tree->sets_n++] = *set;
    } else {
        lk_set_done(set);
        return lk_fail(parser->err, LK_UNIMPLEMENTED,
                       "an expression with more than %d different characters and classes",
                       LK_REGEX_SETS);
    }
    return add_node(parser,
                    (struct lk_node){.kind = LK_NODE_SET, .set = i, .shortest = 1, .longest = 1},
                    ret_node);
}

/* ---- characters and escapes ---- */

static int hex_value(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* @most digits, at least @least of them; none above U+10FFFF. */
static bool take_hex(struct parser *parser, unsigned least, unsigned most, uint32_t *ret_point)
{
    unsigned n = 0;

    for (*ret_point = 0; n < most && parser->p < parser->end && hex_value(*parser->p) >= 0; n++)
        *ret_point = *ret_point << 4 | (uint32_t)hex_value(*parser->p++);
    return n >= least && *ret_point < 0x110000 && (*ret_point < 0xd800 || *ret_point > 0xdfff);
}

/* What stands after a backslash, when it is one character. */
static enum lk_code take_escaped(struct parser *parser, uint32_t *ret_point)
{
    static const char letters[] = "ntrfvae", values[] = "\n\t\r\f\v\a\033";
    const uint8_t *at = parser->p - 1;

    if (parser->p == parser->end)
        return wrong(parser, at, "a backslash that escapes nothing");
    if (*parser->p >= 0x80)
        return refuse(parser, at, "an escaped character beyond ASCII");
    uint8_t c = *parser->p++;
    const char *letter = memchr(letters, c, sizeof letters - 1);
    bool plain = (c < '0' || c > '9') && ((c | 0x20) < 'a' || (c | 0x20) > 'z');
    if (plain && c >= ' ' && c != 0x7f) {
        *ret_point = c;
        return LK_OK;
    }
    if (letter != NULL) {
        *ret_point = (uint8_t)values[letter - letters];
        return LK_OK;
    }
    if (c == 'x' && take(parser, "{")) {
        if (take_hex(parser, 1, 8, ret_point) && take(parser, "}"))
            return LK_OK;
    } else if (c == 'x') { /* above it would be a byte, not a character */
        if (take_hex(parser, 2, 2, ret_point) && *ret_point < 0x80)
            return LK_OK;
    } else if (c == 'u' && take_hex(parser, 4, 4, ret_point)) {
        return LK_OK;
    }
    return refuse(parser, at, "an escape");
}

static void add_spaces(struct lk_set *set)
{
    lk_set_add(set, '\t', '\r');
    lk_set_add(set, 0x85, 0x85);
    (void)lk_set_add_property(set, (const uint8_t *)"Z", 1);
}

static enum lk_code take_property(struct parser *parser, struct lk_set *set)
{
    const uint8_t *at = parser->p - 1;
    bool negative = parser->p[0] == 'P';

    parser->p++;
    if (!take(parser, "{"))
        return refuse(parser, at, "a property without braces");
    if (take(parser, "^"))
        negative = !negative;
    const uint8_t *close = memchr(parser->p, '}', (size_t)(parser->end - parser->p));
    if (close == NULL)
        return wrong(parser, at, "a property without an end");
    struct lk_set own = {0};
    if (!lk_set_add_property(&own, parser->p, (size_t)(close - parser->p)))
        return refuse(parser, at, "this property");
    parser->p = close + 1;
    if (negative)
        lk_set_invert(&own);
    lk_set_add_set(set, &own);
    lk_set_done(&own);
    return LK_OK;
}

/* A backslash was taken. Adds a class that has an escape of its own; *ret_class says whether it is one. */
static enum lk_code take_class_escape(struct parser *parser, bool inside, struct lk_set *set,
                                      bool *ret_class)
{
    uint8_t c = parser->p < parser->end ? *parser->p : 0;
    struct lk_set own = {0};

    *ret_class = memchr("sSdDwWpP", c, 8) != NULL;
    if (!*ret_class)
        return LK_OK;
    if (parser->ignore_case)
        return refuse(parser, parser->p - 1, "a class of characters under (?i:");
    if (c == 'p' || c == 'P')
        return take_property(parser, set);
    parser->p++;
    if ((c | 0x20) == 's') {
        add_spaces(&own);
    } else if ((c | 0x20) == 'd') {
        (void)lk_set_add_property(&own, (const uint8_t *)"Nd", 2);
    } else {
        lk_set_add_word(&own);
        if (!inside) { /* where the engine asks another table for what is below U+0100 */
            lk_set_add(&own, 0xb2, 0xb3);
            lk_set_add(&own, 0xb9, 0xb9);
            lk_set_add(&own, 0xbc, 0xbe);
        }
    }
    if (c < 'a')
        lk_set_invert(&own);
    lk_set_add_set(set, &own);
    lk_set_done(&own);
    return LK_OK;
}

/* Under (?i: only characters whose other cases are known for certain. */
static bool has_plain_case(uint32_t point)
{
    struct lk_set set = {0};
    bool plain = point < 0x80;

    (void)lk_set_add_property(&set, (const uint8_t *)"P", 1);
    for (size_t i = 0; i < set.n && !plain; i++)
        plain = point >= set.ranges[i].first && point <= set.ranges[i].last;
    lk_set_done(&set);
    return plain;
}

static void add_cased(struct lk_set *set, uint32_t point)
{
    uint32_t lower = point | 0x20;

    lk_set_add(set, point, point);
    if (lower < 'a' || lower > 'z')
        return;
    lk_set_add(set, lower, lower);
    lk_set_add(set, lower ^ 0x20, lower ^ 0x20);
    if (lower == 's')
        lk_set_add(set, 0x17f, 0x17f); /* the long s */
    if (lower == 'k')
        lk_set_add(set, 0x212a, 0x212a); /* the Kelvin sign */
}

/* Two letters that one character is a case of, like "ss". */
static bool is_ligature(uint8_t left, uint8_t right)
{
    return ((left == 's' || left == ANY_LETTER) && (right == 's' || right == 't')) ||
           ((left == 'f' || left == ANY_LETTER) && (right == 'f' || right == 'i' || right == 'l'));
}

static enum lk_code add_character(struct parser *parser, const uint8_t *at, uint32_t point,
                                  uint32_t *ret_node)
{
    struct lk_set set = {0};
    uint8_t lower = point < 0x80 ? (uint8_t)(point | 0x20) : 0;

    if (!parser->ignore_case) {
        lk_set_add(&set, point, point);
        return add_set_node(parser, &set, ret_node);
    }
    if (!has_plain_case(point))
        return refuse(parser, at, "a letter beyond ASCII under (?i:");
    if (is_ligature(parser->last_letter, lower))
        return refuse(parser, at, "letters under (?i: that one character is a case of");
    parser->last_letter = lower;
    add_cased(&set, point);
    return add_set_node(parser, &set, ret_node);
}

/* ---- classes ---- */

static enum lk_code parse_class(struct parser *parser, struct lk_set *ret_set);

static enum lk_code take_class_character(struct parser *parser, uint32_t *ret_point)
{
    if (take(parser, "\\"))
        return take_escaped(parser, ret_point);
    *ret_point = take_point(parser);
    return LK_OK;
}

static enum lk_code parse_range(struct parser *parser, struct lk_set *set)
{
    const uint8_t *at = parser->p;
    uint32_t first = 0, last = 0;
    bool class = false;

    LK_TRY(take_class_character(parser, &first));
    last = first;
    if (is_next(parser, "-") && !is_next(parser, "-]")) {
        parser->p++;
        if (is_next(parser, "[") || is_next(parser, "-") || parser->p == parser->end)
            return refuse(parser, at, "this range");
        if (take(parser, "\\")) {
            LK_TRY(take_class_escape(parser, true, set, &class));
            if (class)
                return refuse(parser, at, "this range");
            parser->p--;
        }
        LK_TRY(take_class_character(parser, &last));
        if (last < first)
            return wrong(parser, at, "a range that ends before it begins");
    }
    if (!parser->ignore_case) {
        lk_set_add(set, first, last);
        return LK_OK;
    }
    if (last > first ? last >= 0x80 : !has_plain_case(first))
        return refuse(parser, at, "a letter beyond ASCII under (?i:");
    for (uint32_t point = first; point <= last; point++)
        add_cased(set, point);
    return LK_OK;
}

static enum lk_code parse_class_part(struct parser *parser, bool first, struct lk_set *set)
{
    const uint8_t *at = parser->p;
    struct lk_set nested = {0};
    bool class = false;

    if (is_next(parser, "[:"))
        return refuse(parser, at, "a POSIX bracket");
    if (take(parser, "[")) {
        enum lk_code code = parse_class(parser, &nested);
        lk_set_add_set(set, &nested);
        lk_set_done(&nested);
        return code;
    }
    if (is_next(parser, "-") && !first && !is_next(parser, "-]"))
        return refuse(parser, at, "a hyphen in the middle of a class");
    if (is_next(parser, "\\")) {
        parser->p++;
        LK_TRY(take_class_escape(parser, true, set, &class));
        if (class)
            return is_next(parser, "-") && !is_next(parser, "-]")
                       ? refuse(parser, parser->p, "a hyphen in the middle of a class")
                       : LK_OK;
        parser->p--;
    }
    return parse_range(parser, set);
}

/* After "[": the rest of the class. */
static enum lk_code parse_parts(struct parser *parser, struct lk_set *set)
{
    const uint8_t *at = parser->p - 1;
    struct lk_set before = {0}; /* what "&&" leaves so far */
    bool negative = take(parser, "^"), first = true, several = false;
    enum lk_code code = LK_OK;

    if (negative && parser->ignore_case)
        return refuse(parser, at, "a negative class under (?i:");
    if (is_next(parser, "]"))
        return refuse(parser, at, "a class that begins with ]");
    while (code == LK_OK && !take(parser, "]")) {
        if (parser->p == parser->end) {
            code = wrong(parser, at, "a class without an end");
        } else if (take(parser, "&&")) {
            lk_set_settle(set);
            if (several)
                lk_set_intersect(set, &before);
            lk_set_done(&before);
            before = *set;
            *set = (struct lk_set){0};
            several = first = true;
            if (is_next(parser, "]") || is_next(parser, "&&"))
                code = refuse(parser, parser->p, "an empty side of &&");
        } else {
            code = parse_class_part(parser, first, set);
            first = false;
        }
    }
    lk_set_settle(set);
    if (several)
        lk_set_intersect(set, &before);
    lk_set_done(&before);
    if (negative)
        lk_set_invert(set);
    return code;
}

static enum lk_code parse_class(struct parser *parser, struct lk_set *ret_set)
{
    if (++parser->depth > DEPTH_MAX)
        return refuse(parser, parser->p, "nesting as deep as this");
    enum lk_code code = parse_parts(parser, ret_set);
    parser->depth--;
    parser->last_letter = 0;
    return code;
}

/* ---- quantifiers ---- */

static uint32_t times(uint32_t a, uint32_t b)
{
    uint64_t product = (uint64_t)a * b;
    if (a == 0 || b == 0)
        return 0;
    return a == LK_REGEX_ENDLESS || b == LK_REGEX_ENDLESS || product >= LK_REGEX_ENDLESS
               ? LK_REGEX_ENDLESS
               : (uint32_t)product;
}

static uint32_t plus(uint32_t a, uint32_t b)
{
    uint64_t sum = (uint64_t)a + b;
    return sum >= LK_REGEX_ENDLESS ? LK_REGEX_ENDLESS : (uint32_t)sum;
}

static bool take_number(struct parser *parser, uint32_t *ret)
{
    const uint8_t *start = parser->p;

    for (*ret = 0; parser->p < parser->end && *parser->p >= '0' && *parser->p <= '9'; parser->p++)
        *ret = *ret > LK_REGEX_REPEAT_MAX ? *ret : *ret * 10 + (*parser->p - '0');
    return parser->p > start;
}

/* After "{". */
static enum lk_code parse_interval(struct parser *parser, uint32_t *ret_min, uint32_t *ret_max)
{
    const uint8_t *at = parser->p - 1;
    bool low = take_number(parser, ret_min);
    bool comma = take(parser, ",");
    bool high = comma && take_number(parser, ret_max);

    if (!take(parser, "}") || (!low && !high))
        return refuse(parser, at, "a brace that begins no interval");
    if (!comma)
        *ret_max = *ret_min;
    else if (!high)
        *ret_max = LK_REGEX_ENDLESS;
    if (*ret_min > LK_REGEX_REPEAT_MAX ||
        (*ret_max > LK_REGEX_REPEAT_MAX && *ret_max != LK_REGEX_ENDLESS))
        return refuse(parser, at, "an interval of more than 255");
    if (*ret_max < *ret_min || *ret_max == 0)
        return refuse(parser, at, "this interval");
    return LK_OK;
}

static enum lk_code check_repeat(struct parser *parser, const uint8_t *at,
                                 const struct lk_node *repeat)
{
    const struct lk_node *child = &parser->tree->nodes[repeat->child];

    if (child->kind == LK_NODE_LOOK || child->kind == LK_NODE_END || child->kind == LK_NODE_EMPTY)
        return refuse(parser, at, "repeating what consumes nothing");
    if (child->shortest == 0 && !(repeat->min == 0 && repeat->max == 1))
        return refuse(parser, at, "repeating what may be empty");
    if (repeat->how == LK_REPEAT_POSSESSIVE && child->kind != LK_NODE_SET)
        return refuse(parser, at, "a possessive group");
    return LK_OK;
}

static enum lk_code parse_quantifier(struct parser *parser, uint32_t *node)
{
    struct lk_node repeat = {.kind = LK_NODE_REPEAT, .child = *node, .max = LK_REGEX_ENDLESS};
    const uint8_t *at = parser->p;
    bool interval = false;

    if (take(parser, "?")) {
        repeat.max = 1;
    } else if (take(parser, "+")) {
        repeat.min = 1;
    } else if (take(parser, "{")) {
        LK_TRY(parse_interval(parser, &repeat.min, &repeat.max));
        interval = true;
    } else if (!take(parser, "*")) {
        return LK_OK;
    }
    if (interval && (is_next(parser, "+") || (is_next(parser, "?") && repeat.min == repeat.max)))
        return refuse(parser, at, "what follows an interval"); /* has another meaning in Ruby's syntax */
    if (take(parser, "?"))
        repeat.how = LK_REPEAT_LAZY;
    else if (take(parser, "+"))
        repeat.how = LK_REPEAT_POSSESSIVE;
    if (parser->p < parser->end && memchr("?*+{", *parser->p, 4) != NULL)
        return refuse(parser, parser->p, "a quantifier of a quantifier");
    LK_TRY(check_repeat(parser, at, &repeat));
    const struct lk_node *child = &parser->tree->nodes[*node];
    repeat.shortest = times(child->shortest, repeat.min);
    repeat.longest = times(child->longest, repeat.max);
    parser->last_letter = 0;
    return add_node(parser, repeat, node);
}

/* ---- the rest ---- */

static enum lk_code parse_alternatives(struct parser *parser, uint32_t *ret_node);

static enum lk_code parse_inside(struct parser *parser, const uint8_t *at, uint32_t *ret_node)
{
    if (++parser->depth > DEPTH_MAX)
        return refuse(parser, at, "nesting as deep as this");
    LK_TRY(parse_alternatives(parser, ret_node));
    parser->depth--;
    parser->last_letter = parser->ignore_case ? ANY_LETTER : 0;
    return take(parser, ")") ? LK_OK : wrong(parser, at, "a group without an end");
}

static enum lk_code parse_look(struct parser *parser, const uint8_t *at, bool negative,
                               uint32_t *ret_node)
{
    struct lk_node look = {.kind = LK_NODE_LOOK, .negative = negative};

    LK_TRY(parse_inside(parser, at, &look.child));
    if (parser->tree->nodes[look.child].longest > LK_REGEX_LOOK_MAX)
        return refuse(parser, at, "looking ahead at more than 8 characters");
    return add_node(parser, look, ret_node);
}

/* After "(". */
static enum lk_code parse_group(struct parser *parser, uint32_t *ret_node)
{
    const uint8_t *at = parser->p - 1;

    if (take(parser, "?=") || is_next(parser, "?!")) {
        bool negative = take(parser, "?!");
        return parse_look(parser, at, negative, ret_node);
    }
    if (take(parser, "?i:")) {
        bool before = parser->ignore_case;
        parser->ignore_case = true;
        LK_TRY(parse_inside(parser, at, ret_node));
        parser->ignore_case = before;
        parser->last_letter = before ? ANY_LETTER : 0;
        return LK_OK;
    }
    if (!take(parser, "?:") && is_next(parser, "?"))
        return refuse(parser, at, "this kind of group");
    return parse_inside(parser, at, ret_node);
}

static enum lk_code parse_dot(struct parser *parser, uint32_t *ret_node)
{
    struct lk_set set = {0};

    parser->last_letter = 0;
    lk_set_add(&set, '\n', '\n');
    lk_set_invert(&set);
    return add_set_node(parser, &set, ret_node);
}

/* "$" is (?=\n|\z). */
static enum lk_code add_line_end(struct parser *parser, uint32_t *ret_node)
{
    struct lk_node either = {.kind = LK_NODE_ALT, .longest = 1}, look = {.kind = LK_NODE_LOOK};
    struct lk_set set = {0};

    lk_set_add(&set, '\n', '\n');
    LK_TRY(add_set_node(parser, &set, &either.child));
    LK_TRY(add_node(parser, (struct lk_node){.kind = LK_NODE_END},
                    &parser->tree->nodes[either.child].next));
    LK_TRY(add_node(parser, either, &look.child));
    return add_node(parser, look, ret_node);
}

static enum lk_code parse_escape(struct parser *parser, uint32_t *ret_node)
{
    const uint8_t *at = parser->p - 1;
    struct lk_set set = {0};
    uint32_t point = 0;
    bool class = false;

    if (take(parser, "z"))
        return add_node(parser, (struct lk_node){.kind = LK_NODE_END}, ret_node);
    enum lk_code code = take_class_escape(parser, false, &set, &class);
    if (code != LK_OK) {
        lk_set_done(&set);
        return code;
    }
    if (class)
        return add_set_node(parser, &set, ret_node);
    LK_TRY(take_escaped(parser, &point));
    return add_character(parser, at, point, ret_node);
}

static enum lk_code parse_atom(struct parser *parser, uint32_t *ret_node)
{
    const uint8_t *at = parser->p;
    struct lk_set set = {0};

    if (take(parser, "("))
        return parse_group(parser, ret_node);
    if (take(parser, "[")) {
        enum lk_code code = parse_class(parser, &set);
        if (code == LK_OK)
            return add_set_node(parser, &set, ret_node);
        lk_set_done(&set);
        return code;
    }
    if (take(parser, "."))
        return parse_dot(parser, ret_node);
    if (take(parser, "$"))
        return add_line_end(parser, ret_node);
    if (take(parser, "\\"))
        return parse_escape(parser, ret_node);
    if (memchr("?*+{^", *at, 5) != NULL)
        return refuse(parser, at, *at == '^' ? "^" : "a quantifier of nothing");
    return add_character(parser, at, take_point(parser), ret_node);
}

static enum lk_code parse_sequence(struct parser *parser, uint32_t *ret_node)
{
    struct lk_node sequence = {.kind = LK_NODE_CAT};
    uint32_t last = 0, node = 0;

    while (parser->p < parser->end && *parser->p != '|' && *parser->p != ')') {
        LK_TRY(parse_atom(parser, &node));
        LK_TRY(parse_quantifier(parser, &node));
        /* A node may be shared with no other, so its link is free. */
        if (last == 0)
            sequence.child = node;
        else
            parser->tree->nodes[last].next = node;
        last = node;
        sequence.shortest = plus(sequence.shortest, parser->tree->nodes[node].shortest);
        sequence.longest = plus(sequence.longest, parser->tree->nodes[node].longest);
    }
    if (sequence.child == 0)
        sequence.kind = LK_NODE_EMPTY;
    return add_node(parser, sequence, ret_node);
}

static enum lk_code parse_alternatives(struct parser *parser, uint32_t *ret_node)
{
    struct lk_node either = {.kind = LK_NODE_ALT, .shortest = LK_REGEX_ENDLESS};
    uint32_t last = 0, node = 0;
    uint8_t letter = parser->last_letter; /* every alternative follows it */

    do {
        parser->last_letter = letter;
        LK_TRY(parse_sequence(parser, &node));
        if (last == 0)
            either.child = node;
        else
            parser->tree->nodes[last].next = node;
        last = node;
        const struct lk_node *new = &parser->tree->nodes[node];
        either.shortest = new->shortest < either.shortest ? new->shortest : either.shortest;
        either.longest = new->longest > either.longest ? new->longest : either.longest;
    } while (take(parser, "|"));
    if (either.child == last) {
        *ret_node = last;
        return LK_OK;
    }
    return add_node(parser, either, ret_node);
}

enum lk_code lk_regex_parse(const struct lk_pattern *pattern, struct lk_regex_tree *tree,
                            struct lk_err *err)
{
    struct parser parser = {.text = pattern->text,
                            .p = pattern->text,
                            .end = pattern->text + pattern->n,
                            .tree = tree,
                            .err = err};

    LK_TRY(parse_alternatives(&parser, &tree->root));
    if (parser.p < parser.end)
        return wrong(&parser, parser.p, "a ) too many");
    if (tree->nodes[tree->root].shortest == 0)
        return lk_fail(err, LK_UNIMPLEMENTED, "an expression that matches the empty text: not implemented");
    return LK_OK;
}
