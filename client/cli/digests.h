/* The digests of a range of steps, as far as the stream goes. */
#ifndef LK_CLIENT_CLI_DIGESTS_H
#define LK_CLIENT_CLI_DIGESTS_H

#include "client/c/lanekeeper.h"

#include <stdint.h>

/*
 * Those of the steps @from … @to - 1, 16 bytes each, or of those before *ret_end, where the stream ends earlier:
 * then lanekeeper_error_text says after how many steps. Else *ret_end is @to. A range costs one call; one in which
 * the stream ends a call a step, so it is to be short.
 */
enum lanekeeper_code digests_get(struct lanekeeper *handle, uint64_t from, uint64_t to, uint8_t *ret_digests,
                                 uint64_t *ret_end);

#endif
