#include "client/cli/digests.h"

enum lanekeeper_code digests_get(struct lanekeeper *handle, uint64_t from, uint64_t to, uint8_t *ret_digests,
                                 uint64_t *ret_end)
{
    enum lanekeeper_code code = lanekeeper_digest(handle, from, to, ret_digests);
    *ret_end = to;
    if (code != LANEKEEPER_OUT_OF_RANGE)
        return code;
    /* Its answer is about the whole range: which steps there are is found out by asking for each. */
    for (uint64_t step = from; step < to; step++) {
        code = lanekeeper_digest(handle, step, step + 1, ret_digests + (step - from) * 16);
        if (code == LANEKEEPER_OUT_OF_RANGE)
            *ret_end = step;
        if (code != LANEKEEPER_OK)
            break;
    }
    return code == LANEKEEPER_OUT_OF_RANGE ? LANEKEEPER_OK : code;
}
