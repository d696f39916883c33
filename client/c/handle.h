/* The inside of a handle: calls in flight, and the state of the connection. See calls.c. */
#ifndef LK_CLIENT_HANDLE_H
#define LK_CLIENT_HANDLE_H

#include "batch.h"
#include "lanekeeper.h"
#include "link.h"
#include "memory.h"

#define WINDOW (LANEKEEPER_LOOKAHEAD_MAX + 1)

enum call_state { CALL_FREE, CALL_UNSENT, CALL_SENT, CALL_DONE };

struct batch_phase {
    uint64_t from; /* step */
    uint32_t size; /* sequences of each step from there on */
};

/* A question to the daemon, sent as often as it takes. */
struct call {
    enum call_state state;
    enum lk_method method;
    uint64_t step;                   /* GetBatch */
    const ProtobufCMessage *request; /* the others; borrowed */
    uint64_t id;                     /* of the last time it was sent */
    int64_t not_before_ms;           /* UNSENT: after a refusal that passes */
    int64_t overdue_ms;              /* SENT: by then even a daemon that has nothing answers */
    char waits_for[256];             /* what the daemon said last about the delay */
    struct lanekeeper_error failure; /* DONE: its code, OK or not */
    struct lanekeeper_batch batch;   /* DONE and OK, GetBatch */
    uint8_t *reply;                  /* DONE and OK, the others: the answer's header */
    size_t reply_bytes;
};

enum standing {
    STANDING_DOWN,     /* no connection */
    STANDING_GREETING, /* hello is on its way */
    STANDING_READY,
    STANDING_REFUSED   /* this daemon cannot serve us: see refusal */
};

struct lanekeeper {
    struct link *link;
    char *address, *stream;
    uint32_t rank, world, lookahead, timeout_ms;
    enum lanekeeper_sharing sharing;

    uint64_t connection; /* that calls are sent on */
    uint64_t connections;
    enum standing standing;
    struct lanekeeper_error refusal;
    struct memory *memory; /* of this connection, or NULL */
    bool suspect;          /* the daemon may have given it up */
    struct wish *wish;     /* what is to lie ready with batches */
    uint64_t n_memories;   /* joined so far; in the upper bits of call ids */
    uint64_t n_calls;
    uint64_t malformed; /* answers that could not be read, on this connection */

    bool expects;         /* a digest is known: of a state, or of the first hello */
    bool greeted;         /* info is set */
    const char *expected; /* where the digest is from, for the error text */
    struct lanekeeper_info info;
    char **dataset;
    struct batch_phase *phase; /* of the batch schedule, by step; the first is from 0 */
    size_t n_phases;

    uint64_t next; /* the next step of lanekeeper_next: all before it are consumed */
    uint64_t end;  /* no step from here on, as far as known */
    struct call hello;
    struct call window[WINDOW]; /* look-ahead; step s at s % WINDOW; next … next + lookahead may be in use */
    struct call single;         /* anything else: one at a time */

    int64_t until_ms; /* end of the call that runs */
    int64_t ask_ms;   /* when to ask @interrupted again */
    int (*interrupted)(void *context);
    void *context;
    uint64_t random;  /* for jitter */
    struct lanekeeper_error error;
};

/* The look-ahead's call for @step, if that is one of the next ones. */
static inline struct call *lkc_window_at(struct lanekeeper *handle, uint64_t step)
{
    return &handle->window[step % WINDOW];
}

enum lanekeeper_code lkc_handle_fail(struct lanekeeper_error *error, enum lanekeeper_code code,
                                 const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Sets when the call that begins now must end. */
void lkc_handle_begin(struct lanekeeper *handle);

/* Makes a free call wanted. */
void lkc_call_begin(struct call *call, enum lk_method method, uint64_t step, const ProtobufCMessage *request);

/* Frees what @call holds; an answer that is still to come will be recognised as nobody's. */
void lkc_call_end(struct call *call);

/* Does what can be done without waiting: notes a lost connection, reads answers, sends calls. */
void lkc_handle_advance(struct lanekeeper *handle);

/* Its last part: sends what is due. */
void lkc_handle_send(struct lanekeeper *handle);

/* Waits until there is something to advance, or it is @until_ms. */
void lkc_handle_listen(struct lanekeeper *handle, int64_t until_ms);

/* Until @call is DONE, or refused, or time is up: its code, with the text in handle->error. */
enum lanekeeper_code lkc_handle_wait(struct lanekeeper *handle, struct call *call);

/* Until hello is answered on some connection. */
enum lanekeeper_code lkc_handle_wait_ready(struct lanekeeper *handle);

/* hello.c: sends hello; takes its answer, and sets the standing. */
void lkc_hello_send(struct lanekeeper *handle);
void lkc_hello_take(struct lanekeeper *handle, const Lk__HelloReply *reply);
void lkc_hello_join(struct lanekeeper *handle, const char *path, const char *host);

void lkc_digest_text(const uint8_t digest[16], char ret_hex[33]);

#endif
