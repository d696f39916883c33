/*
 * The manual pages, in man(7), made from the tables of commands, options and keys.
 */
#ifndef LK_CLIENT_CLI_MANUAL_H
#define LK_CLIENT_CLI_MANUAL_H

#include "base/mem.h"

void manual_lanekeeper(struct lk_buf *out);  /* lanekeeper.1 */
void manual_lanekeeperd(struct lk_buf *out); /* lanekeeperd.8 */
void manual_worker(struct lk_buf *out);      /* lanekeeper-worker.8 */
void manual_yaml(struct lk_buf *out);        /* lanekeeper.yaml.5 */

#endif
