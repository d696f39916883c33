/*
 * Addresses to listen on: what is wrong with one, before a library is asked, and room for Unix
 * sockets. Used by the service and by the hand-over socket.
 */
#ifndef LK_RPC_ADDRESS_H
#define LK_RPC_ADDRESS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UNIX_PATH_BYTES 108 /* sun_path with its NUL, on Linux */

/* The socket file of "ipc://…"; NULL for any other scheme. Points into @address. */
const char *address_ipc_path(const char *address);

/* INVALID_ARGUMENT unless @address is ipc:///path (short enough) or tcp://host:port, port 0…65535. */
enum lk_code address_check(const char *address, struct lk_err *err);

/* "tcp://host:port" with another port; caller frees. */
char *address_with_port(const char *address, uint16_t port);

/*
 * Makes room for a Unix socket at @path: nothing there is fine; a socket that nobody listens on is
 * removed; a living one, or any other file, is ALREADY_EXISTS. On success *ret_lock holds a lock on
 * the directory, so that two daemons starting at once cannot remove each other's new socket: bind,
 * then close it. The lock leaves no file and dies with the process; -1 when the directory could not
 * be locked for a second (somebody else's lock must not keep us from serving).
 */
enum lk_code unix_path_claim(const char *path, int *ret_lock, struct lk_err *err);

#endif
