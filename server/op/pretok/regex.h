/*
 * Split at the matches of any expression, when what it means to the reference's engine (Oniguruma, in
 * Ruby's syntax) is certain; everything else is refused.
 *
 * Accepted: characters and escapes for them, ".", classes with ranges, nesting and "&&", \s \S \d \D \w
 * \W, \p{…} of general categories and some scripts, groups, alternatives, ? * + {n,m} and their lazy
 * ("??" "*?" "+?" "{n,m}?") forms, possessive ones of single characters and classes, look-ahead at a
 * bounded number of characters, "$", "\z", and (?i:…) over ASCII. An expression must not match the
 * empty text.
 *
 * Refused: "^", "\A", "\b" and look-behind (a piece does not know what was before it), back references,
 * atomic groups, options but (?i:…), and what has a meaning of its own in Ruby's syntax ("{n,m}+").
 *
 * It is matched by backtracking with an engine of our own over our own tables. PCRE2 would not do: its
 * tables are of another Unicode version, and a limit on its work cannot be both sure and exact, while
 * here no state of a text is tried twice once an expression turns out to be hard: the machine's work is
 * then linear in the text. Memory for that is a bit for each byte and each choice of the expression.
 */
#ifndef LK_OP_PRETOK_REGEX_H
#define LK_OP_PRETOK_REGEX_H

#include "op/pretok/split.h"

/* UNIMPLEMENTED names the construct and where it stands in the expression (in bytes from 0);
 * INVALID_ARGUMENT: it is no expression. */
enum lk_code lk_cutter_regex(const struct lk_pattern *pattern, const struct lk_unicode *unicode,
                             enum lk_split how, lk_spelled *spelled, struct lk_cutter *ret_cutter,
                             struct lk_err *err);

/* Is there certainly a match wherever a character is left? Then no text lies between matches. */
bool lk_regex_covers(const struct lk_pattern *pattern);

#endif
