#include "worker/streams.h"

#include "base/digest.h"
#include "op/tokenise/open.h"
#include "store/file.h"

#include <stdlib.h>
#include <string.h>

struct chain {
    const char *text; /* the field that this chain measures */
    struct lk_measure *measure;
};

/* A tokenizer and its encoder, whose cache of pieces is most of a worker's memory: both are shared by all
 * chains of all streams that tokenise alike. */
struct coder {
    struct lk_tokenizer *tokenizer;
    struct lk_encoder *encoder; /* made when first used */
};

struct stream {
    const Lk__WorkerStream *wire;
    struct coder *coder; /* its own, or that of an earlier stream */
    struct coder own;
    struct lk_measure_filter *filter;
    struct chain *chain; /* [n_chains] made when first used */
    uint32_t n_chains;
};

struct streams {
    Lk__WorkerHelloReply *hello;
    struct stream *stream; /* [hello->n_streams] */
};

/* protobuf-c gives "" for a string that was not sent. */
static bool is_set(const char *text)
{
    return text != NULL && text[0] != '\0';
}

static enum lk_code load_tokenizer(const Lk__WorkerStream *wire,
                                   struct lk_tokenizer **ret_tokenizer, struct lk_err *err)
{
    struct lk_tokenizer_paths paths = {
        .kind = (enum lk_tokenizer_kind)wire->tokenizer_kind,
        .special_in_text = (enum lk_special_in_text)wire->special_in_text,
        .main = wire->tokenizer_path,
        .merges = wire->tokenizer_merges,
        .scheme = wire->tokenizer_scheme,
    };
    return lk_tokenizer_open(&paths, lk_file_read_all, ret_tokenizer, err);
}

static enum lk_code check_digest(const Lk__WorkerStream *wire,
                                 const struct lk_tokenizer *tokenizer, struct lk_err *err)
{
    if (wire->tokenizer_digest.len != 16)
        return lk_fail(err, LK_INVALID_ARGUMENT, "a tokenizer digest of %zu bytes, expected 16",
                       wire->tokenizer_digest.len);
    struct lk_digest want = lk_digest_get(wire->tokenizer_digest.data);
    struct lk_digest have = lk_tokenizer_digest(tokenizer);
    if (lk_digest_equal(want, have))
        return LK_OK;
    char want_hex[LK_DIGEST_HEX], have_hex[LK_DIGEST_HEX];
    lk_digest_hex(want, want_hex);
    lk_digest_hex(have, have_hex);
    return lk_fail(err, LK_FAILED_PRECONDITION,
                   "tokenizer '%s' has digest %s here, %s at the daemon: it is another file",
                   wire->tokenizer_path, have_hex, want_hex);
}

/* The digest is of all that an id depends on: the files, and what special tokens in text are. */
static bool same_tokenizer(const Lk__WorkerStream *a, const Lk__WorkerStream *b)
{
    return a->tokenizer_digest.len == b->tokenizer_digest.len &&
           memcmp(a->tokenizer_digest.data, b->tokenizer_digest.data, b->tokenizer_digest.len) == 0;
}

static struct coder *coder_for(struct streams *streams, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (same_tokenizer(streams->hello->streams[k], streams->hello->streams[i]))
            return streams->stream[k].coder;
    return &streams->stream[i].own;
}

static struct lk_measure_filter *filters_of(const Lk__WorkerStream *wire)
{
    struct lk_measure_filter *filter = lk_zalloc(wire->n_filters + 1, sizeof *filter);
    for (size_t i = 0; i < wire->n_filters; i++) {
        const Lk__WorkerFilter *f = wire->filters[i];
        filter[i] = (struct lk_measure_filter){
            .min_bytes = f->min_bytes,
            .max_bytes = f->max_bytes,
            .min_tokens = f->min_tokens,
            .max_tokens = f->max_tokens,
            .field = is_set(f->field) ? f->field : NULL,
            .equals = f->has_equals ? f->equals : NULL,
        };
    }
    return filter;
}

static enum lk_code open_stream(struct streams *streams, size_t i, struct lk_err *err)
{
    struct stream *stream = &streams->stream[i];
    stream->wire = streams->hello->streams[i];
    stream->filter = filters_of(stream->wire);
    stream->chain = lk_zalloc(stream->wire->n_datasets + 1, sizeof *stream->chain);
    stream->coder = coder_for(streams, i);
    if (stream->coder != &stream->own)
        return LK_OK;
    LK_TRY(load_tokenizer(stream->wire, &stream->own.tokenizer, err));
    return check_digest(stream->wire, stream->own.tokenizer, err);
}

enum lk_code streams_open(Lk__WorkerHelloReply *hello, struct streams **ret_streams,
                          struct lk_err *err)
{
    struct streams *streams = lk_zalloc(1, sizeof *streams);
    streams->hello = hello;
    streams->stream = lk_zalloc(hello->n_streams + 1, sizeof *streams->stream);
    for (size_t i = 0; i < hello->n_streams; i++) {
        enum lk_code code = open_stream(streams, i, err);
        if (code != LK_OK) {
            code = lk_fail_in(err, "stream %s", hello->streams[i]->name);
            streams_close(streams);
            return code;
        }
    }
    *ret_streams = streams;
    return LK_OK;
}

void streams_close(struct streams *streams)
{
    if (streams == NULL)
        return;
    for (size_t i = 0; i < streams->hello->n_streams; i++) {
        struct stream *stream = &streams->stream[i];
        for (uint32_t c = 0; c < stream->n_chains; c++)
            lk_measure_free(stream->chain[c].measure);
        free(stream->chain);
        free(stream->filter);
    }
    for (size_t i = 0; i < streams->hello->n_streams; i++) {
        lk_encoder_free(streams->stream[i].own.encoder);
        lk_tokenizer_free(streams->stream[i].own.tokenizer);
    }
    lk__worker_hello_reply__free_unpacked(streams->hello, NULL);
    free(streams->stream);
    free(streams);
}

const Lk__WorkerHelloReply *streams_hello(const struct streams *streams)
{
    return streams->hello;
}

/* Datasets that differ only in where they lie share a chain. */
static struct lk_measure *chain_for(struct stream *stream, const char *text)
{
    for (uint32_t c = 0; c < stream->n_chains; c++)
        if (strcmp(stream->chain[c].text, text) == 0)
            return stream->chain[c].measure;
    struct coder *coder = stream->coder;
    if (coder->encoder == NULL)
        coder->encoder = lk_encoder_new(coder->tokenizer);
    struct lk_measure_spec spec = {
        .tokenizer = coder->tokenizer,
        .encoder = coder->encoder,
        .text = text,
        .has_append = stream->wire->has_append,
        .has_prepend = stream->wire->has_prepend,
        .append = stream->wire->append,
        .prepend = stream->wire->prepend,
        .drop_bad = stream->wire->drop_bad,
        .filter = stream->filter,
        .n_filters = (uint32_t)stream->wire->n_filters,
    };
    struct chain *chain = &stream->chain[stream->n_chains++];
    *chain = (struct chain){.text = text, .measure = lk_measure_new(&spec)};
    return chain->measure;
}

enum lk_code streams_find(struct streams *streams, uint32_t stream, uint32_t dataset,
                          const Lk__WorkerDataset **ret_dataset, struct lk_measure **ret_measure,
                          struct lk_err *err)
{
    if (stream >= streams->hello->n_streams ||
        dataset >= streams->hello->streams[stream]->n_datasets)
        return lk_fail(err, LK_INVALID_ARGUMENT, "no dataset %u in a stream %u", dataset, stream);
    const Lk__WorkerDataset *d = streams->hello->streams[stream]->datasets[dataset];
    *ret_dataset = d;
    *ret_measure = chain_for(&streams->stream[stream], d->text);
    return LK_OK;
}
