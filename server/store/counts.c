#include "store/counts.h"

#include "base/bytes.h"

#include <stdlib.h>
#include <string.h>

#define HEAD_BYTES 96u
#define HEAD_HASHED 88u
#define BLOCK_HEAD 9u
#define GROWTHS 5
#define ORDER_ZERO 64
#define ORDER_MAX 40
#define CODE_BITS_MAX 48 /* of the part of a code that is not its order's */
#define COLUMN_MAX (1ll << 40) /* of a column's base and slope, either way */

enum { ALL_KNOWN = 1, SOME_DROPPED = 2, SOME_SPECIAL = 4, FLAGS = 7 };

__extension__ typedef __int128 i128;

/* Bits ---------------------------------------------------------------------------------------- */

struct bit_writer {
    struct lk_buf *out;
    uint64_t held;
    unsigned n;
};

/* @n is at most 32. */
static void put_bits(struct bit_writer *w, uint64_t bits, unsigned n)
{
    w->held |= bits << w->n;
    w->n += n;
    while (w->n >= 8) {
        uint8_t byte = (uint8_t)w->held;
        lk_buf_put(w->out, &byte, 1);
        w->held >>= 8;
        w->n -= 8;
    }
}

static void put_wide(struct bit_writer *w, uint64_t bits, unsigned n)
{
    if (n > 32) {
        put_bits(w, bits & UINT32_MAX, 32);
        bits >>= 32;
        n -= 32;
    }
    put_bits(w, bits, n);
}

static void put_last_bits(struct bit_writer *w)
{
    if (w->n > 0)
        put_bits(w, 0, 8 - w->n);
}

struct bit_reader {
    const uint8_t *at, *end;
    uint64_t held;
    unsigned n;
    bool bad;
};

/* At least 56 bits, zeros after the end. */
static void fill(struct bit_reader *r)
{
    if (r->end - r->at >= 8) {
        r->held |= lk_get_u64(r->at) << r->n;
        r->at += (63 - r->n) / 8;
        r->n |= 56;
        return;
    }
    while (r->n <= 56 && r->at < r->end) {
        r->held |= (uint64_t)*r->at++ << r->n;
        r->n += 8;
    }
}

static uint64_t take_bits(struct bit_reader *r, unsigned n)
{
    if (r->n < n)
        fill(r);
    if (r->n < n) {
        r->bad = true;
        return 0;
    }
    uint64_t bits = r->held & ((1ull << n) - 1);
    r->held >>= n;
    r->n -= n;
    return bits;
}

/* Codes --------------------------------------------------------------------------------------- */

static unsigned bit_length(uint64_t v)
{
    return v == 0 ? 0 : 64 - (unsigned)__builtin_clzll(v);
}

/* How a column foretells its values, and codes what is left. */
struct column {
    int64_t base, slope;
    int growth, order;
};

static int64_t foretell(const struct column *c, uint64_t x)
{
    return c->base + (int64_t)(((i128)x * c->slope) >> 16);
}

static uint64_t fold(int64_t v)
{
    return ((uint64_t)v << 1) ^ (uint64_t)(v >> 63);
}

static int64_t unfold(uint64_t v)
{
    return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

static unsigned size_of(int64_t foretold)
{
    return bit_length(foretold > 0 ? (uint64_t)foretold : 0);
}

/* Of a value whose forecast has @size. */
static unsigned grown(const struct column *c, unsigned size)
{
    return size * (unsigned)c->growth / 4;
}

static unsigned order_at(const struct column *c, unsigned size)
{
    int order = c->order + (int)grown(c, size);
    return order < 0 ? 0 : order > ORDER_MAX ? ORDER_MAX : (unsigned)order;
}

static unsigned code_bits(uint64_t v, unsigned order)
{
    return 2 * bit_length((v >> order) + 1) - 1 + order;
}

static void put_code(struct bit_writer *w, uint64_t v, unsigned order)
{
    uint64_t high = (v >> order) + 1;
    unsigned n = bit_length(high);
    LK_CHECK(n > 0); /* what is near a line that fits is far below 2^64 - 1 */
    put_wide(w, 0, n - 1);
    put_bits(w, 1, 1);
    put_wide(w, high & ((1ull << (n - 1)) - 1), n - 1);
    put_wide(w, v & ((1ull << order) - 1), order);
}

static uint64_t take_code(struct bit_reader *r, unsigned order)
{
    if (r->n < CODE_BITS_MAX)
        fill(r);
    unsigned zeros = r->held == 0 ? CODE_BITS_MAX : (unsigned)__builtin_ctzll(r->held);
    if (zeros >= CODE_BITS_MAX || zeros >= r->n) {
        r->bad = true;
        return 0;
    }
    (void)take_bits(r, zeros + 1);
    uint64_t high = (1ull << zeros | take_bits(r, zeros)) - 1;
    return high << order | take_bits(r, order);
}

/* Columns ------------------------------------------------------------------------------------- */

/* Values and what they are foretold from. */
struct values {
    uint32_t n;
    uint64_t x[LK_COUNTS_BLOCK];
    uint64_t v[LK_COUNTS_BLOCK];
};

/* What a reader takes; honest texts and tokens never need more. */
static bool line_fits(const struct column *c)
{
    return c->base <= COLUMN_MAX && c->base >= -COLUMN_MAX && c->slope <= COLUMN_MAX && c->slope >= -COLUMN_MAX;
}

/* The bits of what a line leaves of the values, as plain numbers. */
static uint64_t bits_left(const struct values *values, const struct column *line)
{
    uint64_t bits = 0;
    for (uint32_t i = 0; i < values->n; i++)
        bits += bit_length(fold((int64_t)values->v[i] - foretell(line, values->x[i])));
    return bits;
}

static void try_line(const struct values *values, struct column line, struct column *best, uint64_t *least)
{
    uint64_t bits = line_fits(&line) ? bits_left(values, &line) : UINT64_MAX;
    if (bits < *least) {
        *least = bits;
        *best = line;
    }
}

/* Straight lines through the values: the same for all, in proportion, at a distance, and that of the
 * least squares. Whichever leaves least. */
static struct column best_line(const struct values *values)
{
    i128 n = values->n, x = 0, v = 0, xx = 0, xv = 0;
    struct column best = {0};
    uint64_t least = bits_left(values, &best);
    LK_CHECK(n > 0); /* put_column writes nothing of none */
    for (uint32_t i = 0; i < values->n; i++) {
        x += values->x[i];
        v += values->v[i];
        xx += (i128)values->x[i] * values->x[i];
        xv += (i128)values->x[i] * values->v[i];
    }
    try_line(values, (struct column){.base = (int64_t)(v / n)}, &best, &least);
    if (x == 0 || v == 0)
        return best;
    try_line(values, (struct column){.slope = (int64_t)((v << 16) / x)}, &best, &least);
    try_line(values, (struct column){.slope = 1 << 16, .base = (int64_t)((v - x) / n)}, &best, &least);
    i128 spread = n * xx - x * x;
    i128 slope = spread > 0 ? ((n * xv - x * v) * 65536) / spread : -1;
    if (slope >= 0 && slope <= 1 << 24)
        try_line(values, (struct column){.slope = (int64_t)slope, .base = (int64_t)((v - ((x * slope) >> 16)) / n)},
                 &best, &least);
    return best;
}

/* What a line makes of the values, worked out once for all growths and orders. */
struct left {
    uint64_t folded[LK_COUNTS_BLOCK];
    uint8_t size[LK_COUNTS_BLOCK];
};

static uint64_t bits_of(const struct left *left, uint32_t n, const struct column *c)
{
    uint64_t bits = 0;
    for (uint32_t i = 0; i < n; i++)
        bits += code_bits(left->folded[i], order_at(c, left->size[i]));
    return bits;
}

/* With each growth the order that suits the values on average, and its neighbours. @sum: of the lengths of what
 * is left. */
static struct column best_orders(const struct left *left, uint32_t n, int64_t sum, struct column line)
{
    struct column best = line;
    uint64_t least = UINT64_MAX;
    LK_CHECK(n > 0);
    for (line.growth = 0; line.growth < GROWTHS; line.growth++) {
        int64_t rest = sum;
        for (uint32_t i = 0; i < n; i++)
            rest -= grown(&line, left->size[i]);
        int middle = (int)(rest / (int64_t)n) - 1;
        for (line.order = middle - 1; line.order <= middle + 1; line.order++) {
            uint64_t bits = bits_of(left, n, &line);
            if (bits < least) {
                least = bits;
                best = line;
            }
        }
    }
    return best;
}

static struct column best_column(const struct values *values)
{
    struct column line = best_line(values);
    struct left left;
    int64_t sum = 0;
    for (uint32_t i = 0; i < values->n; i++) {
        int64_t foretold = foretell(&line, values->x[i]);
        left.folded[i] = fold((int64_t)values->v[i] - foretold);
        left.size[i] = (uint8_t)size_of(foretold);
        sum += bit_length(left.folded[i]);
    }
    return best_orders(&left, values->n, sum, line);
}

static void put_column(struct lk_buf *out, const struct values *values)
{
    if (values->n == 0)
        return;
    struct column c = best_column(values);
    struct bit_writer w = {.out = out};
    lk_buf_put_zigzag(out, c.base);
    lk_buf_put_zigzag(out, c.slope);
    uint8_t how[2] = {(uint8_t)c.growth, (uint8_t)(c.order + ORDER_ZERO)};
    lk_buf_put(out, how, 2);
    for (uint32_t i = 0; i < values->n; i++) {
        int64_t foretold = foretell(&c, values->x[i]);
        put_code(&w, fold((int64_t)values->v[i] - foretold), order_at(&c, size_of(foretold)));
    }
    put_last_bits(&w);
}

/* @values->x is given. */
static void read_column(struct lk_reader *in, struct values *values, uint64_t max)
{
    if (values->n == 0)
        return;
    struct column c = {0};
    c.base = lk_read_zigzag(in);
    c.slope = lk_read_zigzag(in);
    const uint8_t *how = lk_read_bytes(in, 2);
    if (how == NULL || how[0] >= GROWTHS || !line_fits(&c)) {
        in->bad = 1;
        return;
    }
    c.growth = how[0];
    c.order = how[1] - ORDER_ZERO;
    struct bit_reader r = {.at = in->at, .end = in->end};
    for (uint32_t i = 0; i < values->n && !r.bad; i++) {
        int64_t foretold = foretell(&c, values->x[i]);
        uint64_t folded = take_code(&r, order_at(&c, size_of(foretold)));
        int64_t v = (int64_t)((uint64_t)foretold + (uint64_t)unfold(folded));
        r.bad = r.bad || v < 0 || (uint64_t)v > max;
        values->v[i] = (uint64_t)v;
    }
    in->at = r.at - r.n / 8; /* whole bytes not used yet belong to what follows */
    in->bad |= r.bad || (r.n % 8 != 0 && (r.held & ((1u << r.n % 8) - 1)) != 0);
}

/* Blocks -------------------------------------------------------------------------------------- */

enum column_of { DROPS, TEXTS, SPECIALS, TOKENS };

static void add_value(struct values *values, enum column_of column, const struct lk_count *row,
                      uint32_t row_bytes)
{
    uint32_t i = values->n++;
    values->x[i] = column == TEXTS ? row_bytes : column == TOKENS ? row->text_bytes : 0;
    values->v[i] = column == DROPS      ? row->drop
                   : column == TEXTS    ? row->text_bytes
                   : column == SPECIALS ? row->specials
                                        : row->tokens;
}

static void put_rows(struct lk_buf *out, uint32_t rows, const uint32_t *row_bytes,
                     const struct lk_count *row, enum column_of column)
{
    struct values values = {.n = 0};
    for (uint32_t i = 0; i < rows; i++)
        if (row[i].known && (column != TOKENS || row[i].drop == 0))
            add_value(&values, column, &row[i], row_bytes[i]);
    put_column(out, &values);
}

static void put_block(struct lk_buf *out, uint32_t rows, const uint32_t *row_bytes,
                      const struct lk_count *row, uint8_t flags)
{
    if (flags & SOME_DROPPED)
        put_rows(out, rows, row_bytes, row, DROPS);
    put_rows(out, rows, row_bytes, row, TEXTS);
    if (flags & SOME_SPECIAL)
        put_rows(out, rows, row_bytes, row, SPECIALS);
    put_rows(out, rows, row_bytes, row, TOKENS);
}

static void get_column(struct lk_reader *in, struct values *values, uint64_t max, bool there)
{
    if (there)
        read_column(in, values, max);
    else
        memset(values->v, 0, sizeof values->v);
}

/* The columns of the rows that are known. */
static void get_block(struct lk_reader *in, uint32_t rows, const uint32_t *row_bytes, uint8_t flags,
                      struct lk_count *row)
{
    uint32_t known[LK_COUNTS_BLOCK], kept[LK_COUNTS_BLOCK], n = 0, k = 0;
    struct values values = {.n = 0};
    for (uint32_t i = 0; i < rows; i++)
        if (row[i].known)
            known[n++] = i;
    values.n = n;
    get_column(in, &values, LK_COUNTS_DROPS - 1, flags & SOME_DROPPED);
    for (uint32_t i = 0; i < n; i++) {
        row[known[i]].drop = (uint8_t)values.v[i];
        values.x[i] = row_bytes[known[i]];
    }
    get_column(in, &values, UINT32_MAX, true);
    for (uint32_t i = 0; i < n; i++)
        row[known[i]].text_bytes = (uint32_t)values.v[i];
    memset(values.x, 0, sizeof values.x);
    get_column(in, &values, UINT32_MAX, flags & SOME_SPECIAL);
    for (uint32_t i = 0; i < n; i++) {
        row[known[i]].specials = (uint32_t)values.v[i];
        if (row[known[i]].drop == 0)
            kept[k++] = known[i];
    }
    for (uint32_t i = 0; i < k; i++)
        values.x[i] = row[kept[i]].text_bytes;
    values.n = k;
    get_column(in, &values, LK_COUNTS_TOKENS_MAX, true);
    for (uint32_t i = 0; i < k; i++) {
        row[kept[i]].tokens = (uint32_t)values.v[i];
        in->bad |= values.v[i] == 0;
    }
}

/* Reads what is before the columns: flags, and which rows are known. */
static uint8_t get_known(struct lk_reader *in, uint32_t rows, struct lk_count *row, uint32_t *ret_known)
{
    const uint8_t *flags = lk_read_bytes(in, 1);
    const uint8_t *map = NULL;
    uint32_t known = 0;
    if (flags == NULL || (*flags & ~FLAGS) != 0) {
        in->bad = 1;
        return 0;
    }
    if (!(*flags & ALL_KNOWN) && (map = lk_read_bytes(in, (rows + 7) / 8)) == NULL)
        return 0;
    for (uint32_t i = 0; i < rows; i++) {
        row[i].known = map == NULL || (map[i / 8] >> i % 8 & 1);
        known += row[i].known;
    }
    if (map != NULL)
        in->bad |= known == 0 || known == rows || (rows % 8 != 0 && map[rows / 8] >> rows % 8 != 0);
    *ret_known = known;
    return *flags;
}

/* Checked against its hash. */
static enum lk_code find_block(const struct lk_counts_file *file, uint32_t b,
                               struct lk_reader *ret_in, struct lk_err *err)
{
    const uint8_t *block = file->bytes.data + file->at[b];
    size_t n = file->at[b + 1] - file->at[b];
    if (lk_hash64(block + 8, n - 8, b) != lk_get_u64(block))
        return lk_fail(err, LK_DATA_LOSS, "block %u of %u does not match its checksum", b,
                       file->blocks);
    *ret_in = lk_reader_of(block + 8, n - 8);
    return LK_OK;
}

enum lk_code lk_counts_read(const struct lk_counts_file *file, uint32_t b,
                            const uint32_t *row_bytes, struct lk_count ret_row[static LK_COUNTS_BLOCK],
                            struct lk_err *err)
{
    struct lk_reader in;
    uint32_t rows = lk_counts_block_rows(file->id.rows, b), known = 0;
    memset(ret_row, 0, LK_COUNTS_BLOCK * sizeof *ret_row);
    if (file->at[b + 1] == file->at[b])
        return LK_OK;
    LK_TRY(find_block(file, b, &in, err));
    uint8_t flags = get_known(&in, rows, ret_row, &known);
    if (!in.bad)
        get_block(&in, rows, row_bytes + (size_t)b * LK_COUNTS_BLOCK, flags, ret_row);
    if (!in.bad && in.at == in.end)
        return LK_OK;
    memset(ret_row, 0, LK_COUNTS_BLOCK * sizeof *ret_row);
    return lk_fail(err, LK_DATA_LOSS, "block %u of %u contradicts itself", b, file->blocks);
}

enum lk_code lk_counts_check(const struct lk_counts_file *file, struct lk_err *err)
{
    struct lk_count row[LK_COUNTS_BLOCK];
    uint64_t sum = 0;
    for (uint32_t b = 0; b < file->blocks; b++) {
        struct lk_reader in;
        uint32_t known = 0;
        if (file->at[b + 1] == file->at[b])
            continue;
        LK_TRY(find_block(file, b, &in, err));
        (void)get_known(&in, lk_counts_block_rows(file->id.rows, b), row, &known);
        if (in.bad)
            return lk_fail(err, LK_DATA_LOSS, "block %u of %u contradicts itself", b, file->blocks);
        sum += known;
    }
    if (sum != file->known)
        return lk_fail(err, LK_DATA_LOSS, "%llu rows are known, expected %llu",
                       (unsigned long long)sum, (unsigned long long)file->known);
    return LK_OK;
}

/* Files --------------------------------------------------------------------------------------- */

static enum lk_code parse_head(const char *name, const struct lk_buf *bytes,
                               struct lk_counts_file *file, struct lk_err *err)
{
    const uint8_t *p = bytes->data;
    if (bytes->len < HEAD_BYTES)
        return lk_fail(err, LK_DATA_LOSS, "%s: a counts file has at least %u bytes, this one %zu", name,
                       HEAD_BYTES, bytes->len);
    if (memcmp(p, "LKN1", 4) != 0 || lk_hash64(p, HEAD_HASHED, 0) != lk_get_u64(p + HEAD_HASHED))
        return lk_fail(err, LK_DATA_LOSS, "%s: the head is damaged", name);
    if (lk_get_u32(p + 4) != 1)
        return lk_fail(err, LK_FAILED_PRECONDITION, "%s: version %u, expected 1", name,
                       lk_get_u32(p + 4));
    file->id = (struct lk_counts_id){.ops = lk_digest_get(p + 8),
                                     .shard = lk_digest_get(p + 24),
                                     .lengths = lk_get_u64(p + 40),
                                     .rows = lk_get_u64(p + 48)};
    file->known = lk_get_u64(p + 56);
    if (lk_get_u64(p + 64) != bytes->len - HEAD_BYTES)
        return lk_fail(err, LK_DATA_LOSS, "%s: %zu bytes after the head, expected %llu", name,
                       bytes->len - HEAD_BYTES, (unsigned long long)lk_get_u64(p + 64));
    if (bytes->len > UINT32_MAX || file->id.rows == 0 ||
        file->id.rows > (bytes->len - HEAD_BYTES) / 2 * LK_COUNTS_BLOCK)
        return lk_fail(err, LK_DATA_LOSS, "%s: %llu rows in %zu bytes", name,
                       (unsigned long long)file->id.rows, bytes->len);
    return LK_OK;
}

static enum lk_code parse_directory(const char *name, const struct lk_buf *bytes,
                                    struct lk_counts_file *file, struct lk_err *err)
{
    const uint8_t *directory = bytes->data + HEAD_BYTES;
    file->blocks = lk_counts_blocks(file->id.rows);
    uint64_t at = HEAD_BYTES + 2ull * file->blocks;
    if (at > bytes->len ||
        lk_hash64(directory, 2ull * file->blocks, 0) != lk_get_u64(bytes->data + 72))
        return lk_fail(err, LK_DATA_LOSS, "%s: the directory is damaged", name);
    file->at = lk_alloc(((size_t)file->blocks + 1) * sizeof *file->at);
    for (uint32_t b = 0; b < file->blocks; b++) {
        uint16_t n = lk_get_u16(directory + 2 * (size_t)b);
        if (at > bytes->len || (n != 0 && n < BLOCK_HEAD))
            return lk_fail(err, LK_DATA_LOSS, "%s: block %u cannot have %u bytes", name, b, n);
        file->at[b] = (uint32_t)at;
        at += n;
    }
    file->at[file->blocks] = (uint32_t)at;
    if (at != bytes->len)
        return lk_fail(err, LK_DATA_LOSS, "%s: %zu bytes, expected %llu", name, bytes->len,
                       (unsigned long long)at);
    return LK_OK;
}

enum lk_code lk_counts_parse(const char *name, struct lk_buf *bytes,
                             struct lk_counts_file *ret_file, struct lk_err *err)
{
    struct lk_counts_file file = {.bytes = *bytes};
    *bytes = (struct lk_buf){0};
    enum lk_code code = parse_head(name, &file.bytes, &file, err);
    if (code == LK_OK)
        code = parse_directory(name, &file.bytes, &file, err);
    if (code != LK_OK) {
        lk_counts_file_done(&file);
        return code;
    }
    *ret_file = file;
    return LK_OK;
}

void lk_counts_file_done(struct lk_counts_file *file)
{
    free(file->at);
    lk_buf_done(&file->bytes);
    *file = (struct lk_counts_file){0};
}

bool lk_counts_id_equal(const struct lk_counts_id *a, const struct lk_counts_id *b)
{
    return lk_digest_equal(a->ops, b->ops) && lk_digest_equal(a->shard, b->shard) &&
           a->lengths == b->lengths && a->rows == b->rows;
}

/* Building ------------------------------------------------------------------------------------ */

void lk_counts_begin(struct lk_counts_build *build, const struct lk_counts_id *id)
{
    LK_CHECK(id->rows > 0);
    *build = (struct lk_counts_build){.id = *id};
    size_t n = HEAD_BYTES + 2 * (size_t)lk_counts_blocks(id->rows);
    memset(lk_buf_room(&build->out, n), 0, n);
    build->out.len = n;
}

static void close_block(struct lk_counts_build *build, size_t from)
{
    size_t n = build->out.len - from;
    LK_CHECK(build->next < lk_counts_blocks(build->id.rows) && n <= UINT16_MAX);
    lk_put_u16(build->out.data + HEAD_BYTES + 2 * (size_t)build->next, (uint16_t)n);
    build->next++;
}

void lk_counts_keep(struct lk_counts_build *build, const struct lk_counts_file *file)
{
    size_t from = build->out.len;
    uint32_t b = build->next, known = 0;
    if (file != NULL && file->at[b + 1] > file->at[b]) {
        struct lk_count row[LK_COUNTS_BLOCK];
        const uint8_t *block = file->bytes.data + file->at[b];
        size_t n = file->at[b + 1] - file->at[b];
        struct lk_reader in = lk_reader_of(block + 8, n - 8);
        (void)get_known(&in, lk_counts_block_rows(file->id.rows, b), row, &known);
        lk_buf_put(&build->out, block, n);
        build->known += known;
    }
    close_block(build, from);
}

void lk_counts_put(struct lk_counts_build *build, const uint32_t *row_bytes,
                   const struct lk_count row[static LK_COUNTS_BLOCK])
{
    uint32_t rows = lk_counts_block_rows(build->id.rows, build->next), known = 0;
    size_t from = build->out.len;
    uint8_t flags = 0, map[LK_COUNTS_BLOCK / 8] = {0};
    for (uint32_t i = 0; i < rows; i++) {
        if (!row[i].known)
            continue;
        map[i / 8] |= (uint8_t)(1u << i % 8);
        known++;
        flags |= (uint8_t)((row[i].drop != 0 ? SOME_DROPPED : 0) | (row[i].specials != 0 ? SOME_SPECIAL : 0));
    }
    if (known > 0) {
        flags |= known == rows ? ALL_KNOWN : 0;
        lk_buf_put_u64(&build->out, 0);
        lk_buf_put(&build->out, &flags, 1);
        if (known < rows)
            lk_buf_put(&build->out, map, (rows + 7) / 8);
        put_block(&build->out, rows, row_bytes + (size_t)build->next * LK_COUNTS_BLOCK, row, flags);
        uint8_t *block = build->out.data + from;
        lk_put_u64(block, lk_hash64(block + 8, build->out.len - from - 8, build->next));
        build->known += known;
    }
    close_block(build, from);
}

void lk_counts_end(struct lk_counts_build *build, struct lk_buf *ret_bytes)
{
    uint8_t *p = build->out.data;
    uint32_t blocks = lk_counts_blocks(build->id.rows);
    LK_CHECK(build->next == blocks);
    memcpy(p, "LKN1", 4);
    lk_put_u32(p + 4, 1);
    lk_digest_put(build->id.ops, p + 8);
    lk_digest_put(build->id.shard, p + 24);
    lk_put_u64(p + 40, build->id.lengths);
    lk_put_u64(p + 48, build->id.rows);
    lk_put_u64(p + 56, build->known);
    lk_put_u64(p + 64, build->out.len - HEAD_BYTES);
    lk_put_u64(p + 72, lk_hash64(p + HEAD_BYTES, 2 * (size_t)blocks, 0));
    lk_put_u64(p + 80, 0);
    lk_put_u64(p + HEAD_HASHED, lk_hash64(p, HEAD_HASHED, 0));
    *ret_bytes = build->out;
    *build = (struct lk_counts_build){0};
}

/* Names --------------------------------------------------------------------------------------- */

char *lk_counts_name(const struct lk_counts_id *id)
{
    char ops[LK_DIGEST_HEX], shard[LK_DIGEST_HEX];
    lk_digest_hex(id->ops, ops);
    lk_digest_hex(id->shard, shard);
    return lk_format("%s-%s" LK_COUNTS_SUFFIX, ops, shard);
}

bool lk_counts_is_name(const char *name)
{
    size_t hex = LK_DIGEST_HEX - 1, n = 2 * hex + 1;
    if (strlen(name) != n + strlen(LK_COUNTS_SUFFIX) || strcmp(name + n, LK_COUNTS_SUFFIX) != 0)
        return false;
    for (size_t i = 0; i < n; i++)
        if (i == hex ? name[i] != '-' : strchr("0123456789abcdef", name[i]) == NULL)
            return false;
    return true;
}
