/* On their own, so that fuzzing can put others in their place. */
#include "op/pretok/regex.h"

#include <stdio.h>
#include <stdlib.h>

const uint32_t lk_regex_steps = 100000000;

_Noreturn void lk_regex_too_hard(struct lk_pattern pattern, int code)
{
    (void)fprintf(stderr,
            "lanekeeper: cutting a text by the expression \"%.*s\" takes too many steps or too much "
            "memory (PCRE2's error %d)\n",
            (int)(pattern.n < 400 ? pattern.n : 400), (const char *)pattern.text, code);
    abort();
}
