#include "proto/envelope.h"

#include "base/bytes.h"

#define MAGIC "LKP1"

struct method_name {
    uint16_t method;
    const char *name;
};

static const struct method_name method_names[] = {
    {LK_METHOD_HELLO, "Hello"},
    {LK_METHOD_GET_BATCH, "GetBatch"},
    {LK_METHOD_RELEASE, "Release"},
    {LK_METHOD_CHECKPOINT, "Checkpoint"},
    {LK_METHOD_STATUS, "Status"},
    {LK_METHOD_TRACE, "Trace"},
    {LK_METHOD_DIGEST, "Digest"},
    {LK_METHOD_GOODBYE, "Goodbye"},
    {LK_METHOD_WORKER_HELLO, "WorkerHello"},
    {LK_METHOD_WORKER_TASK, "WorkerTask"},
};

const char *lk_method_name(uint16_t method)
{
    for (size_t i = 0; i < sizeof method_names / sizeof *method_names; i++) {
        if (method_names[i].method == method)
            return method_names[i].name;
    }
    return "?";
}

void lk_envelope_put(const struct lk_envelope *envelope, uint8_t ret_bytes[LK_ENVELOPE_BYTES])
{
    memcpy(ret_bytes, MAGIC, 4);
    lk_put_u16(ret_bytes + 4, envelope->method);
    lk_put_u16(ret_bytes + 6, envelope->status);
    lk_put_u64(ret_bytes + 8, envelope->call);
    lk_put_u32(ret_bytes + 16, envelope->deadline_ms);
    lk_put_u32(ret_bytes + 20, envelope->header_bytes);
    lk_put_u64(ret_bytes + 24, envelope->payload_bytes);
}

bool lk_envelope_peek(const void *body, size_t n, struct lk_envelope *ret_envelope)
{
    const uint8_t *p = body;

    if (n < LK_ENVELOPE_BYTES || memcmp(p, MAGIC, 4) != 0)
        return false;
    *ret_envelope = (struct lk_envelope){
        .method = lk_get_u16(p + 4),
        .status = lk_get_u16(p + 6),
        .call = lk_get_u64(p + 8),
        .deadline_ms = lk_get_u32(p + 16),
        .header_bytes = lk_get_u32(p + 20),
        .payload_bytes = lk_get_u64(p + 24),
    };
    return true;
}

bool lk_envelope_get(const void *body, size_t n, struct lk_envelope *ret_envelope)
{
    struct lk_envelope e;

    if (!lk_envelope_peek(body, n, &e))
        return false;
    /* Subtract from what is there rather than add what is claimed: sums of claims may wrap. */
    uint64_t rest = n - LK_ENVELOPE_BYTES;
    if (e.header_bytes > rest || e.payload_bytes != rest - e.header_bytes)
        return false;
    e.header = (const uint8_t *)body + LK_ENVELOPE_BYTES;
    e.payload = e.header + e.header_bytes;
    *ret_envelope = e;
    return true;
}
