#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum lk_code(lk_fail)(struct lk_err *err, enum lk_code code, const char *format, ...)
{
    if (err != NULL) {
        va_list args;
        va_start(args, format);
        (void)vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
        err->code = code;
    }
    return code;
}

enum lk_code lk_fail_in(struct lk_err *err, const char *format, ...)
{
    char context[LK_ERR_TEXT_MAX];
    char whole[LK_ERR_TEXT_MAX];
    va_list args;

    if (err == NULL)
        return LK_UNKNOWN;
    va_start(args, format);
    (void)vsnprintf(context, sizeof context, format, args);
    va_end(args);
    /* Both halves are bounded; what does not fit is cut at the end. */
    size_t n = strlen(context);
    size_t room = sizeof whole - 1;
    if (n > room - 2)
        n = room - 2;
    memcpy(whole, context, n);
    memcpy(whole + n, ": ", 2);
    n += 2;
    size_t m = strlen(err->text);
    if (m > room - n)
        m = room - n;
    memcpy(whole + n, err->text, m);
    whole[n + m] = '\0';
    memcpy(err->text, whole, n + m + 1);
    return err->code;
}

const char *lk_code_name(enum lk_code code)
{
    switch (code) {
#define LK_CODE_NAME(name, number)                                                                 \
    case LK_##name:                                                                                \
        return #name;
        LK_CODES(LK_CODE_NAME)
#undef LK_CODE_NAME
    }
    return "?";
}

_Noreturn void lk_check_failed(const char *condition, const char *file, int line)
{
    (void)fprintf(stderr, "lanekeeper: %s:%d: broken invariant: %s\n", file, line, condition);
    abort();
}
