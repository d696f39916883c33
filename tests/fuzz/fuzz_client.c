/*
 * The client, talked to by a daemon that may say anything: whole conversations (hello, hand-over of
 * descriptors, batches inline and shared, digests, traces, status), and the framing below them. Whatever
 * comes, calls end in time with a code and a text, and a batch that is handed out can be read as a whole.
 *
 * The link and its clock are replaced here, so that waiting takes no time; the hand-over is the real one.
 *
 * Input: a byte for the mode; 3: framing, the rest are the bytes of a connection, else a conversation: see
 * `talk` and `answer_next`.
 */
#include "client/c/lanekeeper.h"
#include "client/c/link.h"
#include "client/c/memory.h"
#include "client/c/wire.h"
#include "proto/batch.h"
#include "proto/handover.h"
#include "proto/lanekeeper.pb-c.h"
#include "base/bytes.h"
#include "base/digest.h"
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SENT_MAX 128u
#define REGION_BYTES 16384u
#define TURNS_MAX 20000 /* of one input: more is a loop without end */

/* ---- the daemon's side of the hand-over: a thread that says what it was told ---- */

/* What it says. */
struct plan {
    uint8_t text[8 + 8 * 8];
    size_t bytes, cut; /* of the text; sent in two pieces */
    int fds[8];
    uint32_t n_fds;
};

struct handing {
    char dir[64], path[80];
    int listener;
    int kind[4];       /* descriptors of each kind: sealed, unsealed, sealed and small, no memory at all */
    uint8_t *region;   /* of the first kind */
    pthread_t thread;
    pthread_mutex_t mutex; /* guards the plan */
    struct plan plan;
};

static struct handing handing = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static int memory_of(size_t bytes, bool sealed)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    LK_CHECK(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
    if (sealed)
        LK_CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
    return fd;
}

static void hand_over(int fd, const uint8_t *bytes, size_t n, const int *fds, uint32_t n_fds)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * 8)];
    } control;
    struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = n};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};

    if (n_fds > 0) {
        memset(&control, 0, sizeof control);
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
        struct cmsghdr *c = CMSG_FIRSTHDR(&message);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
    }
    if (n > 0)
        (void)sendmsg(fd, &message, MSG_NOSIGNAL);
}

static void *hand_over_all(void *arg)
{
    static int kept = -1; /* until the next: its end would end the client's leases */
    uint8_t hello[LK_HANDOVER_MESSAGE_BYTES];

    for (;;) {
        int fd = accept4(handing.listener, NULL, NULL, SOCK_CLOEXEC);
        if (kept >= 0)
            (void)close(kept);
        kept = fd;
        if (fd < 0 || recv(fd, hello, sizeof hello, MSG_WAITALL) != (ssize_t)sizeof hello)
            continue;
        (void)pthread_mutex_lock(&handing.mutex);
        struct plan plan = handing.plan;
        (void)pthread_mutex_unlock(&handing.mutex);
        uint32_t first = plan.cut < plan.bytes && plan.n_fds > 0 ? plan.n_fds / 2 : plan.n_fds;
        hand_over(fd, plan.text, plan.cut, plan.fds, first);
        hand_over(fd, plan.text + plan.cut, plan.bytes - plan.cut, plan.fds + first, plan.n_fds - first);
        (void)shutdown(fd, SHUT_WR);
    }
    return arg;
}

static void hand_over_end(void)
{
    (void)unlink(handing.path);
    (void)rmdir(handing.dir);
}

static void hand_over_begin(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};

    if (handing.dir[0] != '\0')
        return;
    (void)snprintf(handing.dir, sizeof handing.dir, "/tmp/lk-fuzz-XXXXXX");
    LK_CHECK(mkdtemp(handing.dir) != NULL);
    (void)snprintf(handing.path, sizeof handing.path, "%s/m", handing.dir);
    memcpy(at.sun_path, handing.path, strlen(handing.path) + 1);
    handing.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    LK_CHECK(bind(handing.listener, (const struct sockaddr *)&at, sizeof at) == 0);
    LK_CHECK(listen(handing.listener, 64) == 0 && atexit(hand_over_end) == 0);
    handing.kind[0] = memory_of(REGION_BYTES, true);
    handing.kind[1] = memory_of(REGION_BYTES, false);
    handing.kind[2] = memory_of(100, true);
    handing.kind[3] = open("/dev/null", O_RDWR | O_CLOEXEC);
    handing.region = mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, handing.kind[0], 0);
    LK_CHECK(handing.region != MAP_FAILED);
    LK_CHECK(pthread_create(&handing.thread, NULL, hand_over_all, NULL) == 0);
}

/* What the next hand-over says: how many descriptors of which kind, how many it claims, their sizes. */
static void hand_over_plan(struct lk_fuzz_input *input)
{
    uint8_t how = lk_fuzz_byte(input);
    uint32_t claimed = 1;
    struct plan plan = {.n_fds = 0};

    plan.n_fds = how % 8 == 0 ? 1 : how % 8 - 1;
    plan.fds[0] = handing.kind[0];
    for (uint32_t i = 0; i < plan.n_fds && how % 8 != 0; i++)
        plan.fds[i] = handing.kind[lk_fuzz_byte(input) % 4];
    if (how % 8 != 0)
        claimed = how & 8 ? lk_fuzz_byte(input) * 0x1010101u : plan.n_fds;
    memcpy(plan.text, how & 16 ? "LKH2" : LK_HANDOVER_MAGIC, 4);
    lk_put_u32(plan.text + 4, claimed);
    for (uint32_t i = 0; i < 8; i++) {
        uint64_t size = how & 32 ? (uint64_t)lk_fuzz_byte(input) << lk_fuzz_byte(input) % 64 : REGION_BYTES;
        lk_put_u64(plan.text + 8 + 8 * (size_t)i, size);
    }
    plan.bytes = 8 + 8 * (size_t)(claimed < 8 ? claimed : 8);
    if (how & 64)
        plan.bytes = lk_fuzz_byte(input) % (plan.bytes + 1);
    plan.cut = how & 128 ? lk_fuzz_byte(input) % (plan.bytes + 1) : plan.bytes;
    (void)pthread_mutex_lock(&handing.mutex);
    handing.plan = plan;
    (void)pthread_mutex_unlock(&handing.mutex);
}

/* ---- the link ---- */

struct link {
    struct lk_fuzz_input input;
    uint64_t connection;
    int64_t now_ms;
    int turns;
    struct lk_envelope sent[SENT_MAX];
    uint64_t step[SENT_MAX];
    uint32_t n_sent, batches;
    struct lk_buf body;
    bool shares;
};

static struct link link_now;

static void no_loop(struct link *link)
{
    LK_CHECK(++link->turns < TURNS_MAX);
}

enum lanekeeper_code lkc_link_open(const char *address, struct link **ret_link)
{
    (void)address;
    *ret_link = &link_now;
    return LANEKEEPER_OK;
}

void lkc_link_close(struct link *link)
{
    (void)link;
}

void lkc_link_last(struct link *link)
{
    (void)link;
}

uint64_t lkc_link_connection(const struct link *link)
{
    return link->connection;
}

const char *lkc_link_why(const struct link *link)
{
    (void)link;
    return "why not";
}

void lkc_link_turn(struct link *link)
{
    no_loop(link);
    if (link->connection == 0)
        link->connection = 1;
}

void lkc_link_flush(struct link *link)
{
    (void)link;
}

void lkc_link_break(struct link *link)
{
    link->connection++;
    link->n_sent = 0;
}

int64_t lkc_link_now_ms(void)
{
    return link_now.now_ms;
}

int64_t lkc_link_quiet_since(const struct link *link)
{
    return link->now_ms > 1000 ? link->now_ms - 1000 : 0;
}

bool lkc_link_wait(struct link *link, int fd, int64_t until_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    no_loop(link);
    if (link->input.left == 0 || link->n_sent == 0)
        link->now_ms = until_ms > link->now_ms ? until_ms : link->now_ms + 1;
    return fd >= 0 && poll(&p, 1, 0) > 0;
}

bool lkc_link_send(struct link *link, const struct lk_envelope *envelope, const ProtobufCMessage *header)
{
    if (link->n_sent == SENT_MAX)
        return false;
    link->step[link->n_sent] = envelope->method == LK_METHOD_GET_BATCH
                                   ? ((const Lk__GetBatchRequest *)(const void *)header)->step
                                   : 0;
    if (envelope->method == LK_METHOD_DIGEST) {
        const Lk__DigestRequest *digest = (const Lk__DigestRequest *)(const void *)header;
        link->step[link->n_sent] = digest->to - digest->from;
    }
    link->sent[link->n_sent++] = *envelope;
    return true;
}

/* ---- answers ---- */

#define ROWS 2u
#define T 6u

static uint64_t number(struct lk_fuzz_input *input)
{
    static const uint64_t odd[] = {0, 1, 2, 63, 64, UINT32_MAX, (uint64_t)UINT32_MAX + 1, INT64_MAX,
                                   UINT64_MAX, UINT64_MAX - 63, REGION_BYTES, REGION_BYTES - 64};
    uint8_t how = lk_fuzz_byte(input);
    return how < 128 ? how : how < 192 ? odd[how % 12] : (uint64_t)lk_fuzz_byte(input) << how % 57;
}

/* Rows of a step, as a block of their own; then some numbers of its head, rows and parts are others. */
static size_t put_block(struct lk_fuzz_input *input, uint64_t step, uint32_t rows, uint8_t *to)
{
    struct lk_batch_head head = {.magic = LK_BATCH_MAGIC, .rows = rows, .tokens = T, .step = step,
                                 .n_parts = 2 * (uint64_t)rows};
    struct lk_batch_row row[ROWS];
    struct lk_batch_part part[2 * ROWS];

    head.tokens_at = (sizeof head + rows * sizeof *row + 63) / 64 * 64;
    head.parts_at = head.tokens_at + 4 * (uint64_t)rows * T;
    head.bytes = head.parts_at + head.n_parts * sizeof *part;
    for (uint32_t r = 0; r < rows; r++) {
        row[r] = (struct lk_batch_row){.first_part = 2 * r, .n_parts = 2, .used = T - 1};
        part[2 * r] = (struct lk_batch_part){.row = r, .tokens = 2};
        part[2 * r + 1] = (struct lk_batch_part){.row = step, .dataset = 1, .first = 3, .tokens = T - 3};
    }
    size_t bytes = head.bytes;
    memset(to, 0, bytes);
    memcpy(to, &head, sizeof head);
    memcpy(to + sizeof head, row, rows * sizeof *row);
    memcpy(to + head.parts_at, part, 2 * rows * sizeof *part);
    for (uint32_t i = 0; i < rows * T; i++)
        lk_put_u32(to + head.tokens_at + 4 * (size_t)i, i * 7000);
    for (uint8_t changes = lk_fuzz_byte(input) % 4; changes > 0; changes--) {
        size_t words = bytes / 4, at = lk_fuzz_byte(input) % words;
        lk_put_u32(to + 4 * at, (uint32_t)number(input));
    }
    return bytes;
}

static void batch_field(struct lk_fuzz_input *input, Lk__GetBatchReply *r)
{
    uint8_t which = lk_fuzz_byte(input);
    uint64_t v = number(input);
    uint32_t *narrow[] = {&r->first_row, &r->rows, &r->global_rows, &r->sequence, &r->region, &r->training};
    uint64_t *wide[] = {&r->step, &r->offset, &r->bytes, &r->lease, &r->training_offset, &r->training_bytes};

    if (which % 14 < 6)
        *narrow[which % 14] = (uint32_t)v;
    else if (which % 14 < 12)
        *wide[which % 14 - 6] = v;
    else if (which % 14 == 12)
        r->shared = v & 1;
    else
        r->digest.len = v % 17;
}

static size_t put_batch(struct link *link, uint64_t step, ProtobufCMessage *message, uint8_t *payload)
{
    static uint8_t digest[16];
    Lk__GetBatchReply *r = (Lk__GetBatchReply *)(void *)message;
    uint32_t offset = 64 + 512 * (link->batches++ % 31); /* what a trainer may hold is left alone */
    size_t bytes = put_block(&link->input, step, ROWS, link->shares ? handing.region + offset : payload);

    lk__get_batch_reply__init(r);
    r->step = step;
    r->rows = r->global_rows = ROWS;
    r->sequence = T;
    r->digest = (ProtobufCBinaryData){.data = digest, .len = 16};
    r->shared = link->shares;
    r->offset = offset;
    r->bytes = bytes;
    r->lease = 77;
    for (uint8_t changes = lk_fuzz_byte(&link->input) % 4; changes > 0; changes--)
        batch_field(&link->input, r);
    return link->shares ? 0 : bytes;
}

static void boot_id(char id[64])
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file == NULL || fgets(id, 64, file) == NULL)
        id[0] = '\0';
    if (file != NULL)
        (void)fclose(file);
}

static void put_hello(struct link *link, Lk__HelloReply *reply)
{
    static char host[64], *datasets[] = {(char *)"a", (char *)"b"};
    static uint8_t digest[17];
    static Lk__BatchPhase phase[2], *phases[] = {&phase[0], &phase[1]};
    static Lk__StreamInfo info[2], *infos[] = {&info[0], &info[1]};
    uint8_t how = lk_fuzz_byte(&link->input);

    if (host[0] == '\0')
        boot_id(host);
    lk__hello_reply__init(reply);
    reply->protocol = how % 16 == 15 ? 2 : 1;
    reply->handover = handing.path;
    reply->host = host;
    reply->n_streams = how & 16 ? 2 : 1;
    reply->streams = infos;
    for (int i = 0; i < 2; i++) {
        lk__stream_info__init(&info[i]);
        info[i].name = (char *)(i == 0 ? "s" : "t");
        info[i].stream_digest = info[i].order_digest =
            (ProtobufCBinaryData){.data = digest, .len = how & 32 ? lk_fuzz_byte(&link->input) % 18 : 16};
        info[i].sequence = how & 64 ? (uint32_t)number(&link->input) : T;
        info[i].n_datasets = 2;
        info[i].datasets = datasets;
        info[i].n_batch = 2;
        info[i].batch = phases;
        lk__batch_phase__init(&phase[i]);
        phase[i].from = how & 128 ? number(&link->input) : (uint64_t)i * 3;
        phase[i].size = how & 128 ? (uint32_t)number(&link->input) : ROWS;
    }
}

/* The right answer to @method, but for what the input changes. @ret_payload has room for a block. */
static size_t put_answer(struct link *link, uint16_t method, uint64_t step, struct lk_buf *header, uint8_t *payload)
{
    static uint8_t digest[16];
    static Lk__TracePart part[2], *parts[] = {&part[0], &part[1]};
    ProtobufCBinaryData steps[8];
    union {
        ProtobufCMessage base;
        Lk__GetBatchReply batch;
        Lk__HelloReply hello;
        Lk__DigestReply digest;
        Lk__TraceReply trace;
        Lk__StatusReply status;
    } reply;
    size_t bytes = 0;

    switch (method) {
    case LK_METHOD_GET_BATCH:
        bytes = put_batch(link, step, &reply.base, payload);
        break;
    case LK_METHOD_HELLO:
        put_hello(link, &reply.hello);
        break;
    case LK_METHOD_DIGEST:
        lk__digest_reply__init(&reply.digest);
        for (int i = 0; i < 8; i++)
            steps[i] = (ProtobufCBinaryData){.data = digest, .len = 16};
        reply.digest.n_steps = step % 9;
        reply.digest.steps = steps;
        break;
    case LK_METHOD_TRACE:
        lk__trace_reply__init(&reply.trace);
        lk__trace_part__init(&part[0]);
        lk__trace_part__init(&part[1]);
        reply.trace.n_parts = 2;
        reply.trace.parts = parts;
        break;
    default:
        lk__status_reply__init(&reply.status);
    }
    size_t n = protobuf_c_message_get_packed_size(&reply.base);
    header->len += protobuf_c_message_pack(&reply.base, lk_buf_room(header, n + 1));
    return bytes;
}

static void change_bytes(struct lk_fuzz_input *input, struct lk_buf *buf, unsigned changes)
{
    for (; changes > 0 && buf->len > 0; changes--) {
        size_t at = lk_fuzz_byte(input) % buf->len;
        buf->data[at] = lk_fuzz_byte(input);
    }
}

static void take_raw(struct lk_fuzz_input *input, struct lk_buf *out)
{
    size_t n = lk_fuzz_byte(input);
    n = n < input->left ? n : input->left;
    lk_buf_put(out, input->at, n);
    input->at += n;
    input->left -= n;
}

/* Makes the body of the answer to @e. @how: 0… right but for changed bytes, 4 any header, 5 an error, 6 any body. */
static void put_body(struct link *link, struct lk_envelope e, uint64_t step, uint8_t how)
{
    struct lk_fuzz_input *input = &link->input;
    struct lk_buf header = {0};
    uint8_t payload[1024];
    size_t bytes = 0;

    e.deadline_ms = 0;
    e.status = how % 8 == 5 ? lk_fuzz_byte(input) % 20 : 0;
    if (how % 8 < 4)
        bytes = put_answer(link, e.method, step, &header, payload);
    else
        take_raw(input, &header);
    change_bytes(input, &header, how % 8 == 3 ? how / 8 % 4 : 0);
    link->body.len = 0;
    if (how % 8 == 6) {
        lk_buf_put(&link->body, header.data, header.len);
    } else {
        e.header_bytes = (uint32_t)header.len;
        e.payload_bytes = bytes;
        lk_envelope_put(&e, lk_buf_room(&link->body, LK_ENVELOPE_BYTES));
        link->body.len = LK_ENVELOPE_BYTES;
        lk_buf_put(&link->body, header.data, header.len);
        lk_buf_put(&link->body, payload, bytes);
        change_bytes(input, &link->body, how % 8 == 2 ? how / 8 % 4 : 0);
    }
    lk_buf_done(&header);
}

/* The next answer, to any of the requests that wait; NULL: none now. */
const uint8_t *lkc_link_take(struct link *link, size_t *ret_bytes)
{
    static uint8_t *exact;
    uint8_t how = 0;

    free(exact);
    exact = NULL;
    if (link->n_sent == 0)
        return NULL;
    uint32_t i = 0;
    if (link->input.left > 0)
        how = lk_fuzz_byte(&link->input);
    else if (link->sent[link->n_sent - 1].method == LK_METHOD_GOODBYE)
        i = link->n_sent - 1;
    else
        return NULL;
    if (how % 8 == 7 && how > 127) {
        lkc_link_break(link);
        return NULL;
    }
    if (how % 8 == 7)
        i = lk_fuzz_byte(&link->input) % link->n_sent;
    struct lk_envelope e = link->sent[i];
    put_body(link, e, link->step[i], how % 8 == 7 ? 0 : how);
    link->n_sent--;
    memmove(&link->sent[i], &link->sent[i + 1], (link->n_sent - i) * sizeof *link->sent);
    memmove(&link->step[i], &link->step[i + 1], (link->n_sent - i) * sizeof *link->step);
    exact = lk_fuzz_copy(link->body.data, link->body.len);
    *ret_bytes = link->body.len;
    return exact;
}

/* ---- the trainer ---- */

static volatile uint64_t sum;

/* Reads every byte of it. */
static void read_batch(const struct lanekeeper_batch *batch)
{
    uint64_t all = 0;

    LK_CHECK(batch->sequence == 0 || batch->rows <= REGION_BYTES);
    for (size_t i = 0; i < (size_t)batch->rows * batch->sequence; i++)
        all += batch->tokens[i];
    for (uint32_t r = 0; r < batch->rows; r++) {
        uint64_t tokens = 0;
        LK_CHECK(batch->row[r].used <= batch->sequence);
        for (uint32_t k = 0; k < batch->row[r].n_parts; k++) {
            const struct lanekeeper_part *part = &batch->part[batch->row[r].first_part + k];
            tokens += part->tokens;
            all += part->row + part->epoch + part->first + part->dataset;
        }
        LK_CHECK(tokens == batch->row[r].used);
    }
    sum += all;
}

static void train(struct lk_fuzz_input *choice, const struct lanekeeper_batch *batch)
{
    struct lanekeeper_training_options o;
    struct lanekeeper_training training;
    struct lanekeeper_error error;
    uint8_t how = lk_fuzz_byte(choice);

    lanekeeper_training_options_init(&o);
    o.dtype = how & 1 ? LANEKEEPER_I32 : LANEKEEPER_I64;
    o.labels = (enum lanekeeper_labels)(how / 2 % 3);
    o.positions = (enum lanekeeper_positions)(how / 8 % 4);
    o.cu_seqlens = (enum lanekeeper_cu_seqlens)(how / 32 % 3);
    if (lanekeeper_training(batch, &o, &training, &error) != LANEKEEPER_OK)
        return;
    const uint8_t *arrays[] = {training.input_ids, training.labels, training.positions, training.document_ids};
    size_t n = (size_t)training.rows * training.sequence * (o.dtype == LANEKEEPER_I64 ? 8 : 4);
    for (int i = 0; i < 4; i++)
        for (size_t k = 0; arrays[i] != NULL && k < n; k += 4)
            sum += arrays[i][k];
    uint64_t borders = training.n_cu_seqlens; /* … of each row: of none, where a rank has no rows */
    if (o.cu_seqlens == LANEKEEPER_CU_SEQLENS_ROWS)
        borders *= training.rows;
    for (uint64_t i = 0; training.cu_seqlens != NULL && i < borders; i++)
        sum += (uint64_t)training.cu_seqlens[i];
    lanekeeper_training_done(&training);
}

static void use_batch(struct lk_fuzz_input *choice, struct lanekeeper_batch *batch, enum lanekeeper_code code)
{
    if (code != LANEKEEPER_OK) {
        LK_CHECK(batch->owner == NULL);
        lanekeeper_release(batch);
        return;
    }
    read_batch(batch);
    size_t n = (size_t)batch->rows * batch->sequence;
    uint16_t *narrow = lk_alloc(2 * n);
    (void)lanekeeper_copy_tokens(batch, LANEKEEPER_U16, narrow, 2 * n);
    free(narrow);
    train(choice, batch);
    lanekeeper_release(batch);
}

static void do_one(struct lanekeeper *lk, struct lk_fuzz_input *choice)
{
    struct lanekeeper_batch batch;
    struct lanekeeper_trace trace;
    struct lanekeeper_info info;
    uint8_t digests[16 * 8];
    char *json;

    switch (lk_fuzz_byte(choice) % 8) {
    case 0:
    case 1:
    case 2:
        use_batch(choice, &batch, lanekeeper_next(lk, &batch));
        break;
    case 3:
        use_batch(choice, &batch, lanekeeper_get(lk, lk_fuzz_byte(choice), &batch));
        break;
    case 4:
        (void)lanekeeper_digest(lk, 0, lk_fuzz_byte(choice) % 9, digests);
        break;
    case 5:
        if (lanekeeper_trace(lk, 1, 0, 2, &trace) == LANEKEEPER_OK) {
            for (size_t i = 0; i < trace.n; i++)
                sum += strlen(trace.part[i].dataset) + strlen(trace.part[i].shard);
            lanekeeper_trace_done(&trace);
        }
        break;
    case 6:
        if (lanekeeper_status(lk, &json) == LANEKEEPER_OK)
            lanekeeper_free(json);
        break;
    default:
        (void)lanekeeper_info(lk, &info);
        sum += lanekeeper_sequences(lk, UINT64_MAX);
        for (uint32_t i = 0; i < info.datasets; i++)
            sum += strlen(lanekeeper_dataset(lk, i));
    }
}

/* Sharing, look-ahead, stream, state; the hand-over; eight choices of what is called; then answers. */
static void talk(struct lk_fuzz_input input)
{
    struct lanekeeper_options options;
    struct lanekeeper_error error = {.text = ""};
    struct lanekeeper *lk;
    uint8_t how = lk_fuzz_byte(&input), chosen[12], state[40];

    hand_over_begin();
    lanekeeper_options_init(&options);
    options.address = "ipc:///nowhere";
    options.sharing = (enum lanekeeper_sharing)(how % 3);
    options.lookahead = how / 3 % 4;
    options.stream = how & 128 ? "s" : "";
    options.timeout_ms = 3000;
    if (how & 64) { /* a checkpoint's state, right or wrong */
        for (size_t i = 0; i < sizeof state; i++)
            state[i] = lk_fuzz_byte(&input);
        if (state[39] & 1)
            lk_put_u64(state + 32, lk_hash64(state, 32, 0));
        options.state = state;
        options.state_bytes = sizeof state;
    }
    hand_over_plan(&input);
    for (size_t i = 0; i < sizeof chosen; i++)
        chosen[i] = lk_fuzz_byte(&input);
    link_now = (struct link){.input = input, .now_ms = 1000, .shares = how % 3 != 1};
    if (lanekeeper_connect(&options, &lk, &error) == LANEKEEPER_OK) {
        struct lk_fuzz_input choice = {chosen, sizeof chosen};
        while (choice.left > 0)
            do_one(lk, &choice);
        lanekeeper_close(lk);
    } else {
        LK_CHECK(error.text[0] != '\0');
    }
    lk_buf_done(&link_now.body);
}

/* ---- framing ---- */

static size_t take_all(struct lkc_wire *wire, bool *greeted)
{
    enum lkc_wire_step step = LKC_WIRE_READY;
    const uint8_t *body;
    size_t bytes, n = 0;

    if (!*greeted)
        step = lkc_wire_greeted(wire);
    *greeted = *greeted || step == LKC_WIRE_READY;
    while (*greeted && (step = lkc_wire_take(wire, &body, &bytes)) == LKC_WIRE_READY) {
        struct lk_envelope e;
        for (size_t i = 0; i < bytes; i++)
            sum += body[i];
        sum += lk_envelope_get(body, bytes, &e);
        n++;
    }
    return step == LKC_WIRE_GARBAGE ? SIZE_MAX : n;
}

/* The messages of @data, in pieces of @piece; SIZE_MAX: it is garbage. */
static size_t frames(const uint8_t *data, size_t n, size_t piece, bool tagged)
{
    struct lkc_wire wire = {.tagged = tagged};
    bool greeted = false;
    size_t all = 0, got = 0;

    LK_CHECK(lkc_wire_start(&wire));
    for (size_t at = 0; at < n && got != SIZE_MAX;) {
        size_t room, take = piece < n - at ? piece : n - at;
        uint8_t *to = lkc_wire_room(&wire, &room);
        LK_CHECK(to != NULL && room > 0);
        take = take < room ? take : room;
        memcpy(to, data + at, take);
        lkc_wire_came(&wire, take);
        at += take;
        LK_CHECK(wire.in.cap <= (4u << 20) + 8 * n); /* grows with what came, not with what is announced */
        got = take_all(&wire, &greeted);
        all += got == SIZE_MAX ? 0 : got;
    }
    lkc_wire_done(&wire);
    return got == SIZE_MAX ? SIZE_MAX : all;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct lk_fuzz_input input = {data, n};
    uint8_t mode = lk_fuzz_byte(&input);

    if (mode % 4 == 3) {
        bool tagged = mode & 4;
        size_t piece = 1 + mode / 8;
        LK_CHECK(frames(input.at, input.left, 1 << 20, tagged) == frames(input.at, input.left, piece, tagged));
    } else {
        talk(input);
    }
    return 0;
}
