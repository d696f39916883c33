/* What the pool knows of the reasons for dropping a row. In a file of its own, because the recipe
 * and measuring both have a tag `lk_measure`, so that one file cannot include both. */
#include "host/pool_drop.h"

#include "op/measure.h"

bool pool_drop_known(uint32_t drop)
{
    return drop < LK_DROP_KINDS && drop != LK_DROP_CRASH;
}

bool pool_drop_kept(uint32_t drop)
{
    return drop == LK_DROP_NONE;
}

uint8_t pool_drop_crash(void)
{
    return LK_DROP_CRASH;
}
