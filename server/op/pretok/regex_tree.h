/*
 * An expression as a tree, and the sets of code points in it: what the parser hands on.
 */
#ifndef LK_OP_PRETOK_REGEX_TREE_H
#define LK_OP_PRETOK_REGEX_TREE_H

#include "op/pretok/pretok.h"
#include "op/text/unicode_data.h"

#define LK_REGEX_SETS 64          /* different ones in an expression */
#define LK_REGEX_NODES 1024
#define LK_REGEX_REPEAT_MAX 255   /* in {n,m} */
#define LK_REGEX_LOOK_MAX 8       /* characters that look-ahead may see */
#define LK_REGEX_ENDLESS UINT32_MAX

/* Code points; sorted ranges that do not touch once lk_set_settle was called. Zeroed = empty. */
struct lk_set {
    struct lk_range *ranges;
    size_t n, cap;
};

void lk_set_done(struct lk_set *set);
void lk_set_add(struct lk_set *set, uint32_t first, uint32_t last);
void lk_set_add_set(struct lk_set *set, const struct lk_set *other);
void lk_set_settle(struct lk_set *set);
void lk_set_invert(struct lk_set *set);                             /* leaves it settled */
void lk_set_intersect(struct lk_set *set, const struct lk_set *other); /* the same; both settled */
bool lk_set_equal(const struct lk_set *a, const struct lk_set *b);  /* both settled */
/* General categories by short or long name, and scripts, as the reference's engine knows them; false:
 * unknown. Case, '_', '-' and ' ' in names do not matter. */
bool lk_set_add_property(struct lk_set *set, const uint8_t *name, size_t n);
void lk_set_add_word(struct lk_set *set); /* \w in a class; outside it is a little more */

enum lk_node_kind {
    LK_NODE_EMPTY,
    LK_NODE_SET,      /* one character */
    LK_NODE_CAT,      /* all children, one after the other */
    LK_NODE_ALT,      /* one of the children, in this order of preference */
    LK_NODE_REPEAT,   /* its child */
    LK_NODE_LOOK,     /* its child matches here, or does not: nothing is consumed */
    LK_NODE_END,      /* \z */
};

enum lk_repeat { LK_REPEAT_GREEDY, LK_REPEAT_LAZY, LK_REPEAT_POSSESSIVE };

struct lk_node {
    enum lk_node_kind kind;
    uint32_t set;
    uint32_t min, max; /* of REPEAT */
    enum lk_repeat how;
    bool negative;       /* of LOOK */
    uint32_t child, next; /* first child and next sibling; 0: none */
    uint32_t shortest;   /* characters that it matches at least, */
    uint32_t longest;    /* and at most: LK_REGEX_ENDLESS where there is no bound */
};

struct lk_regex_tree {
    struct lk_node nodes[LK_REGEX_NODES]; /* 0 is no node */
    uint32_t n, root;
    struct lk_set sets[LK_REGEX_SETS];
    uint32_t sets_n;
};

void lk_regex_tree_done(struct lk_regex_tree *tree);
/* @tree is zeroed; done by the caller also after an error. See regex.h for the errors. */
enum lk_code lk_regex_parse(const struct lk_pattern *pattern, struct lk_regex_tree *tree,
                            struct lk_err *err);

/*
 * The sets of an expression divide characters into classes, which are bytes: two characters of a class are
 * alike to it. PCRE2 gets the expression and the text in these, so it needs neither Unicode nor UTF-8.
 */
struct lk_regex_code {
    struct lk_unicode classes;
    struct pcre2_real_code_8 *code; /* pcre2_code: may be shared by threads */
    bool jit;                       /* else PCRE2 interprets it */
};

void lk_regex_code_done(struct lk_regex_code *code);
/* @ret_code is zeroed; done by the caller also after an error. UNIMPLEMENTED: it is too large. */
enum lk_code lk_regex_compile(const struct lk_regex_tree *tree, struct lk_regex_code *ret_code,
                              struct lk_err *err);

#endif
