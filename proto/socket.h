/*
 * Closing an nng socket, as workers on other machines have.
 *
 * nng 1.5.2 (Debian 12) never finishes when it closes a connection in the very moment between the
 * head and the body of an incoming message, and then nothing else of nng in the process is closed
 * either. Nobody may hang on that: the closing is given two seconds.
 */
#ifndef LK_PROTO_SOCKET_H
#define LK_PROTO_SOCKET_H

#include <nng/nng.h>
#include <stdbool.h>

/* False: not closed in time. nng's threads may then still use whatever its callbacks were given, so
 * that must be left to the end of the process. */
bool lk_socket_close(nng_socket socket);

#endif
