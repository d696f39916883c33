/* Batches as answers: by lease where the trainer can read our memory, else inline. */
#include "host/engine_private.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <fcntl.h>

#ifndef LK_VERSION
#define LK_VERSION "0.1.0"
#endif

struct lk_digest reply_cut_digest(const struct served *served, uint32_t slot, struct steps_cut cut)
{
    struct lk_digest sum = {0};
    for (uint32_t row = cut.first; row < cut.first + cut.rows; row++) {
        const struct lk_batch_row *out = slots_row(served->slots, slot, row);
        sum = lk_digest_add(sum,
                            (struct lk_digest){.lo = out->digest_lo, .hi = out->digest_hi});
    }
    return sum;
}

static bool can_share(const struct engine *engine, uint64_t client)
{
    for (uint32_t i = 0; client != 0 && i < engine->n_clients; i++)
        if (engine->client[i] == client)
            return true;
    return false;
}

static uint64_t align64(uint64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* The block of a cut: its rows, tokens and parts copied together, parts numbered anew. */
static void send_inline(struct request *request, const struct served *served, uint32_t slot,
                        Lk__GetBatchReply *reply)
{
    const struct slots *slots = served->slots;
    const struct lk_batch_head *from = slots_head(slots, slot);
    const struct lk_batch_part *parts = slots_parts(slots, slot);
    static const uint8_t gap[8] = {0};
    struct steps_cut cut = request->cut;
    struct lk_buf front = {0}, back = {0};
    uint64_t rows_end = sizeof *from + (uint64_t)cut.rows * sizeof(struct lk_batch_row);
    uint64_t token_bytes = (uint64_t)cut.rows * from->tokens * 4;
    struct lk_batch_head head = {.magic = LK_BATCH_MAGIC,
                                 .rows = cut.rows,
                                 .tokens = from->tokens,
                                 .first_row = cut.first,
                                 .step = from->step,
                                 .tokens_at = align64(rows_end)};

    lk_buf_put(&front, &head, sizeof head);
    for (uint32_t i = 0; i < cut.rows; i++) {
        struct lk_batch_row row = *slots_row(slots, slot, cut.first + i);
        lk_buf_put(&back, parts + row.first_part, row.n_parts * sizeof *parts);
        row.first_part = (uint32_t)head.n_parts;
        head.n_parts += row.n_parts;
        lk_buf_put(&front, &row, sizeof row);
    }
    memset(lk_buf_room(&front, 64), 0, 64);
    front.len = head.tokens_at;
    head.parts_at = (head.tokens_at + token_bytes + 7) / 8 * 8; /* an odd number of tokens: a gap */
    head.bytes = head.parts_at + back.len;
    memcpy(front.data, &head, sizeof head);
    struct rpc_slice slice[] = {
        {.data = front.data, .bytes = front.len},
        {.data = slots_tokens(slots, slot, cut.first), .bytes = token_bytes},
        {.data = gap, .bytes = head.parts_at - head.tokens_at - token_bytes},
        {.data = back.data, .bytes = back.len},
    };
    reply->bytes = head.bytes;
    rpc_reply(request->call, &reply->base, slice, 4);
    lk_buf_done(&front);
    lk_buf_done(&back);
}

/* Has the arrays of a training step ready, if that is asked for and can be; else the client makes them. */
static void add_training(struct served *served, const struct request *request, uint32_t slot,
                         Lk__GetBatchReply *reply)
{
    const struct lk_training_wish *wish = &request->training;
    uint64_t offset, bytes;
    if (wish->flags == 0 ||
        !slots_training(served->slots, slot, wish, request->cut.first, request->cut.rows, &offset, &bytes))
        return;
    served->batches_training++;
    reply->training = wish->flags;
    reply->ignore_index = wish->ignore_index;
    reply->training_offset = offset;
    reply->training_bytes = bytes;
}

void reply_batch(struct engine *engine, struct request *request, uint32_t slot)
{
    struct served *served = &engine->stream[request->stream];
    const struct lk_batch_head *head = slots_head(served->slots, slot);
    uint8_t digest[16], stream_digest[16];
    Lk__GetBatchReply reply = LK__GET_BATCH_REPLY__INIT;

    lk_digest_put(reply_cut_digest(served, slot, request->cut), digest);
    lk_digest_put(served->stream.digest, stream_digest);
    reply.step = head->step;
    reply.first_row = request->cut.first;
    reply.rows = request->cut.rows;
    reply.global_rows = head->rows;
    reply.sequence = head->tokens;
    reply.digest = (ProtobufCBinaryData){.data = digest, .len = 16};
    reply.stream_digest = (ProtobufCBinaryData){.data = stream_digest, .len = 16};
    if (can_share(engine, request->client))
        reply.lease = slots_lease(served->slots, slot, request->client);
    if (reply.lease == 0) {
        send_inline(request, served, slot, &reply);
        return;
    }
    served->batches_shared++;
    reply.shared = true;
    reply.region = request->stream;
    reply.offset = slots_offset(served->slots, slot);
    reply.bytes = head->bytes;
    add_training(served, request, slot, &reply);
    rpc_reply(request->call, &reply.base, NULL, 0);
}

/* Trace --------------------------------------------------------------------------------------- */

static void trace_row(const struct served *served, uint32_t slot, uint32_t row,
                      Lk__TracePart *ret_parts)
{
    const struct stream *stream = &served->stream;
    const struct lk_batch_row *out = slots_row(served->slots, slot, row);
    const struct lk_batch_part *parts = slots_parts(served->slots, slot) + out->first_part;
    uint32_t at = 0;
    for (uint32_t i = 0; i < out->n_parts; i++) {
        const struct lk_batch_part *part = &parts[i];
        const struct lk_index *index = &stream->index[part->dataset];
        struct lk_row_place place = lk_index_place(index, part->row);
        Lk__TracePart *trace = &ret_parts[i];
        lk__trace_part__init(trace);
        trace->sequence = row;
        trace->at = at;
        trace->tokens = part->tokens;
        trace->dataset = stream->recipe->dataset[part->dataset].name;
        trace->shard = (char *)(uintptr_t)index->shard[place.shard].name;
        trace->row_in_shard = place.row_in_shard;
        trace->row = part->row;
        trace->epoch = part->epoch;
        trace->first = part->first;
        at += part->tokens;
    }
}

void reply_trace(struct engine *engine, struct request *request, uint32_t slot)
{
    struct served *served = &engine->stream[request->stream];
    struct steps_cut cut = request->cut;
    size_t n = 0, i = 0;
    for (uint32_t row = cut.first; row < cut.first + cut.rows; row++)
        n += slots_row(served->slots, slot, row)->n_parts;
    Lk__TracePart *part = lk_zalloc(n, sizeof *part);
    Lk__TracePart **pointer = lk_zalloc(n, sizeof *pointer); /* NOLINT(bugprone-sizeof-expression): pointers */
    for (uint32_t row = cut.first; row < cut.first + cut.rows; row++) {
        trace_row(served, slot, row, part + i);
        i += slots_row(served->slots, slot, row)->n_parts;
    }
    for (i = 0; i < n; i++)
        pointer[i] = &part[i];
    Lk__TraceReply reply = LK__TRACE_REPLY__INIT;
    reply.n_parts = n;
    reply.parts = pointer;
    rpc_reply(request->call, &reply.base, NULL, 0);
    free(pointer);
    free(part);
}

/* Hello --------------------------------------------------------------------------------------- */

struct info {
    Lk__StreamInfo info;
    uint8_t order[16], stream[16];
    char **dataset;
    Lk__BatchPhase *phase, **phases;
};

static void make_info(const struct stream *stream, struct info *ret_info)
{
    const struct lk_recipe *recipe = stream->recipe;
    struct info *info = ret_info;
    lk__stream_info__init(&info->info);
    lk_digest_put(stream->order, info->order);
    lk_digest_put(stream->digest, info->stream);
    info->info.name = recipe->name;
    info->info.order_digest = (ProtobufCBinaryData){.data = info->order, .len = 16};
    info->info.stream_digest = (ProtobufCBinaryData){.data = info->stream, .len = 16};
    info->info.sequence = recipe->sequence;
    info->info.lanes = recipe->lanes;
    info->info.vocab = lk_tokenizer_vocab(stream->tokenizer);
    info->info.pad_id = recipe->pad_id;
    info->dataset = lk_zalloc(recipe->n_datasets, sizeof *info->dataset);
    for (uint32_t d = 0; d < recipe->n_datasets; d++)
        info->dataset[d] = recipe->dataset[d].name;
    info->info.n_datasets = recipe->n_datasets;
    info->info.datasets = info->dataset;
    info->phase = lk_zalloc(recipe->n_batches, sizeof *info->phase);
    info->phases = lk_zalloc(recipe->n_batches, sizeof *info->phases); /* NOLINT(bugprone-sizeof-expression): pointers */
    for (uint32_t i = 0; i < recipe->n_batches; i++) {
        lk__batch_phase__init(&info->phase[i]);
        info->phase[i].from = recipe->batch[i].from;
        info->phase[i].size = recipe->batch[i].size;
        info->phases[i] = &info->phase[i];
    }
    info->info.n_batch = recipe->n_batches;
    info->info.batch = info->phases;
}

/* The kernel's boot id: equal on client and server means the same host, whatever its name. */
static void boot_id(char ret_id[64])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, ret_id, 63) : -1;
    if (fd >= 0)
        close(fd);
    while (n > 0 && ret_id[n - 1] == '\n')
        n--;
    ret_id[n > 0 ? n : 0] = '\0';
}

void reply_hello(struct engine *engine, struct rpc_call *call)
{
    struct info *info = lk_zalloc(engine->n_streams, sizeof *info);
    Lk__StreamInfo **pointer = lk_zalloc(engine->n_streams, sizeof *pointer); /* NOLINT(bugprone-sizeof-expression): pointers */
    char host[64];
    Lk__HelloReply reply = LK__HELLO_REPLY__INIT;
    for (uint32_t s = 0; s < engine->n_streams; s++) {
        make_info(&engine->stream[s].stream, &info[s]);
        pointer[s] = &info[s].info;
    }
    boot_id(host);
    reply.protocol = 1;
    reply.version = (char *)(uintptr_t)LK_VERSION;
    reply.handover = engine->config.config->runtime.fd_socket;
    reply.host = host;
    reply.n_streams = engine->n_streams;
    reply.streams = pointer;
    rpc_reply(call, &reply.base, NULL, 0);
    for (uint32_t s = 0; s < engine->n_streams; s++) {
        free(info[s].dataset);
        free(info[s].phase);
        free(info[s].phases);
    }
    free(pointer);
    free(info);
}
