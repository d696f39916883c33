/*
 * The engine: the opened streams, their cursors, and the requests that wait for them. It owns the
 * pool, the arena, batch memory and snapshots, and runs on the loop's thread alone.
 */
#ifndef LK_HOST_ENGINE_H
#define LK_HOST_ENGINE_H

#include "base/mem.h"
#include "base/status.h"
#include "config/config.h"
#include "host/log.h"
#include "host/loop.h"

#include <stdbool.h>
#include <stdint.h>

struct engine;

struct engine_config {
    const struct lk_config *config;
    struct loop *loop;
    const struct log *log;
    const char *worker_path;  /* executable of the local workers */
    bool write_counts;        /* else counts are only used */
};

/* Opens streams, starts workers, and begins to listen. Errors say what is wrong with what. */
enum lk_code engine_open(const struct engine_config *config, struct engine **ret_engine,
                         struct lk_err *err);
void engine_close(struct engine *engine); /* NULL is fine */

/* The address of listener @i, with its real port; NULL after the last. */
const char *engine_address(const struct engine *engine, uint32_t i);

/* What /healthz says: false, and @ret_reason, when requests wait and nothing has moved for the stall
 * timeout. */
bool engine_healthy(struct engine *engine, struct lk_buf *ret_reason);

/* One JSON document: streams, cursors, lanes, queues, workers, what everything waits for. */
void engine_status(struct engine *engine, struct lk_buf *out);

/* Prometheus text exposition. */
void engine_metrics(struct engine *engine, struct lk_buf *out);

#endif
