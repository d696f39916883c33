/*
 * For json_oracle.py: reads lines "PATH HEX" (a field and a row, "-" for an empty row) and writes for
 * each what op/fields makes of it: "bad", "none", or the type's number and the value in hexadecimal.
 */
#include "base/mem.h"
#include "op/fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int digit(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

static void answer(const char *path, const char *hex)
{
    size_t n = strcmp(hex, "-") == 0 ? 0 : strlen(hex) / 2;
    uint8_t *row = lk_alloc(n); /* of its exact size, so that a sanitizer sees a byte too many */
    struct lk_row_reader *reader = lk_row_reader_new(&path, 1);

    for (size_t i = 0; i < n; i++)
        row[i] = (uint8_t)(digit(hex[2 * i]) << 4 | digit(hex[2 * i + 1]));
    if (lk_row_read(reader, row, n, NULL) != LK_OK) {
        (void)puts("bad");
    } else if (!lk_row_field(reader, 0)->found) {
        (void)puts("none");
    } else {
        const struct lk_row_field *field = lk_row_field(reader, 0);
        printf("%d ", (int)field->type);
        for (size_t i = 0; i < field->n; i++)
            printf("%02x", field->bytes[i]);
        (void)puts("");
    }
    lk_row_reader_free(reader);
    free(row);
}

int main(void)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    while ((n = getline(&line, &cap, stdin)) > 0) {
        line[strcspn(line, "\n")] = '\0';
        char *space = strchr(line, ' ');
        if (space == NULL)
            return 1;
        *space = '\0';
        answer(line, space + 1);
    }
    free(line);
    return 0;
}
