#include "client/cli/drops.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WINDOW (1u << 20) /* rows; as many as are at the workers when there are as many of these as there may be */
#define NOT_KNOWN 0xff

static const struct lk_index *index_of(const struct drops *drops, uint32_t d)
{
    const struct measure_dataset *dataset = &drops->result->dataset[d];
    return &drops->result->stream[dataset->stream].index[dataset->dataset];
}

/* The number of a row among those of all datasets. */
static uint64_t number(const struct drops *drops, uint32_t d, uint64_t row)
{
    return drops->before[d] + row;
}

void drops_init(struct drops *drops, const struct measure_result *result, bool json, struct progress *wiped)
{
    struct lk_err err;
    *drops = (struct drops){.result = result,
                            .wiped = wiped,
                            .json = json,
                            .before = lk_zalloc(result->n, sizeof *drops->before),
                            .why = lk_alloc(WINDOW)};
    (void)output_open(&drops->output, NULL, &err); /* standard output is open */
    memset(drops->why, NOT_KNOWN, WINDOW);
    for (uint32_t d = 1; d < result->n; d++)
        drops->before[d] = drops->before[d - 1] + index_of(drops, d - 1)->rows;
}

void drops_done(struct drops *drops)
{
    free(drops->before);
    free(drops->why);
    lk_buf_done(&drops->line);
    lk_buf_done(&drops->out);
    *drops = (struct drops){.result = NULL};
}

bool drops_room(const struct drops *drops, uint32_t d, uint64_t row, uint32_t n)
{
    return drops->d == drops->result->n ||
           number(drops, d, row) + n - number(drops, drops->d, drops->row) <= WINDOW;
}

void drops_put(struct drops *drops, uint32_t d, uint64_t row, uint8_t why)
{
    LK_CHECK(why != NOT_KNOWN && drops_room(drops, d, row, 1));
    drops->why[number(drops, d, row) % WINDOW] = why;
}

/* Lines --------------------------------------------------------------------------------------- */

static void text_row(struct drops *drops, const char *stream, const char *dataset, const char *shard, uint64_t row)
{
    lk_buf_putf(&drops->line, "%s: dataset %s shard ", stream, dataset);
    if (strpbrk(shard, "\n\r\t\"\\") == NULL)
        put_safe(&drops->line, shard, strlen(shard));
    else
        put_quoted(&drops->line, shard, strlen(shard)); /* a name with a line end is to stay on its line */
    lk_buf_putf(&drops->line, " row %llu: ", (unsigned long long)row);
}

static void put_row(struct drops *drops, enum lk_drop why)
{
    const struct measure_dataset *dataset = &drops->result->dataset[drops->d];
    const struct lk_recipe *recipe = drops->result->stream[dataset->stream].recipe;
    const struct lk_index *index = index_of(drops, drops->d);
    const char *name = recipe->dataset[dataset->dataset].name;
    struct lk_row_place place = lk_index_place(index, drops->row);
    drops->line.len = 0;
    if (!drops->json) {
        text_row(drops, recipe->name, name, index->shard[place.shard].name, place.row_in_shard);
        lk_buf_putf(&drops->line, "%s\n", lk_drop_name(why));
        return;
    }
    lk_buf_puts(&drops->line, "{");
    json_text(&drops->line, false, "stream", recipe->name);
    json_text(&drops->line, true, "dataset", name);
    json_text(&drops->line, true, "shard", index->shard[place.shard].name);
    json_u64(&drops->line, true, "row_in_shard", place.row_in_shard);
    json_u64(&drops->line, true, "row", drops->row);
    json_text(&drops->line, true, "reason", lk_drop_name(why));
    lk_buf_puts(&drops->line, "}\n");
}

/* Writing ------------------------------------------------------------------------------------- */

/* A pipe that is writable takes PIPE_BUF bytes without waiting, so that a reader who does not read, a pager for
 * instance, is waited for here, where a signal is noticed. */
static enum lk_code wait_for_reader(int stop, struct lk_err *err)
{
    struct pollfd fd[] = {{.fd = STDOUT_FILENO, .events = POLLOUT}, {.fd = stop, .events = POLLIN}};
    while (poll(fd, 2, -1) < 0 && errno == EINTR)
        ;
    return (fd[1].revents & POLLIN) != 0 ? lk_fail(err, LK_CANCELLED, "stopped by a signal") : LK_OK;
}

static enum lk_code write_out(struct drops *drops, int stop, struct lk_err *err)
{
    if (drops->out.len == 0)
        return LK_OK;
    LK_TRY(wait_for_reader(stop, err));
    if (drops->wiped != NULL)
        progress_done(drops->wiped);
    return output_put(&drops->output, &drops->out, err);
}

/* The next row, also of the next dataset. */
static void pass(struct drops *drops)
{
    drops->why[number(drops, drops->d, drops->row) % WINDOW] = NOT_KNOWN;
    if (++drops->row < index_of(drops, drops->d)->rows)
        return;
    drops->d++;
    drops->row = 0;
}

enum lk_code drops_write(struct drops *drops, bool all, int stop, struct lk_err *err)
{
    while (drops->d < drops->result->n) {
        uint8_t why = drops->why[number(drops, drops->d, drops->row) % WINDOW];
        if (why == NOT_KNOWN)
            break;
        drops->line.len = 0;
        if (why != LK_DROP_NONE)
            put_row(drops, (enum lk_drop)why);
        if (drops->out.len + drops->line.len > PIPE_BUF)
            LK_TRY(write_out(drops, stop, err));
        lk_buf_put(&drops->out, drops->line.data, drops->line.len);
        pass(drops);
    }
    return all ? write_out(drops, stop, err) : LK_OK;
}
