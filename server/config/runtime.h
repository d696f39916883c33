/*
 * The other half of the configuration: everything that may change speed or cost, and nothing that
 * may change data. No digest covers it.
 *
 * Strings are owned by the runtime. Paths are resolved: absolute, or relative to the configuration's
 * folder as that was given. Addresses are checked and written the one way that nng takes them:
 * "ipc:///absolute/path" (at most 107 bytes of path), "tcp://host:port", IPv6 in brackets; port 0
 * lets the system choose.
 */
#ifndef LK_CONFIG_RUNTIME_H
#define LK_CONFIG_RUNTIME_H

#include <stdint.h>

#define LK_LISTEN_MAX 16
#define LK_WORKERS_MAX 256

enum lk_log_level { LK_LOG_ERROR, LK_LOG_WARN, LK_LOG_INFO, LK_LOG_DEBUG };

struct lk_runtime {
    char *run_dir;           /* sockets live here; the daemon makes it, mode 0700 */
    uint32_t n_listen;       /* 1…LK_LISTEN_MAX */
    char **listen;           /* addresses for clients */
    char *fd_socket;         /* Unix socket that hands batches over as descriptors */
    char *http;              /* "host:port" of metrics, health and the page; NULL = none */

    uint32_t workers;        /* local worker processes, 0…LK_WORKERS_MAX */
    char *workers_listen;    /* address for workers on other machines; NULL = none */
    char *worker_token_file; /* the secret that they must show; NULL = none */

    uint64_t arena_bytes;    /* payloads and ready batches, shared with workers and trainers */
    uint64_t state_bytes;    /* descriptors of all lanes; checked when the file is read */
    uint64_t cache_bytes;    /* decoded shards, in all workers together */
    uint32_t prefetch_steps; /* steps made ready ahead of the highest one asked for, 1… */

    char *snapshot_dir;
    uint64_t snapshot_every; /* steps; 0 = none are written */
    uint32_t snapshot_keep;  /* newest snapshots kept of each lane, 1… */
    char *index_dir;         /* see lk_config_index_path */

    char *counts_dir;
    uint64_t counts_bytes;   /* of all files in it; 0 = none are kept */
    uint64_t counts_memory;  /* bytes */

    enum lk_log_level log_level;
    uint32_t stall_timeout_ms; /* unhealthy when nothing has moved for so long although it was asked to */
    uint32_t drain_timeout_ms; /* after SIGTERM, at most so long until the process ends */
    uint32_t deadline_max_ms;  /* longest deadline that a request may set */
    uint64_t message_max;      /* bytes; a longer message from a peer is refused */
    uint32_t waiting_max;      /* requests that may wait at once; more are RESOURCE_EXHAUSTED */
    uint32_t cursors_max;      /* cursors of one stream at once, 1… */
};

void lk_runtime_done(struct lk_runtime *runtime); /* safe on a zeroed one */

#endif
