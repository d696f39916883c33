/*
 * Which cursor a request is given, and whose cursor goes when there are more far-apart places than cursors.
 *
 * A stream has cursors_max of them, and whoever may ask can ask for steps that take hours. So a cursor that
 * has given rows several times of late, as a training run's does, is kept for its users, also while they
 * compute. One that has given nothing is left to those who wait for it for the time of a turn; then it is
 * taken from them if others lack one, whose cursor goes on from there if that is on its way. Turns are short
 * at first, so that nobody waits long for a step which is near; each one that ends in vain makes the next
 * ones twice as long, so that of several far steps each is reached in the end.
 *
 * What takes more than the longest turn, while others lack a cursor, makes way only as far as snapshots or
 * counts keep what was done; with neither it is never reached, and whoever asks is told what it lacks. That is
 * so on purpose. Turns without a limit would reach it, but then one who asks for a step that nobody can reach
 * keeps everybody waiting for hours. To keep a cursor while its step is asked for again is the same. And to keep
 * what was done for those who have lost their place takes the state of all lanes for each of them: so either
 * memory without bound, or a few that others could drive out. On disk, within bounds, that is what snapshots are.
 */
#include "host/engine_private.h"

#include <inttypes.h>

#define IDLE_MS 60000       /* a cursor that nobody has asked for so long is the first to go */
#define PROVEN 4            /* answers: it is in use … */
#define IN_USE_MS 60000     /* … so long after the last of them: a step of a large model takes its time */
#define TURN_MIN_MS 3000
#define TURN_MAX_MS 60000
#define PEER_BITS 10        /* of a hash of peers */

static uint32_t places_of(const struct engine *engine)
{
    return engine->config.config->runtime.cursors_max;
}

static bool in_use(const struct served_cursor *at, int64_t now)
{
    return at->answered >= PROVEN && now - at->last_answer_ms < IN_USE_MS;
}

/* Is its turn over, in which it gave nothing? */
static bool fruitless(const struct served *served, const struct served_cursor *at, int64_t now)
{
    return now - at->made_ms >= served->turn_ms && now - at->last_answer_ms >= served->turn_ms;
}

/* Whoever was late asks again: what has been done for it meanwhile must not be lost to the next one. */
static bool expected(const struct served *served, const struct served_cursor *at, int64_t now)
{
    return at->late_ms > at->last_answer_ms && now - at->late_ms < PLACES_AGAIN_MS && !fruitless(served, at, now);
}

/* A place that may be lost ---------------------------------------------------------------------- */

/* Is @a to go rather than @b? One that has been idle for long, the longest first; else the one that has
 * served least: a glance at some old step must not cost a training run its cursor. */
static bool goes_before(const struct served_cursor *a, const struct served_cursor *b, int64_t now)
{
    int64_t idle = now - IDLE_MS;
    bool a_idle = a->last_use_ms < idle, b_idle = b->last_use_ms < idle;
    if (a_idle != b_idle)
        return a_idle;
    if (!a_idle && a->served != b->served)
        return a->served < b->served;
    return a->last_use_ms < b->last_use_ms;
}

/* One that nobody waits for, and that others do not use; @also: or do. NULL: there is none. */
static struct served_cursor *dispensable(const struct engine *engine, struct served *served, uint32_t peer,
                                         bool also)
{
    int64_t now = loop_now_ms(engine->config.loop);
    struct served_cursor *place = NULL;
    for (uint32_t i = 0; i < places_of(engine); i++) {
        struct served_cursor *at = &served->cursor[i];
        bool free = at->peer == peer || (!expected(served, at, now) && (also || !in_use(at, now)));
        if (at->waiting == 0 && free && (place == NULL || goes_before(at, place, now)))
            place = at;
    }
    return place;
}

/* A place for a new cursor: a free one, or that of a cursor which can be spared; NULL: none now. */
static struct served_cursor *find_place(const struct engine *engine, struct served *served, uint32_t peer)
{
    bool all_in_use = true;
    for (uint32_t i = 0; i < places_of(engine); i++) {
        if (served->cursor[i].cursor == NULL)
            return &served->cursor[i];
        all_in_use = all_in_use && in_use(&served->cursor[i], loop_now_ms(engine->config.loop));
    }
    return dispensable(engine, served, peer, all_in_use);
}

/* A cursor for a request ------------------------------------------------------------------------ */

static struct served_cursor *nearest(const struct engine *engine, struct served *served,
                                     const struct request *request, uint64_t *ret_distance)
{
    struct served_cursor *best = NULL;
    *ret_distance = UINT64_MAX;
    for (uint32_t i = 0; i < places_of(engine); i++) {
        struct served_cursor *at = &served->cursor[i];
        if (at->cursor == NULL)
            continue;
        uint64_t distance = cursor_distance(at->cursor, request->step, request->cut);
        if (distance < *ret_distance || cursor_untold(at->cursor, request->step)) {
            *ret_distance = distance;
            best = at;
        }
    }
    return best;
}

/* A new cursor in @place, whose own goes; @near may be that one. */
static void make_cursor(const struct engine *engine, struct served *served, const struct request *request,
                        struct served_cursor *place, const struct served_cursor *near)
{
    struct served_cursor before = *place;
    struct cursor *made = cursor_new(&served->context, request->step, request->cut,
                                     near != NULL ? near->cursor : NULL);
    cursor_free(before.cursor);
    *place = (struct served_cursor){.cursor = made, .made_ms = loop_now_ms(engine->config.loop)};
    if (before.peer == request->call->peer) { /* who seeks keeps its place */
        place->answered = before.answered;
        place->last_answer_ms = before.last_answer_ms;
    }
}

static void give(const struct engine *engine, struct request *request, struct served_cursor *at)
{
    at->last_use_ms = loop_now_ms(engine->config.loop);
    at->served++;
    at->waiting++;
    at->peer = request->call->peer;
    request->at = at;
    cursor_ask(at->cursor, request->step, request->cut);
}

/*
 * The nearest one, or one of its own; none if every cursor is busy with other requests. A cursor is never
 * moved further than its window is long, since others may be using it: what is further away gets another
 * one, which begins where the nearest stands, or at a snapshot.
 */
void places_find(struct engine *engine, struct request *request)
{
    struct served *served = &engine->stream[request->stream];
    uint64_t distance;
    struct served_cursor *at = nearest(engine, served, request, &distance);
    if (at == NULL || distance > cursor_reach(at->cursor)) {
        struct served_cursor *place = find_place(engine, served, request->call->peer);
        if (place == NULL) {
            served->lacking_ms = loop_now_ms(engine->config.loop);
            return;
        }
        make_cursor(engine, served, request, place, at);
        at = place;
    }
    give(engine, request, at);
}

void places_answered(struct engine *engine, const struct request *request)
{
    request->at->answered++;
    request->at->last_answer_ms = loop_now_ms(engine->config.loop);
}

void places_late(struct engine *engine, const struct request *request, struct lk_buf *why)
{
    if (request->at != NULL) {
        request->at->late_ms = loop_now_ms(engine->config.loop);
        cursor_waits_for(request->at->cursor, request->step, request->cut, why);
        return;
    }
    lk_buf_putf(why, "a cursor: there are %u (runtime.max_cursors), and all serve other requests, those for far "
                     "steps in turns of %" PRId64 " s",
                places_of(engine), engine->stream[request->stream].turn_ms / 1000);
}

/* Whose it was will not ask again: what it has proved is of no use to anybody. */
void places_gone(struct engine *engine, uint32_t peer)
{
    for (uint32_t s = 0; s < engine->n_streams; s++)
        for (uint32_t i = 0; i < places_of(engine); i++) {
            struct served_cursor *at = &engine->stream[s].cursor[i];
            if (at->peer == peer)
                at->answered = at->late_ms = 0;
        }
}

/* Turns ----------------------------------------------------------------------------------------- */

static uint32_t peer_hash(const struct request *request)
{
    return (uint32_t)(request->call->peer * UINT32_C(2654435761)) >> (32 - PEER_BITS);
}

/* Of the requests that have been without a cursor for long, one whose peer waits for the fewest. (Peers that
 * share a hash count as one: there may be very many requests, and nobody is owed the difference.) */
static struct request *least_demanding(const struct engine *engine, uint32_t stream, int64_t now)
{
    uint32_t asks[1u << PEER_BITS] = {0};
    struct request *least = NULL;
    for (const struct request *r = engine->waiting; r != NULL; r = r->next)
        asks[peer_hash(r)]++;
    for (struct request *r = engine->waiting; r != NULL; r = r->next)
        if (r->stream == stream && r->at == NULL && now - r->call->received_ms >= TURN_MIN_MS &&
            (least == NULL || asks[peer_hash(r)] < asks[peer_hash(least)]))
            least = r;
    return least;
}

/* Of the cursors whose turn is over, the one that was made first; or NULL. */
static struct served_cursor *longest_fruitless(const struct engine *engine, struct served *served, int64_t now)
{
    struct served_cursor *found = NULL;
    for (uint32_t i = 0; i < places_of(engine); i++) {
        struct served_cursor *at = &served->cursor[i];
        if (at->cursor != NULL && !in_use(at, now) && fruitless(served, at, now) &&
            (found == NULL || at->made_ms < found->made_ms))
            found = at;
    }
    return found;
}

void places_turn(struct engine *engine, uint32_t stream)
{
    struct served *served = &engine->stream[stream];
    int64_t now = loop_now_ms(engine->config.loop);
    if (served->turn_ms == 0 || now - served->lacking_ms > 2 * served->turn_ms)
        served->turn_ms = TURN_MIN_MS;
    struct served_cursor *at = longest_fruitless(engine, served, now);
    struct request *next = at == NULL ? NULL : least_demanding(engine, stream, now);
    if (next == NULL)
        return;
    for (struct request *r = engine->waiting; r != NULL; r = r->next)
        if (r->at == at)
            r->at = NULL;
    uint64_t distance;
    make_cursor(engine, served, next, at, nearest(engine, served, next, &distance));
    give(engine, next, at);
    served->turn_ms = 2 * served->turn_ms < TURN_MAX_MS ? 2 * served->turn_ms : TURN_MAX_MS;
}
