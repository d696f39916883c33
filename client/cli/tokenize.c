#include "client/cli/tokenize.h"

#include "base/bytes.h"
#include "base/json.h"

#include <inttypes.h>
#include <string.h>

/* ---- ids ---- */

/* There are millions of them: printf would take longer than the tokenizer. */
static void put_u32(struct lk_buf *out, uint32_t value)
{
    char digits[10];
    unsigned n = 0;
    do
        digits[sizeof digits - ++n] = (char)('0' + value % 10);
    while ((value /= 10) > 0);
    lk_buf_put(out, digits + sizeof digits - n, n);
}

static void put_list(struct tokenize *t, const char *between)
{
    for (size_t i = 0; i < t->ids.n; i++) {
        if (i > 0)
            lk_buf_put(&t->out, between, 1);
        put_u32(&t->out, t->ids.ids[i]);
    }
}

void tokenize_put_ids(struct tokenize *t)
{
    put_list(t, " ");
    lk_buf_puts(&t->out, "\n");
}

void tokenize_put_json(struct tokenize *t)
{
    lk_buf_puts(&t->out, "[");
    put_list(t, ",");
    lk_buf_puts(&t->out, "]\n");
}

void tokenize_put_u32(struct tokenize *t)
{
    uint8_t *to = lk_buf_room(&t->out, t->ids.n * 4);
    for (size_t i = 0; i < t->ids.n; i++)
        lk_put_u32(to + 4 * i, t->ids.ids[i]);
    t->out.len += t->ids.n * 4;
}

void tokenize_put_u16(struct tokenize *t)
{
    uint8_t *to = lk_buf_room(&t->out, t->ids.n * 2);
    for (size_t i = 0; i < t->ids.n; i++) {
        LK_CHECK(t->ids.ids[i] <= UINT16_MAX);
        lk_put_u16(to + 2 * i, (uint16_t)t->ids.ids[i]);
    }
    t->out.len += t->ids.n * 2;
}

/* Documents are apart by an empty line. */
void tokenize_put_pieces(struct tokenize *t)
{
    if (t->documents > 0)
        lk_buf_puts(&t->out, "\n");
    for (size_t i = 0; i < t->ids.n; i++) {
        size_t n = 0;
        const uint8_t *text = lk_tokenizer_bytes(t->chosen.tokenizer, t->ids.ids[i], &n);
        lk_buf_putf(&t->out, "%8u ", t->ids.ids[i]);
        put_quoted(&t->out, text, n);
        lk_buf_puts(&t->out, "\n");
    }
}

/* ---- counts ---- */

/* Hundredths, rounded down: the commands that answer programs do so in integers. */
static uint64_t bytes_per_100_tokens(const struct tokenize *t)
{
    return t->tokens == 0 ? 0 : (uint64_t)((double)t->bytes * 100 / (double)t->tokens);
}

void tokenize_put_counts(struct tokenize *t)
{
    struct lk_buf *out = &t->out;
    uint64_t specials = lk_encoder_specials(t->encoder);
    if (t->chosen.cli.json) {
        lk_buf_puts(out, "{");
        json_u64(out, false, "documents", t->documents);
        json_u64(out, true, "bytes", t->bytes);
        json_u64(out, true, "tokens", t->tokens);
        json_u64(out, true, "bytes_per_100_tokens", bytes_per_100_tokens(t));
        json_u64(out, true, "special_tokens_in_text", specials);
        lk_buf_puts(out, "}\n");
        return;
    }
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {{"documents       ", t->documents},
                {"bytes           ", t->bytes},
                {"tokens          ", t->tokens},
                {"special in text ", specials}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        lk_buf_puts(out, rows[i].name);
        put_count(out, rows[i].value);
        lk_buf_puts(out, "\n");
    }
    uint64_t ratio = bytes_per_100_tokens(t);
    lk_buf_putf(out, "bytes per token %" PRIu64 ".%02" PRIu64 "\n", ratio / 100, ratio % 100);
}
