/*
 * Memory shared by a daemon on this host: one hand-over connection and the regions that it passed,
 * mapped read-only. Counted: the handle and every batch that lies in it hold it, and the connection
 * (whose end would free all leases) lives as long as the last of them. Thread-safe.
 */
#ifndef LK_CLIENT_MEMORY_H
#define LK_CLIENT_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct memory;

/* Joins at the Unix socket @path until @until_ms (CLOCK_MONOTONIC). False: @ret_why says why. */
bool lkc_memory_open(const char *path, int64_t until_ms, struct memory **ret_memory, char *ret_why,
                 size_t why_bytes);
void lkc_memory_hold(struct memory *memory);
void lkc_memory_drop(struct memory *memory); /* NULL is fine */

uint64_t lkc_memory_client(const struct memory *memory); /* the id to name in calls; not 0 */
bool lkc_memory_alive(const struct memory *memory);      /* the daemon still holds the connection */
int lkc_memory_fd(const struct memory *memory);          /* readable when it may not be alive any more */

/* The bytes [offset, offset + bytes) of a region, aligned to 8 bytes; NULL: there is no such place. */
const uint8_t *lkc_memory_at(const struct memory *memory, uint32_t region, uint64_t offset, uint64_t bytes);

/* Gives a lease back. Never blocks: what the socket does not take goes later. (If there is no memory to
 * remember that in, the lease ends with the connection.) */
void lkc_memory_release(struct memory *memory, uint64_t lease);

#endif
