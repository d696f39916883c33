/*
 * Faults for tests: rows that crash, fill or slow down the worker that measures them. Compiled in with
 * -DLK_TEST_FAULTS only; the worker that is installed has none of it.
 */
#ifndef LK_WORKER_FAULT_H
#define LK_WORKER_FAULT_H

#include <stddef.h>
#include <stdint.h>

#ifdef LK_TEST_FAULTS
/* LK_FAULT_CRASH_TEXT: abort() on a row that contains it. LK_FAULT_EAT_TEXT: take memory until there
 * is no more, or 64 GiB. LK_FAULT_SLOW_TEXT: sleep 3 s, or LK_FAULT_SLOW_MS, on one, in a worker that can be
 * the first to touch the file LK_FAULT_SLOW_ONCE, if that is set. */
void fault_row(const uint8_t *row, size_t bytes);
#else
static inline void fault_row(const uint8_t *row, size_t bytes)
{
    (void)row;
    (void)bytes;
}
#endif

#endif
