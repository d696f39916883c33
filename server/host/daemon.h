/*
 * The daemon: configuration, log, loop, engine, HTTP and signals, from start to exit.
 *
 * Signals: SIGTERM and SIGINT stop it (exit 0) once what it was doing is put away, within the drain
 * timeout; a second one stops it at once. SIGHUP and SIGPIPE change nothing.
 */
#ifndef LK_HOST_DAEMON_H
#define LK_HOST_DAEMON_H

#include <stdbool.h>

/* What the command line may say over the configuration; for tools that start a daemon of their own
 * beside one that serves from the same file. */
struct daemon_options {
    const char *config;  /* path of the configuration */
    /* Not NULL: sockets lie here instead, named lanekeeper.sock and memory.sock; nothing else is
     * listened on (no HTTP, no workers of other machines), and the folder is removed at the end if
     * nothing is left in it. */
    const char *run_dir;
    enum daemon_snapshots { /* and counts */
        DAEMON_SNAPSHOTS_WRITE, /* as configured */
        DAEMON_SNAPSHOTS_READ,  /* those that are there are used, none is written */
        DAEMON_SNAPSHOTS_OFF
    } snapshots;
    /* Standard input, a pipe or socket, is a lifeline: the daemon stops when it ends, so it goes with
     * whoever holds the other end, whatever becomes of that one. */
    bool until_eof;
};

/* Runs until a signal; the exit status. */
int daemon_run(const struct daemon_options *options);

#endif
