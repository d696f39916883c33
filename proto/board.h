/*
 * The board: memory that a local worker shares with its daemon, where it lays the payloads of its results
 * instead of sending them. It has a part for each request that a worker has in flight; the daemon reads a
 * part from the result's arrival until it answers that request, and the worker does not touch it meanwhile.
 *
 * It is a memfd without a name, which goes with its last user. The daemon seals its size, so that nothing
 * a worker does to it can make reading it fail; its contents are as trustworthy as a message.
 */
#ifndef LK_PROTO_BOARD_H
#define LK_PROTO_BOARD_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

#define LK_BOARD_PARTS 2

struct lk_board { /* { .fd = -1 }: none */
    int fd;
    uint8_t *map;
    size_t part_bytes;
};

/* The daemon's side: parts of @part_bytes each (address space; memory is taken when it is written), mapped
 * for reading. */
enum lk_code lk_board_make(size_t part_bytes, struct lk_board *ret_board, struct lk_err *err);
/* The worker's side: takes @fd. */
enum lk_code lk_board_open(int fd, struct lk_board *ret_board, struct lk_err *err);
void lk_board_close(struct lk_board *board); /* safe on none */

uint8_t *lk_board_part(const struct lk_board *board, uint32_t part);
/* Gives the memory of a part beyond its first @keep bytes back. */
void lk_board_trim(const struct lk_board *board, uint32_t part, size_t keep);

#endif
