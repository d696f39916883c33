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
 * PCRE2 does the matching, by backtracking, as the reference's engine does; what a letter or a space is comes
 * from our own tables all the same. Expressions whose repeats can share out a text among them in many ways
 * can take quadratic or even exponential time on texts made for it. So the steps and the memory of one match
 * are limited, and a text that takes more ends the process: a cutter cannot fail.
 */
#ifndef LK_OP_PRETOK_REGEX_H
#define LK_OP_PRETOK_REGEX_H

#include "op/pretok/split.h"

/* UNIMPLEMENTED names the construct and where it stands in the expression (in bytes from 0);
 * INVALID_ARGUMENT: it is no expression. */
enum lk_code lk_cutter_regex(const struct lk_pattern *pattern, const struct lk_unicode *unicode,
                             enum lk_split how, lk_spelled *spelled, struct lk_cutter *ret_cutter,
                             struct lk_err *err);

/* Steps of one match, as PCRE2 counts them; they take a second or two. */
extern const uint32_t lk_regex_steps;
/* Says which expression took too much, and ends the process. @code is PCRE2's. */
_Noreturn void lk_regex_too_hard(struct lk_pattern pattern, int code);

/* Is there certainly a match wherever a character is left? Then no text lies between matches. */
bool lk_regex_covers(const struct lk_pattern *pattern);

#endif
