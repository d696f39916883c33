/*
 * Does an expression match everywhere? Asked of what would be lost between matches.
 */
#include "op/pretok/regex.h"

#include "base/mem.h"
#include "op/pretok/regex_tree.h"

#include <stdlib.h>

/* Adds characters with which it certainly matches, taking one. */
static void add_certain(const struct lk_regex_tree *tree, const struct lk_node *node,
                        struct lk_set *set);

static bool can_be_empty(const struct lk_node *node)
{
    return node->shortest == 0 && node->kind != LK_NODE_LOOK && node->kind != LK_NODE_END;
}

/* One part takes the character, the others are empty; a possessive part before it might take it first.
 * What is taken no times has no condition to meet; parts within groups that are taken were not asked for
 * theirs, so of these only single characters may be left out. */
static bool may_be_left_out(const struct lk_regex_tree *tree, const struct lk_node *node, bool before)
{
    if (node->kind == LK_NODE_EMPTY)
        return true;
    return can_be_empty(node) && node->kind == LK_NODE_REPEAT &&
           (node->min == 0 || tree->nodes[node->child].kind == LK_NODE_SET) &&
           !(before && node->how == LK_REPEAT_POSSESSIVE);
}

static void add_certain_of_sequence(const struct lk_regex_tree *tree, const struct lk_node *sequence,
                                    struct lk_set *set)
{
    for (uint32_t i = sequence->child; i != 0; i = tree->nodes[i].next) {
        bool alone = true, before = true;
        for (uint32_t k = sequence->child; k != 0; k = tree->nodes[k].next) {
            if (k == i)
                before = false;
            else
                alone &= may_be_left_out(tree, &tree->nodes[k], before);
        }
        if (alone)
            add_certain(tree, &tree->nodes[i], set);
    }
}

static void add_certain(const struct lk_regex_tree *tree, const struct lk_node *node,
                        struct lk_set *set)
{
    switch (node->kind) {
    case LK_NODE_SET:
        lk_set_add_set(set, &tree->sets[node->set]);
        return;
    case LK_NODE_REPEAT:
        if (node->min <= 1)
            add_certain(tree, &tree->nodes[node->child], set);
        return;
    case LK_NODE_ALT:
        for (uint32_t i = node->child; i != 0; i = tree->nodes[i].next)
            add_certain(tree, &tree->nodes[i], set);
        return;
    case LK_NODE_CAT:
        add_certain_of_sequence(tree, node, set);
        return;
    default:
        return;
    }
}

bool lk_regex_covers(const struct lk_pattern *pattern)
{
    struct lk_regex_tree *tree = lk_zalloc(1, sizeof *tree);
    struct lk_set set = {0};
    struct lk_err err;
    bool covers = false;

    if (lk_regex_parse(pattern, tree, &err) == LK_OK) {
        add_certain(tree, &tree->nodes[tree->root], &set);
        lk_set_add(&set, 0xd800, 0xdfff); /* no characters */
        lk_set_settle(&set);
        covers = set.n == 1 && set.ranges[0].first == 0 && set.ranges[0].last == 0x10ffff;
    }
    lk_set_done(&set);
    lk_regex_tree_done(tree);
    free(tree);
    return covers;
}
