#include "client/cli/input.h"

#include "base/dataset_files.h"
#include "store/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *input_name(const struct input *input)
{
    return strcmp(input->path, "-") == 0 ? "standard input" : input->path;
}

enum lk_code input_open(struct input *input, const char *path, bool decode, struct lk_err *err)
{
    enum lk_codec codec = LK_CODEC_PLAIN;
    size_t stem;
    *input = (struct input){.path = path, .fd = -1};
    if (decode && lk_codec_of_name(path, &codec, &stem) && codec != LK_CODEC_PLAIN) {
        LK_TRY(lk_file_open(path, &input->source, err));
        input->decoder = lk_decoder_new(input->source, codec);
        return LK_OK;
    }
    input->fd = strcmp(path, "-") == 0 ? STDIN_FILENO : TEMP_FAILURE_RETRY(open(path, O_RDONLY | O_CLOEXEC));
    return input->fd >= 0 ? LK_OK : lk_file_fail(err, errno, "cannot open", path);
}

void input_close(struct input *input)
{
    lk_decoder_free(input->decoder);
    lk_source_close(input->source);
    if (input->fd > STDIN_FILENO)
        (void)close(input->fd);
    *input = (struct input){.path = input->path, .fd = -1};
}

enum lk_code input_read(struct input *input, void *to, size_t n, size_t *ret_got, struct lk_err *err)
{
    if (input->decoder != NULL)
        return lk_decoder_read(input->decoder, to, n, ret_got, err);
    ssize_t got;
    do
        got = read(input->fd, to, n);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return lk_file_fail(err, errno, "cannot read", input_name(input));
    input->at += (uint64_t)got;
    *ret_got = (size_t)got;
    return LK_OK;
}

uint64_t input_at(const struct input *input)
{
    return input->decoder != NULL ? lk_decoder_at(input->decoder) : input->at;
}

bool input_is_many(const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0)
        return S_ISDIR(st.st_mode);
    return strpbrk(path, "*?[") != NULL;
}

uint64_t input_bytes(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
}
