/*
 * Whether nng can start here.
 *
 * nng 1.5.2 starts its threads and opens its descriptors with the first call that needs any. Where it is
 * refused one of them (a container's limit of processes, ulimit -v), it aborts, or waits for itself without
 * end. So the same is tried before.
 */
#ifndef LK_RPC_ROOM_H
#define LK_RPC_ROOM_H

#include "base/status.h"

/* RESOURCE_EXHAUSTED says what is lacking. Takes a millisecond or two; nothing is kept. */
enum lk_code rpc_room(struct lk_err *err);

#endif
