/* Reasons for dropping a row (enum lk_drop), as far as the pool must tell them apart. */
#ifndef LK_HOST_POOL_DROP_H
#define LK_HOST_POOL_DROP_H

#include <stdbool.h>
#include <stdint.h>

bool pool_drop_known(uint32_t drop); /* a worker may give this reason; it cannot report its own end */
bool pool_drop_kept(uint32_t drop);  /* no reason: the row is kept */
uint8_t pool_drop_crash(void);       /* the row kills workers */

#endif
