/*
 * Snapshot files and trainers' checkpoint states: any bytes are one, or are refused with a text. A snapshot
 * that is taken is found under its name alone, and gives the state that was packed into it.
 *
 * Input: a byte; 0: the file as it is; 1: made of the rest: lane, position, claimed length, then the state, with
 * checksums that are right; 2: a file whose header's checksums are made right; 3: a checkpoint's state.
 */
#include "base/bytes.h"
#include "base/digest.h"
#include "host/snapshots.h"
#include "proto/state.h"
#include "store/file.h"
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include <zstd.h>

#define HEAD_BYTES 64u

static char dir[64];

static void clean_up(void)
{
    (void)rmdir(dir);
}

static void begin(void)
{
    if (dir[0] != '\0')
        return;
    (void)snprintf(dir, sizeof dir, "/tmp/lk-fuzz-XXXXXX");
    LK_CHECK(mkdtemp(dir) != NULL && atexit(clean_up) == 0);
}

static void write_file(const char *path, const struct lk_buf *file)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    LK_CHECK(fd >= 0 && write(fd, file->data, file->len) == (ssize_t)file->len);
    (void)close(fd);
}

static void repair(struct lk_buf *file)
{
    if (file->len < HEAD_BYTES)
        return;
    lk_put_u32(file->data + 44, (uint32_t)(file->len - HEAD_BYTES));
    lk_put_u64(file->data + 48, lk_hash64(file->data, 48, 0));
    lk_put_u64(file->data + 56, lk_hash64(file->data + HEAD_BYTES, file->len - HEAD_BYTES, 0));
}

/* A snapshot of @state; @lie is added to the length that it claims. */
static void make(struct lk_buf *out, uint32_t lane, uint64_t position, const uint8_t *state, size_t n, uint32_t lie)
{
    size_t bound = ZSTD_compressBound(n);
    uint8_t *head = lk_buf_room(out, HEAD_BYTES + bound);
    size_t packed = ZSTD_compress(head + HEAD_BYTES, bound, state, n, 1);

    LK_CHECK(!ZSTD_isError(packed));
    memset(head, 0, HEAD_BYTES);
    memcpy(head, "LKS1\1", 5);
    lk_put_u32(head + 24, lane);
    lk_put_u64(head + 32, position);
    lk_put_u32(head + 40, (uint32_t)n + lie);
    out->len = HEAD_BYTES + packed;
    repair(out);
}

/* What the daemon reads of it, if the directory has it under the name that its header gives. */
static void read_back(uint32_t lane, uint64_t position, const uint8_t *state, size_t n, bool whole)
{
    static const struct log quiet = {.level = LOG_LEVEL_ERROR};
    struct snapshots *snapshots = NULL;
    struct lk_buf got = {0};
    struct lk_digest order = {0};
    struct lk_err err;
    uint64_t at = 0;

    LK_CHECK(snapshots_open(dir, 8, &quiet, &snapshots, &err) == LK_OK);
    bool found = snapshots_read(snapshots, order, lane, 0, UINT64_MAX, &at, &got);
    LK_CHECK(found == whole);
    if (found)
        LK_CHECK(at == position && got.len == n && (n == 0 || memcmp(got.data, state, n) == 0));
    snapshots_close(snapshots);
    lk_buf_done(&got);
}

static void check_state(struct lk_fuzz_input input)
{
    uint8_t *exact = lk_fuzz_copy(input.at, input.left), digest[16], again[LK_STATE_BYTES];
    uint64_t step;

    if (input.left == LK_STATE_BYTES)
        lk_put_u64(exact + 32, lk_hash64(exact, 32, 0));
    if (lk_state_get(exact, input.left, &step, digest)) {
        lk_state_put(step, digest, again);
        LK_CHECK(memcmp(again, exact, sizeof again) == 0);
    }
    free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct lk_fuzz_input input = {data, n};
    struct lk_buf file = {0};
    struct lk_digest order;
    struct lk_err err = {0};
    uint8_t mode = lk_fuzz_byte(&input) % 4;
    uint32_t lane = 0, lie = 0;
    uint64_t position = 0;

    if (mode == 3) {
        check_state(input);
        return 0;
    }
    begin();
    if (mode == 1) {
        lane = lk_fuzz_byte(&input);
        position = lk_fuzz_byte(&input);
        lie = lk_fuzz_byte(&input);
        lie = lie < 128 ? 0 : lie << 23;
        make(&file, lane, position, input.at, input.left, lie);
    } else {
        lk_buf_put(&file, input.at, input.left);
    }
    if (mode == 2)
        repair(&file);
    if (mode != 1 && file.len >= HEAD_BYTES) {
        lane = lk_get_u32(file.data + 24) % 100000;
        position = lk_get_u64(file.data + 32);
    }
    char *path = lk_format("%s/%032d-%05u-%020llu.lks", dir, 0, lane, (unsigned long long)position);
    write_file(path, &file);
    enum lk_code code = snapshot_check(path, &order, &lane, &position, &err);
    LK_CHECK(code == LK_OK || (err.text[0] != '\0' && (code == LK_DATA_LOSS || code == LK_FAILED_PRECONDITION)));
    if (mode == 1) {
        LK_CHECK((code == LK_OK) == (lie == 0));
        read_back(lane, position, input.at, input.left, lie == 0);
    }
    (void)unlink(path);
    free(path);
    lk_buf_done(&file);
    return 0;
}
