/*
 * What a configuration takes of memory, as `config check` and `explain` say it: both by these functions, so that
 * they never say different things. Where the figures come from: config/budget.h, host/footprint.h.
 */
#ifndef LK_CLIENT_CLI_MEMORY_H
#define LK_CLIENT_CLI_MEMORY_H

#include "base/mem.h"
#include "config/config.h"

/* Lines of a stream: its steps, and the lanes' buffers, which each of its cursors has. */
void put_stream_memory(struct lk_buf *out, const struct lk_config *config, const struct lk_recipe *recipe);

/* Lines of all that the daemon may take, with all streams and local workers, and of what this machine has. */
void put_memory(struct lk_buf *out, const struct lk_config *config);

/* The same as objects of JSON. */
void json_stream_memory(struct lk_buf *out, const struct lk_config *config, const struct lk_recipe *recipe);
void json_memory(struct lk_buf *out, const struct lk_config *config);

#endif
