/*
 * The log: one line an event, on stderr: time, level, component, event, key=value … . Values with
 * spaces or quotes are quoted; control characters are escaped, so a line is always one line.
 *
 * Whoever reads it may stand still: what does not get rid of its lines for a while drops them, and says
 * how many those were as soon as it can.
 */
#ifndef LK_HOST_LOG_H
#define LK_HOST_LOG_H

#include <stdint.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

struct log {
    enum log_level level;   /* what is less important is not written */
    _Atomic uint64_t *lost; /* lines dropped since the last that was written; NULL: they wait */
};

/* log_event(log, LOG_LEVEL_INFO, "snapshots", "written", "lane", "3", "bytes", bytes_text, NULL):
 * pairs of key and value end with NULL. */
void log_event(const struct log *log, enum log_level level, const char *component,
               const char *event, ...) __attribute__((sentinel));

/* The same with one printf-formed value under the key "text". */
void log_text(const struct log *log, enum log_level level, const char *component,
              const char *event, const char *format, ...) __attribute__((format(printf, 5, 6)));

#endif
