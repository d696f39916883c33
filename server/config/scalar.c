#include "config/scalar.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct unit {
    const char *name;
    uint64_t factor;
};

#define KIBI 1024ull

static const struct unit size_units[] = {
    {"TiB", KIBI * KIBI * KIBI * KIBI}, {"GiB", KIBI *KIBI *KIBI}, {"MiB", KIBI *KIBI},
    {"KiB", KIBI},                      {"TB", 1000000000000ull},  {"GB", 1000000000ull},
    {"MB", 1000000ull},                 {"kB", 1000ull},           {"B", 1},
    {"", 1},
};

static const struct unit duration_units[] = {
    {"h", 3600000},
    {"min", 60000},
    {"s", 1000},
    {"ms", 1},
};

#define COUNT(table) (sizeof(table) / sizeof *(table))

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Why a text that starts with no digit, or goes on after its digits, is no integer. */
static const char *why_not_integer(const char *text, const char *rest)
{
    if (text[0] == '\0')
        return "nothing is there";
    if (text[0] == '-')
        return "it is negative";
    if (text[0] == '+')
        return "write it without a sign";
    if (rest == text)
        return "it is not a number";
    if (text[0] == '0' && (rest[0] == 'x' || rest[0] == 'o' || rest[0] == 'b'))
        return "write it in decimal digits";
    if (rest[0] == '.')
        return "write it without a point";
    if (rest[0] == '_' || rest[0] == ',')
        return "write the digits without separators";
    if ((rest[0] == 'e' || rest[0] == 'E') && (is_digit(rest[1]) || rest[1] == '-' || rest[1] == '+'))
        return "write it without an exponent";
    return "something follows the digits";
}

/* The digits at the start of @text; @ret_rest is what follows. */
static const char *leading_integer(const char *text, uint64_t *ret_value, const char **ret_rest)
{
    uint64_t value = 0;
    const char *p = text;
    for (; is_digit(*p); p++) {
        uint64_t digit = (uint64_t)(*p - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return "it does not fit 64 bits";
        value = value * 10 + digit;
    }
    if (p == text)
        return why_not_integer(text, p);
    if (text[0] == '0' && p - text > 1)
        return "a leading zero could mean octal: write it without";
    *ret_value = value;
    *ret_rest = p;
    return NULL;
}

const char *lk_scalar_integer(const char *text, uint64_t *ret_value)
{
    uint64_t value = 0;
    const char *rest = NULL;
    const char *problem = leading_integer(text, &value, &rest);
    if (problem != NULL)
        return problem;
    if (*rest != '\0')
        return why_not_integer(text, rest);
    *ret_value = value;
    return NULL;
}

static const char *with_unit(const char *text, const struct unit *units, size_t n, uint64_t *ret,
                             const char *bad_unit)
{
    uint64_t value = 0;
    const char *rest = NULL;
    const char *problem = leading_integer(text, &value, &rest);
    if (problem != NULL)
        return problem;
    if (*rest == '.' || *rest == '_' || *rest == ',')
        return why_not_integer(text, rest);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(rest, units[i].name) != 0)
            continue;
        if (value > UINT64_MAX / units[i].factor)
            return "it does not fit 64 bits";
        *ret = value * units[i].factor;
        return NULL;
    }
    return bad_unit;
}

const char *lk_scalar_size(const char *text, uint64_t *ret_bytes)
{
    return with_unit(text, size_units, COUNT(size_units), ret_bytes,
                     "units are B, kB, MB, GB, TB (powers of 1000) and KiB, MiB, GiB, TiB (powers "
                     "of 1024), written like this and without a space");
}

const char *lk_scalar_duration(const char *text, uint64_t *ret_ms)
{
    return with_unit(text, duration_units, COUNT(duration_units), ret_ms,
                     "a duration needs one of the units ms, s, min, h, without a space");
}

/* The digits after the point, as units of 1e-9. */
static const char *fraction(const char *digits, uint64_t *ret_nano)
{
    uint64_t nano = 0, unit = LK_WEIGHT_ONE;
    const char *p = digits;
    for (; is_digit(*p); p++) {
        if (unit == 1)
            return "at most 9 digits may follow the point";
        unit /= 10;
        nano += unit * (uint64_t)(*p - '0');
    }
    if (p == digits)
        return "digits must follow the point";
    if (*p != '\0')
        return why_not_integer("1", p[0] == '.' ? "" : p);
    *ret_nano = nano;
    return NULL;
}

const char *lk_scalar_weight(const char *text, uint64_t *ret_nano)
{
    uint64_t whole = 0, nano = 0;
    const char *rest = NULL;
    const char *problem = leading_integer(text, &whole, &rest);
    if (problem != NULL)
        return problem;
    if (whole >= LK_WEIGHT_ONE)
        return "weights are below 1000000000";
    if (*rest == '.')
        problem = fraction(rest + 1, &nano);
    else if (*rest != '\0')
        problem = why_not_integer(text, rest);
    if (problem != NULL)
        return problem;
    *ret_nano = whole * LK_WEIGHT_ONE + nano;
    return NULL;
}

static void put_unit(struct lk_buf *out, uint64_t value, const struct unit *units, size_t n)
{
    size_t best = n - 1;
    for (size_t i = n; i-- > 0;) {
        if (value != 0 && value % units[i].factor == 0 && units[i].factor > units[best].factor)
            best = i;
    }
    lk_buf_putf(out, "%llu%s", (unsigned long long)(value / units[best].factor), units[best].name);
}

void lk_put_size(struct lk_buf *out, uint64_t bytes)
{
    put_unit(out, bytes, size_units, COUNT(size_units));
}

void lk_put_duration(struct lk_buf *out, uint64_t ms)
{
    put_unit(out, ms, duration_units, COUNT(duration_units));
}

void lk_put_about(struct lk_buf *out, uint64_t bytes)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    unsigned u = 0;
    uint64_t below = 0; /* tenths of the unit */
    while (bytes >= 1024 && u < 6) {
        below = bytes % 1024 * 10 / 1024;
        bytes /= 1024;
        u++;
    }
    if (u == 0)
        lk_buf_putf(out, "%llu B", (unsigned long long)bytes);
    else
        lk_buf_putf(out, "%llu.%llu %s", (unsigned long long)bytes, (unsigned long long)below, unit[u]);
}
