/*
 * What a service keeps in its hands: items in lists, and the table of its peers with their calls.
 * Plain data structures without a lock; server.c holds its mutex around them.
 */
#ifndef LK_RPC_ITEMS_H
#define LK_RPC_ITEMS_H

#include "rpc/server.h"

#include <nng/nng.h>

struct rpc_server;

enum item_kind { ITEM_CALL, ITEM_REFUSED, ITEM_PEER_GONE, ITEM_GOODBYE };

/* A call, or something else that waits in the queue. The call comes first: rpc_call* is item*. */
struct item {
    struct rpc_call call;
    enum item_kind kind;
    enum lk_code refusal; /* REFUSED: why */
    struct rpc_server *server;
    nng_msg *request;
    uint64_t id; /* the caller's number of the call */
    bool strange; /* its peer was not trusted when it came */
    struct item *prev, *next; /* in the queue, or among those that the owner has */
    struct item *peer_next;   /* calls of the same peer, for finding repeats */
};

struct peer {
    uint32_t number; /* 0: an empty place */
    bool called;     /* the owner has heard of it */
    bool trusted;
    uint32_t n_calls;
    struct item *calls;
};

struct item_list {
    struct item head; /* of a ring; only its prev and next are used */
};

struct peer_table { /* open addressing, linear probing */
    struct peer *peer;
    uint32_t places; /* a power of two, or 0 */
    uint32_t n;
};

void items_init(struct item_list *list);
void items_append(struct item_list *list, struct item *item);
void items_remove(struct item *item);
struct item *items_first(struct item_list *list); /* NULL: empty */
void items_free(struct item *item);               /* with its request */

struct peer *peers_find(const struct peer_table *table, uint32_t number); /* valid until add or remove */
void peers_add(struct peer_table *table, uint32_t number);
void peers_remove(struct peer_table *table, struct peer *peer);

/* Whether one of its calls is this very request, sent again: connection and request numbers are the same. */
bool peers_call_waits(const struct peer *peer, nng_msg *request);
void peers_forget_call(const struct peer_table *table, const struct item *item);

#endif
