#include "proto/board.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static enum lk_code map(struct lk_board *board, int protection, struct lk_err *err)
{
    void *at = mmap(NULL, board->part_bytes * LK_BOARD_PARTS, protection, MAP_SHARED, board->fd, 0);
    if (at == MAP_FAILED)
        return lk_fail(err, LK_RESOURCE_EXHAUSTED, "cannot map %zu bytes for results: %s",
                       board->part_bytes * LK_BOARD_PARTS, strerror(errno));
    board->map = at;
    return LK_OK;
}

enum lk_code lk_board_make(size_t part_bytes, struct lk_board *ret_board, struct lk_err *err)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct lk_board board = {.part_bytes = (part_bytes + page - 1) / page * page};
    board.fd = memfd_create("lanekeeper-results", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    enum lk_code code = LK_OK;
    if (board.fd < 0 || ftruncate(board.fd, (off_t)(board.part_bytes * LK_BOARD_PARTS)) != 0 ||
        fcntl(board.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        code = lk_fail(err, LK_RESOURCE_EXHAUSTED, "cannot make memory for results: %s",
                       strerror(errno));
    if (code == LK_OK)
        code = map(&board, PROT_READ, err);
    if (code == LK_OK)
        *ret_board = board;
    else
        lk_board_close(&board);
    return code;
}

enum lk_code lk_board_open(int fd, struct lk_board *ret_board, struct lk_err *err)
{
    struct lk_board board = {.fd = fd};
    struct stat status;
    enum lk_code code = LK_OK;
    off_t pages = (off_t)sysconf(_SC_PAGESIZE) * LK_BOARD_PARTS; /* parts begin with a page */
    if (fstat(fd, &status) != 0 || status.st_size <= 0 || status.st_size % pages != 0)
        code = lk_fail(err, LK_INVALID_ARGUMENT, "descriptor %d is no memory for results", fd);
    if (code == LK_OK) {
        board.part_bytes = (size_t)status.st_size / LK_BOARD_PARTS;
        code = map(&board, PROT_READ | PROT_WRITE, err);
    }
    if (code == LK_OK)
        *ret_board = board;
    else
        lk_board_close(&board);
    return code;
}

void lk_board_close(struct lk_board *board)
{
    if (board->map != NULL)
        (void)munmap(board->map, board->part_bytes * LK_BOARD_PARTS);
    if (board->fd >= 0)
        (void)close(board->fd);
    *board = (struct lk_board){.fd = -1};
}

uint8_t *lk_board_part(const struct lk_board *board, uint32_t part)
{
    LK_CHECK(part < LK_BOARD_PARTS);
    return board->map + board->part_bytes * part;
}

void lk_board_trim(const struct lk_board *board, uint32_t part, size_t keep)
{
    LK_CHECK(part < LK_BOARD_PARTS && keep <= board->part_bytes);
    off_t from = (off_t)(board->part_bytes * part + keep);
    /* Where the kernel cannot, the memory stays until the worker ends. */
    (void)fallocate(board->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from,
                    (off_t)(board->part_bytes - keep));
}
