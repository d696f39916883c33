/*
 * What a worker knows of the streams: from the daemon's answer to its hello to tokenizers that are
 * loaded and proved to be the daemon's, one encoder for each of them, and one measuring chain for each
 * text field of a stream.
 */
#ifndef LK_WORKER_STREAMS_H
#define LK_WORKER_STREAMS_H

#include "base/status.h"
#include "op/measure.h"
#include "proto/worker.pb-c.h"

#include <stdint.h>

struct streams; /* for one thread */

/*
 * Takes ownership of @hello, also when it fails. NOT_FOUND, INVALID_ARGUMENT, UNIMPLEMENTED: a
 * tokenizer cannot be loaded; FAILED_PRECONDITION: its digest is not the daemon's; UNAVAILABLE: a
 * file could not be read this time.
 */
enum lk_code streams_open(Lk__WorkerHelloReply *hello, struct streams **ret_streams,
                          struct lk_err *err);
void streams_close(struct streams *streams); /* NULL is fine */

const Lk__WorkerHelloReply *streams_hello(const struct streams *streams);

/* The dataset and its chain; INVALID_ARGUMENT when there is none of these numbers. */
enum lk_code streams_find(struct streams *streams, uint32_t stream, uint32_t dataset,
                          const Lk__WorkerDataset **ret_dataset, struct lk_measure **ret_measure,
                          struct lk_err *err);

#endif
