#include "client/cli/tally.h"

#include "client/cli/output.h"

#include <inttypes.h>

void tally_add(struct tally *t, uint64_t row, uint32_t row_bytes, const struct lk_count *count)
{
    t->rows++;
    t->row_bytes += row_bytes;
    t->dropped[count->drop < LK_DROP_KINDS ? count->drop : 0]++;
    if (count->drop != 0 || count->tokens == 0)
        return;
    t->text_bytes += count->text_bytes;
    t->tokens += count->tokens;
    t->specials += count->specials;
    int power = 31 - __builtin_clz(count->tokens);
    t->length[power].rows++;
    t->length[power].tokens += count->tokens;
    if (count->tokens > t->longest || (count->tokens == t->longest && row < t->longest_row)) {
        t->longest = count->tokens;
        t->longest_row = row;
    }
}

/* Text ---------------------------------------------------------------------------------------- */

static void count(struct lk_buf *out, const char *before, uint64_t n, const char *after)
{
    lk_buf_puts(out, before);
    put_count(out, n);
    lk_buf_puts(out, after);
}

/* Two decimals, as integers make them. */
static void put_ratio(struct lk_buf *out, uint64_t part, uint64_t whole)
{
    if (whole == 0) {
        lk_buf_puts(out, "-");
        return;
    }
    uint64_t hundredths = (uint64_t)((__uint128_t)part * 100 / whole);
    lk_buf_putf(out, "%" PRIu64 ".%02" PRIu64, hundredths / 100, hundredths % 100);
}

static void text_drops(const struct tally *t, struct lk_buf *out)
{
    uint64_t kept = t->dropped[LK_DROP_NONE];
    count(out, "  kept      ", kept, " rows");
    if (kept == t->rows) {
        lk_buf_puts(out, "; none is dropped\n");
        return;
    }
    count(out, "; dropped ", t->rows - kept, ", ");
    put_percent(out, t->rows - kept, t->rows);
    lk_buf_puts(out, "\n");
    for (int i = 1; i < LK_DROP_KINDS; i++) {
        if (t->dropped[i] == 0)
            continue;
        lk_buf_putf(out, "            %-16s", lk_drop_name((enum lk_drop)i));
        count(out, "", t->dropped[i], " rows, ");
        put_percent(out, t->dropped[i], t->rows);
        lk_buf_puts(out, "\n");
    }
}

static void pad_to(struct lk_buf *out, size_t from, size_t columns)
{
    while (out->len < from + columns)
        lk_buf_puts(out, " ");
}

/* One line a power of two between the shortest and the longest: tokens, rows, their shares. */
static void text_lengths(const struct tally *t, struct lk_buf *out)
{
    int first = 0, last = TALLY_LENGTHS - 1;
    while (first < last && t->length[first].rows == 0)
        first++;
    while (last > first && t->length[last].rows == 0)
        last--;
    if (t->tokens == 0)
        return;
    lk_buf_puts(out, "            tokens a row            rows          of rows     of tokens\n");
    for (int i = first; i <= last; i++) {
        size_t from = out->len;
        count(out, "            ", 1ull << i, "");
        if (i > 0)
            count(out, " to ", (2ull << i) - 1, "");
        pad_to(out, from, 36);
        put_count(out, t->length[i].rows);
        pad_to(out, from, 50);
        put_percent(out, t->length[i].rows, t->dropped[LK_DROP_NONE]);
        pad_to(out, from, 62);
        put_percent(out, t->length[i].tokens, t->tokens);
        lk_buf_puts(out, "\n");
    }
}

void tally_text(const struct tally *t, const char *place, struct lk_buf *out)
{
    text_drops(t, out);
    count(out, "  text      ", t->text_bytes, " bytes\n");
    count(out, "  tokens    ", t->tokens, ", ");
    put_ratio(out, t->text_bytes, t->tokens);
    lk_buf_puts(out, " bytes of text each");
    count(out, "; ", t->specials, " special tokens in text\n");
    if (t->tokens == 0)
        return;
    count(out, "  lengths   mean ", t->tokens / t->dropped[LK_DROP_NONE], "");
    count(out, ", longest ", t->longest, " tokens, ");
    lk_buf_puts(out, place);
    lk_buf_puts(out, "\n");
    text_lengths(t, out);
}

/* JSON ---------------------------------------------------------------------------------------- */

void tally_json(const struct tally *t, struct lk_buf *out)
{
    json_u64(out, true, "row_bytes", t->row_bytes);
    json_u64(out, true, "kept", t->dropped[LK_DROP_NONE]);
    json_u64(out, true, "text_bytes", t->text_bytes);
    json_u64(out, true, "tokens", t->tokens);
    json_u64(out, true, "special_tokens_in_text", t->specials);
    json_u64(out, true, "longest", t->longest);
    json_u64(out, true, "longest_row", t->longest_row);
    json_key(out, true, "dropped");
    for (int i = 1; i < LK_DROP_KINDS; i++) {
        lk_buf_puts(out, i > 1 ? "" : "{");
        json_u64(out, i > 1, lk_drop_name((enum lk_drop)i), t->dropped[i]);
    }
    lk_buf_puts(out, "}");
    json_key(out, true, "lengths");
    const char *before = "[";
    for (int i = 0; i < TALLY_LENGTHS; i++) {
        if (t->length[i].rows == 0)
            continue;
        lk_buf_puts(out, before);
        lk_buf_puts(out, "{");
        json_u64(out, false, "from", 1ull << i);
        json_u64(out, true, "to", (2ull << i) - 1);
        json_u64(out, true, "rows", t->length[i].rows);
        json_u64(out, true, "tokens", t->length[i].tokens);
        lk_buf_puts(out, "}");
        before = ",";
    }
    lk_buf_puts(out, t->tokens > 0 ? "]" : "[]");
}
