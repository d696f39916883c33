/* The reference of all keys, generated from the table. */
#include "config/config.h"
#include "config/keys.h"

#include <stdlib.h>
#include <string.h>

/* A "|" inside a cell would end it. */
static void put_cell(struct lk_buf *out, const char *text)
{
    lk_buf_puts(out, "| ");
    for (; *text != '\0'; text++) {
        if (*text == '|')
            lk_buf_puts(out, "\\");
        lk_buf_put(out, text, 1);
    }
    lk_buf_puts(out, " ");
}

static void put_row(struct lk_buf *out, const struct lk_key *key, const char *name)
{
    struct lk_buf expected = {0}, cell = {0};
    lk_key_put_expected(&expected, key);
    lk_buf_putf(&cell, "`%s`", name);
    put_cell(out, lk_buf_cstr(&cell));
    put_cell(out, lk_buf_cstr(&expected));
    cell.len = 0;
    if (key->required)
        lk_buf_puts(&cell, "required");
    else if (key->def != NULL)
        lk_buf_putf(&cell, "`%s`", key->def);
    else
        lk_buf_puts(&cell, "—");
    put_cell(out, lk_buf_cstr(&cell));
    put_cell(out, key->help);
    lk_buf_puts(out, "|\n");
    lk_buf_done(&expected);
    lk_buf_done(&cell);
}

static void put_section(void *owner, const char *section)
{
    struct lk_buf *out = owner;
    size_t n;
    const struct lk_key *keys = lk_keys(&n);
    lk_buf_putf(out, "\n## %s\n\n| key | value | default | meaning |\n|---|---|---|---|\n",
                section[0] == '\0' ? "The file" : section);
    for (size_t k = 0; k < n; k++) {
        const char *name = lk_key_name_in(&keys[k], section);
        if (name != NULL)
            put_row(out, &keys[k], name);
    }
}

/* Length of a key's section: what its path has before the last point. */
static size_t section_length(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot != NULL ? (size_t)(dot - path) : 0;
}

const char *lk_config_notation(void)
{
    return "One YAML file. `*` stands for a name of your choice, `[]` for an element of a list. "
           "Relative paths start from the file's folder. Sizes are integers with a unit: `kB`, "
           "`MB`, `GB`, `TB` are powers of 1000, `KiB`, `MiB`, `GiB`, `TiB` powers of 1024, "
           "none or `B` means bytes. Durations carry `ms`, `s`, `min` or `h`. Integers are plain "
           "decimal digits. Anchors, aliases, tags, merge keys and duplicate keys are refused. "
           "Whatever stands under `streams` can change data and is covered by the digests (paths "
           "by what they lead to); nothing under `runtime` can or is.";
}

void lk_config_each_section(void (*each)(void *owner, const char *section), void *owner)
{
    size_t n;
    const struct lk_key *keys = lk_keys(&n);
    for (size_t k = 0; k < n; k++) {
        size_t length = section_length(keys[k].path);
        bool first = true;
        for (size_t j = 0; j < k && first; j++)
            first = section_length(keys[j].path) != length ||
                    strncmp(keys[j].path, keys[k].path, length) != 0;
        if (!first)
            continue;
        char *section = lk_strndup(keys[k].path, length);
        each(owner, section);
        free(section);
    }
}

void lk_config_reference(struct lk_buf *out)
{
    lk_buf_putf(out, "# Configuration\n\n%s\n", lk_config_notation());
    lk_config_each_section(put_section, out);
}
