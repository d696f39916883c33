#include "host/log_limit.h"

bool log_limit_first(struct log_limit *limit, uint64_t n)
{
    if (limit->seen++ >= n)
        return false;
    limit->told++;
    return true;
}

uint64_t log_limit_more(struct log_limit *limit, int64_t every_ms, int64_t now_ms)
{
    uint64_t more = limit->seen - limit->told;
    if (more == 0 || (limit->told > 0 && now_ms - limit->told_ms < every_ms))
        return 0;
    limit->told = limit->seen;
    limit->told_ms = now_ms;
    return more;
}
