#include "rpc/items.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define TABLE_START 64 /* a power of two */

void items_init(struct item_list *list)
{
    list->head.prev = list->head.next = &list->head;
}

void items_append(struct item_list *list, struct item *item)
{
    item->prev = list->head.prev;
    item->next = &list->head;
    item->prev->next = item;
    list->head.prev = item;
}

void items_remove(struct item *item)
{
    item->prev->next = item->next;
    item->next->prev = item->prev;
    item->prev = item->next = NULL;
}

struct item *items_first(struct item_list *list)
{
    return list->head.next == &list->head ? NULL : list->head.next;
}

void items_free(struct item *item)
{
    if (item->request != NULL)
        nng_msg_free(item->request);
    free(item);
}

static uint32_t peer_home(const struct peer_table *t, uint32_t number)
{
    return (number * 2654435761u) & (t->places - 1);
}

struct peer *peers_find(const struct peer_table *t, uint32_t number)
{
    if (t->places == 0)
        return NULL;
    for (uint32_t i = peer_home(t, number);; i = (i + 1) & (t->places - 1)) {
        if (t->peer[i].number == number)
            return &t->peer[i];
        if (t->peer[i].number == 0)
            return NULL;
    }
}

static void peer_put(struct peer_table *t, struct peer peer)
{
    uint32_t i = peer_home(t, peer.number);
    while (t->peer[i].number != 0)
        i = (i + 1) & (t->places - 1);
    t->peer[i] = peer;
}

static void peers_grow(struct peer_table *t)
{
    struct peer *old = t->peer;
    uint32_t places = t->places;

    t->places = places == 0 ? TABLE_START : places * 2;
    t->peer = lk_zalloc(t->places, sizeof *t->peer);
    for (uint32_t i = 0; i < places; i++) {
        if (old[i].number != 0)
            peer_put(t, old[i]);
    }
    free(old);
}

void peers_add(struct peer_table *t, uint32_t number)
{
    if ((t->n + 1) * 2 > t->places)
        peers_grow(t);
    peer_put(t, (struct peer){.number = number});
    t->n++;
}

void peers_remove(struct peer_table *t, struct peer *peer)
{
    uint32_t mask = t->places - 1, i = (uint32_t)(peer - t->peer);

    t->peer[i].number = 0;
    t->n--;
    /* Those behind it may have been pushed here by it: put each in again. */
    for (i = (i + 1) & mask; t->peer[i].number != 0; i = (i + 1) & mask) {
        struct peer moved = t->peer[i];
        t->peer[i].number = 0;
        peer_put(t, moved);
    }
}

/* The requests' nng headers: the connection, then the requester's own numbers. */
static bool same_request(nng_msg *a, nng_msg *b)
{
    return nng_msg_header_len(a) == nng_msg_header_len(b) &&
           memcmp(nng_msg_header(a), nng_msg_header(b), nng_msg_header_len(a)) == 0;
}

bool peers_call_waits(const struct peer *peer, nng_msg *request)
{
    for (const struct item *i = peer->calls; i != NULL; i = i->peer_next) {
        if (same_request(i->request, request))
            return true;
    }
    return false;
}

void peers_forget_call(const struct peer_table *t, const struct item *item)
{
    struct peer *peer = peers_find(t, item->call.peer);
    if (peer == NULL)
        return;
    for (struct item **at = &peer->calls; *at != NULL; at = &(*at)->peer_next) {
        if (*at == item) {
            *at = item->peer_next;
            peer->n_calls--;
            return;
        }
    }
}
