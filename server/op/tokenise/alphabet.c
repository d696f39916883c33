#include "op/tokenise/alphabet.h"

#include <string.h>

void lk_alphabet_init(struct lk_alphabet *alphabet)
{
    memset(alphabet->byte_id, 0xff, sizeof alphabet->byte_id);
}

void lk_alphabet_done(struct lk_alphabet *alphabet)
{
    *alphabet = (struct lk_alphabet){0};
}

size_t lk_alphabet_ids(const struct lk_alphabet *alphabet, const uint8_t *bytes, size_t n,
                       uint32_t *ret_ids)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++)
        if (alphabet->byte_id[bytes[i]] != LK_NO_ID)
            ret_ids[count++] = alphabet->byte_id[bytes[i]];
    return count;
}
