/*
 * Index files: any bytes are an index, or are refused. What was taken has every row where it can be: after
 * the one before it, within its shard, in one shard alone; and names stay below the root.
 *
 * Input: a byte, then the file. With an odd byte its length, the dataset's digest and the checksum are made
 * right first, so that what is changed elsewhere is looked at at all.
 */
#include "base/bytes.h"
#include "format/index_layout.h"
#include "tests/fuzz/fuzz.h"

/* As far as the file is whole enough; what is not, is refused anyway. */
static void repair(uint8_t *p, size_t n)
{
    struct lk_index_sizes sizes = {.shards = lk_get_u32(p + 24),
                                   .rows = lk_get_u64(p + 32),
                                   .granules = lk_get_u64(p + 40),
                                   .name_bytes = lk_get_u64(p + 48)};

    lk_put_u64(p + 16, n);
    if (sizes.shards > 0 && sizes.shards < 64 && sizes.rows <= n / 8 && sizes.granules <= n / 8 &&
        sizes.name_bytes <= n && lk_index_layout_of(&sizes).end == n) {
        struct lk_index_shard shard[64];
        const char *names = (const char *)p + lk_index_layout_of(&sizes).names;
        size_t left = sizes.name_bytes;
        for (uint32_t i = 0; i < sizes.shards; i++) {
            const uint8_t *entry = p + LK_INDEX_HEADER_BYTES + i * LK_INDEX_SHARD_BYTES;
            uint32_t bytes = lk_get_u32(entry);
            if (bytes >= left || names[bytes] != '\0')
                break;
            shard[i] = (struct lk_index_shard){.name = names,
                                               .codec = (enum lk_codec)lk_get_u32(entry + 4),
                                               .data_bytes = lk_get_u64(entry + 24),
                                               .rows = lk_get_u64(entry + 40),
                                               .content = lk_digest_get(entry + 56)};
            names += bytes + 1;
            left -= bytes + 1;
            if (i + 1 == sizes.shards)
                lk_digest_put(lk_index_digest_of(shard, i + 1), p + 56);
        }
    }
    lk_digest_put(lk_digest_of(p, n - LK_INDEX_TRAILER_BYTES), p + n - LK_INDEX_TRAILER_BYTES);
}

static void check_rows(const struct lk_index *index)
{
    uint32_t shard = 0;
    uint64_t end = 0;

    for (uint64_t row = 0; row < index->rows; row++) {
        struct lk_row_place place = lk_index_place(index, row);
        LK_CHECK(place.shard < index->shards && place.shard >= shard);
        const struct lk_index_shard *s = &index->shard[place.shard];
        if (place.shard != shard)
            end = 0;
        LK_CHECK(place.row_in_shard < s->rows && s->first_row + place.row_in_shard == row);
        LK_CHECK(place.bytes >= 1 && place.bytes <= LK_ROW_BYTES_MAX && place.offset >= end);
        LK_CHECK(place.offset <= s->data_bytes && place.bytes <= s->data_bytes - place.offset);
        end = place.offset + place.bytes + 1;
        shard = place.shard;
    }
}

static void check_names(const struct lk_index *index)
{
    for (uint32_t i = 0; i < index->shards; i++) {
        char *around = lk_format("/%s/", index->shard[i].name);
        LK_CHECK(index->shard[i].codec < LK_CODECS);
        LK_CHECK(strstr(around, "/../") == NULL && strstr(around, "//") == NULL);
        free(around);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct lk_fuzz_input input = {data, n};
    struct lk_index index = {0};
    struct lk_err err = {0};
    bool repaired = lk_fuzz_byte(&input) % 2 != 0;
    struct lk_buf bytes = {.data = lk_fuzz_copy(input.at, input.left), .len = input.left, .cap = input.left};

    if (repaired && input.left >= LK_INDEX_HEADER_BYTES + LK_INDEX_TRAILER_BYTES)
        repair(bytes.data, bytes.len);
    enum lk_code code = lk_index_of_bytes("i", &bytes, &index, &err);
    LK_CHECK(bytes.data == NULL);
    if (code != LK_OK) {
        LK_CHECK(code == LK_DATA_LOSS || code == LK_FAILED_PRECONDITION);
        LK_CHECK(strncmp(err.text, "i: ", 3) == 0);
        return 0;
    }
    check_rows(&index);
    check_names(&index);
    lk_index_close(&index);
    return 0;
}
