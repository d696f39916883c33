/* Hello: who is there, is it still the same stream, and does it run on this host? */
#include "handle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROTOCOL 1
#define CLIENT_NAME "liblanekeeper 1"
#define JOIN_MS 2000
#define JOIN_MIN_MS 50 /* also when the caller's time is nearly up: falling back to the wire is for long */

void lkc_digest_text(const uint8_t digest[16], char ret_hex[33])
{
    /* The high half first: as the daemon's logs and the command line print it. */
    for (size_t i = 0; i < 16; i++)
        (void)snprintf(ret_hex + 2 * i, 3, "%02x", digest[15 - i]);
}

void lkc_hello_send(struct lanekeeper *h)
{
    static const Lk__HelloRequest request = {
        .base = PROTOBUF_C_MESSAGE_INIT(&lk__hello_request__descriptor),
        .protocol = PROTOCOL,
        .client = (char *)(uintptr_t)CLIENT_NAME,
    };
    lkc_call_begin(&h->hello, LK_METHOD_HELLO, 0, &request.base);
}

static void refuse(struct lanekeeper *h, enum lanekeeper_code code, const char *text)
{
    h->standing = STANDING_REFUSED;
    (void)lkc_handle_fail(&h->refusal, code, "%s: %s", h->address, text);
}

/* The stream that we want; NULL: refused. */
static const Lk__StreamInfo *find_stream(struct lanekeeper *h, const Lk__HelloReply *reply)
{
    char text[512], names[300] = "";
    size_t used = 0;

    bool any = h->stream[0] == '\0' ? reply->n_streams == 1 : strcmp(h->stream, "*") == 0;
    if (any && reply->n_streams > 0)
        return reply->streams[0];
    for (size_t i = 0; i < reply->n_streams; i++) {
        const char *name = reply->streams[i]->name;
        if (h->stream[0] != '\0' && strcmp(name, h->stream) == 0)
            return reply->streams[i];
        if (used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i == 0 ? "" : ", ", name);
    }
    if (h->stream[0] == '\0')
        (void)snprintf(text, sizeof text, "serves %zu streams; name one of: %s", reply->n_streams, names);
    else
        (void)snprintf(text, sizeof text, "no stream \"%.64s\"; it serves: %s", h->stream, names);
    refuse(h, h->stream[0] == '\0' ? LANEKEEPER_INVALID_ARGUMENT : LANEKEEPER_NOT_FOUND, text);
    return NULL;
}

static bool same_digest(struct lanekeeper *h, const Lk__StreamInfo *stream)
{
    char ours[33], theirs[33], text[256];

    if (!h->expects || memcmp(h->info.stream_digest, stream->stream_digest.data, 16) == 0)
        return true;
    lkc_digest_text(h->info.stream_digest, ours);
    lkc_digest_text(stream->stream_digest.data, theirs);
    (void)snprintf(text, sizeof text, "serves stream digest %s, but %s is of stream digest %s", theirs,
                   h->expected, ours);
    refuse(h, LANEKEEPER_FAILED_PRECONDITION, text);
    return false;
}

/* The names of the datasets; NULL: out of memory. */
static char **names_copy(const Lk__StreamInfo *stream)
{
    char **dataset = calloc(stream->n_datasets + 1, sizeof *dataset);

    for (size_t i = 0; dataset != NULL && i < stream->n_datasets; i++) {
        dataset[i] = strdup(stream->datasets[i]);
        if (dataset[i] == NULL) {
            while (i > 0)
                free(dataset[--i]);
            free(dataset);
            dataset = NULL;
        }
    }
    return dataset;
}

static struct batch_phase *phases_copy(const Lk__StreamInfo *stream)
{
    struct batch_phase *phase = calloc(stream->n_batch + 1, sizeof *phase);

    for (size_t i = 0; phase != NULL && i < stream->n_batch; i++)
        phase[i] = (struct batch_phase){stream->batch[i]->from, stream->batch[i]->size};
    return phase;
}

static bool learn(struct lanekeeper *h, const Lk__StreamInfo *stream)
{
    struct batch_phase *phase = phases_copy(stream);
    char **dataset = phase == NULL ? NULL : names_copy(stream);

    if (dataset == NULL) {
        free(phase);
        refuse(h, LANEKEEPER_RESOURCE_EXHAUSTED, "out of memory");
        return false;
    }
    memcpy(h->info.stream_digest, stream->stream_digest.data, 16);
    memcpy(h->info.order_digest, stream->order_digest.data, 16);
    h->info.sequence = stream->sequence;
    h->info.lanes = stream->lanes;
    h->info.vocab = stream->vocab;
    h->info.pad_id = stream->pad_id;
    h->info.datasets = (uint32_t)stream->n_datasets;
    h->dataset = dataset;
    h->phase = phase;
    h->n_phases = stream->n_batch;
    h->greeted = h->expects = true;
    h->expected = "this handle";
    return true;
}

/* The same number on client and server: the same running kernel, so descriptors can be passed. */
static bool same_host(const char *host)
{
    char ours[64] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

    if (file == NULL)
        return false;
    bool read = fgets(ours, sizeof ours, file) != NULL;
    (void)fclose(file);
    ours[strcspn(ours, "\n")] = '\0';
    return read && ours[0] != '\0' && strncmp(host, ours, strlen(ours)) == 0 &&
           (host[strlen(ours)] == '\0' || host[strlen(ours)] == '\n');
}

void lkc_hello_join(struct lanekeeper *h, const char *path, const char *host)
{
    char why[200] = "the daemon offers none", text[300];
    int64_t now = lkc_link_now_ms(), until = now + JOIN_MS;

    h->standing = STANDING_READY;
    if (h->sharing == LANEKEEPER_SHARED_NEVER)
        return;
    if (until > h->until_ms)
        until = h->until_ms < now + JOIN_MIN_MS ? now + JOIN_MIN_MS : h->until_ms;
    if (path[0] != '\0' && !same_host(host))
        (void)snprintf(why, sizeof why, "the daemon runs on another host");
    else if (path[0] != '\0' && lkc_memory_open(path, until, &h->memory, why, sizeof why))
        h->n_memories++;
    if (h->memory == NULL && h->sharing == LANEKEEPER_SHARED_ALWAYS) {
        (void)snprintf(text, sizeof text, "shared memory was asked for, but %s", why);
        refuse(h, LANEKEEPER_UNAVAILABLE, text);
    }
}

void lkc_hello_take(struct lanekeeper *h, const Lk__HelloReply *reply)
{
    char text[128];

    if (reply->protocol != PROTOCOL) {
        (void)snprintf(text, sizeof text, "speaks protocol version %u, this library %d", reply->protocol,
                       PROTOCOL);
        refuse(h, LANEKEEPER_UNIMPLEMENTED, text);
        return;
    }
    const Lk__StreamInfo *stream = find_stream(h, reply);
    if (stream == NULL)
        return;
    if (stream->stream_digest.len != 16 || stream->order_digest.len != 16 || stream->sequence == 0) {
        refuse(h, LANEKEEPER_DATA_LOSS, "malformed reply to Hello");
        return;
    }
    if (same_digest(h, stream) && (h->greeted || learn(h, stream)))
        lkc_hello_join(h, reply->handover, reply->host);
}
