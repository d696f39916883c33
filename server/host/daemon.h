/*
 * The daemon: configuration, log, loop, engine, HTTP and signals, from start to exit.
 *
 * Signals: SIGTERM and SIGINT stop it (exit 0) once what it was doing is put away, within the drain
 * timeout; a second one stops it at once. SIGHUP and SIGPIPE change nothing.
 */
#ifndef LK_HOST_DAEMON_H
#define LK_HOST_DAEMON_H

/* Runs until a signal; the exit status. */
int daemon_run(const char *config_path);

#endif
