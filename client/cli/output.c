#include "client/cli/output.h"

#include "base/json.h"
#include "base/utf8.h"
#include "config/scalar.h"
#include "store/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool output_flush(struct lk_buf *out)
{
    bool empty = out->len == 0; /* then there may be no data at all, which fwrite must not be given */
    bool written = (empty || fwrite(out->data, 1, out->len, stdout) == out->len) && fflush(stdout) == 0;
    out->len = 0;
    if (!written)
        (void)fputs("lanekeeper: cannot write to standard output\n", stderr);
    return written;
}

/* A device or a pipe is written to as it is: replacing it by a file is not what its name is given for. */
enum lk_code output_open(struct output *output, const char *path, struct lk_err *err)
{
    struct stat st;
    *output = (struct output){.path = path, .fd = -1};
    if (path == NULL) {
        output->fd = STDOUT_FILENO;
        return LK_OK;
    }
    if (stat(path, &st) != 0 || S_ISREG(st.st_mode))
        return lk_file_begin(path, &output->writing, err);
    output->fd = TEMP_FAILURE_RETRY(open(path, O_WRONLY | O_CLOEXEC));
    return output->fd >= 0 ? LK_OK : lk_file_fail(err, errno, "cannot write to", path);
}

static enum lk_code write_all(struct output *output, const uint8_t *p, size_t n, struct lk_err *err)
{
    while (n > 0) {
        ssize_t did = write(output->fd, p, n);
        if (did < 0 && errno == EINTR)
            continue;
        if (did < 0)
            return lk_file_fail(err, errno, "cannot write to",
                                output->path != NULL ? output->path : "standard output");
        p += did;
        n -= (size_t)did;
    }
    return LK_OK;
}

enum lk_code output_put(struct output *output, struct lk_buf *out, struct lk_err *err)
{
    size_t n = out->len;
    out->len = 0;
    return output->writing != NULL ? lk_file_put(output->writing, out->data, n, err)
                                   : write_all(output, out->data, n, err);
}

static enum lk_code close_output(struct output *output, bool good, struct lk_err *err)
{
    struct output last = *output;
    *output = (struct output){.fd = -1};
    if (last.writing != NULL && good)
        return lk_file_end(last.writing, err);
    lk_file_abandon(last.writing);
    if (last.path != NULL && last.fd >= 0 && close(last.fd) != 0 && good)
        return lk_file_fail(err, errno, "cannot write to", last.path);
    return LK_OK;
}

enum lk_code output_end(struct output *output, struct lk_buf *out, enum lk_code code, struct lk_err *err)
{
    struct lk_err more;
    enum lk_code written = output_put(output, out, &more);
    if (written == LK_OK)
        written = close_output(output, code == LK_OK, &more);
    else
        (void)close_output(output, false, NULL);
    if (code != LK_OK || written == LK_OK)
        return code;
    *err = more;
    return written;
}

void put_count(struct lk_buf *out, uint64_t n)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, n);
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            lk_buf_puts(out, ",");
        lk_buf_put(out, &digits[i], 1);
    }
}

void put_bytes(struct lk_buf *out, uint64_t bytes)
{
    lk_put_about(out, bytes);
}

void put_percent(struct lk_buf *out, uint64_t part, uint64_t whole)
{
    if (whole == 0)
        lk_buf_puts(out, "-");
    else
        lk_buf_putf(out, "%.2f %%", (double)part * 100.0 / (double)whole);
}

void put_hex(struct lk_buf *out, struct lk_digest digest)
{
    char hex[LK_DIGEST_HEX];
    lk_digest_hex(digest, hex);
    lk_buf_puts(out, hex);
}

/* Bytes of the UTF-8 sequence at @p that can be shown as it is; 0 when there is none. C1 controls are
 * left out: terminals act on them. */
static size_t shown(const uint8_t *p, size_t n)
{
    if (*p < 0x80)
        return *p >= ' ' || *p == '\n' || *p == '\t' ? *p != 0x7f : 0;
    bool valid;
    size_t length = lk_utf8_step(p, n, &valid);
    return valid && (*p != 0xc2 || p[1] >= 0xa0) ? length : 0;
}

void put_safe(struct lk_buf *out, const void *bytes, size_t n)
{
    const uint8_t *p = bytes, *end = p + n;
    while (p < end) {
        size_t length = shown(p, (size_t)(end - p));
        if (length > 0) {
            lk_buf_put(out, p, length);
            p += length;
        } else {
            lk_buf_putf(out, "\\x%02x", *p++);
        }
    }
}

void put_quoted(struct lk_buf *out, const void *bytes, size_t n)
{
    static const char plain[] = "\n\r\t\"\\", named[] = "nrt\"\\";
    const uint8_t *p = bytes, *end = p + n;
    lk_buf_puts(out, "\"");
    while (p < end) {
        const uint8_t *next = p;
        while (next < end && memchr(plain, *next, sizeof plain - 1) == NULL)
            next++;
        put_safe(out, p, (size_t)(next - p));
        p = next;
        if (p < end) {
            const char *which = memchr(plain, *p++, sizeof plain - 1);
            lk_buf_putf(out, "\\%c", named[which - plain]);
        }
    }
    lk_buf_puts(out, "\"");
}

void json_key(struct lk_buf *out, bool more, const char *key)
{
    lk_buf_putf(out, "%s\"%s\":", more ? "," : "", key);
}

void json_text(struct lk_buf *out, bool more, const char *key, const char *text)
{
    json_key(out, more, key);
    lk_json_quote(out, text, strlen(text));
}

void json_u64(struct lk_buf *out, bool more, const char *key, uint64_t value)
{
    json_key(out, more, key);
    lk_buf_putf(out, "%" PRIu64, value);
}

void json_bool(struct lk_buf *out, bool more, const char *key, bool value)
{
    json_key(out, more, key);
    lk_buf_puts(out, value ? "true" : "false");
}

void json_digest(struct lk_buf *out, bool more, const char *key, struct lk_digest digest)
{
    json_key(out, more, key);
    lk_buf_puts(out, "\"");
    put_hex(out, digest);
    lk_buf_puts(out, "\"");
}
