/*
 * Status codes and error texts: how every layer says that something went wrong.
 *
 * A function that can fail returns an enum lk_code and takes a struct lk_err as its last argument.
 * The code is what a program acts on, the text what a person reads. Library code never prints.
 * Codes have gRPC's names, numbers and meanings, so they travel on the wire unchanged.
 */
#ifndef LK_BASE_STATUS_H
#define LK_BASE_STATUS_H

#include <stddef.h>

/* X(NAME, number): the numbers are wire format, never renumber. */
#define LK_CODES(X)                                                                                \
    X(OK, 0)                                                                                       \
    X(CANCELLED, 1)                                                                                \
    X(UNKNOWN, 2)                                                                                  \
    X(INVALID_ARGUMENT, 3)                                                                         \
    X(DEADLINE_EXCEEDED, 4)                                                                        \
    X(NOT_FOUND, 5)                                                                                \
    X(ALREADY_EXISTS, 6)                                                                           \
    X(PERMISSION_DENIED, 7)                                                                        \
    X(RESOURCE_EXHAUSTED, 8)                                                                       \
    X(FAILED_PRECONDITION, 9)                                                                      \
    X(ABORTED, 10)                                                                                 \
    X(OUT_OF_RANGE, 11)                                                                            \
    X(UNIMPLEMENTED, 12)                                                                           \
    X(INTERNAL, 13)                                                                                \
    X(UNAVAILABLE, 14)                                                                             \
    X(DATA_LOSS, 15)                                                                               \
    X(UNAUTHENTICATED, 16)

enum lk_code {
#define LK_CODE_ENUM(name, number) LK_##name = (number),
    LK_CODES(LK_CODE_ENUM)
#undef LK_CODE_ENUM
};

#define LK_ERR_TEXT_MAX 768

/* Owned by the caller, usually on its stack. Untouched when the call succeeds. */
struct lk_err {
    enum lk_code code;
    char text[LK_ERR_TEXT_MAX]; /* NUL-terminated, cut at the end when too long */
};

/* Sets @err (which may be NULL) and returns @code, so that a failure is one statement. */
enum lk_code lk_fail(struct lk_err *err, enum lk_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#ifdef __clang_analyzer__ /* sees one file at a time: that what is returned is @code, and no LK_OK */
#define lk_fail(err, code, ...) ((void)(lk_fail)(err, code, __VA_ARGS__), (code))
#endif

/* Puts "<context>: " before the text of @err and returns its code: says where, on the way up. */
enum lk_code lk_fail_in(struct lk_err *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* "OK", "DATA_LOSS", …; "?" for a number that is no code. Static storage. */
const char *lk_code_name(enum lk_code code);

/* Forwards a failure; for functions that own nothing. */
#define LK_TRY(call)                                                                               \
    do {                                                                                           \
        enum lk_code lk_try_code = (call);                                                         \
        if (lk_try_code != LK_OK)                                                                  \
            return lk_try_code;                                                                    \
    } while (0)

/* Always on, in production too: a broken invariant stops the process rather than change data. */
#define LK_CHECK(condition)                                                                        \
    ((condition) ? (void)0 : lk_check_failed(#condition, __FILE__, __LINE__))

_Noreturn void lk_check_failed(const char *condition, const char *file, int line);

#endif
