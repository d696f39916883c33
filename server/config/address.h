/* Addresses of the configuration: checked, and written in the one form that nng takes. */
#ifndef LK_CONFIG_ADDRESS_H
#define LK_CONFIG_ADDRESS_H

#include <stdbool.h>

#define LK_SOCKET_PATH_MAX 107 /* bytes: what fits sockaddr_un with its NUL */

/*
 * "ipc:///absolute", "ipc://relative" (resolved against @dir) or "tcp://host:port". Returns NULL and
 * sets @ret_url (caller frees), or says what is wrong (static text).
 */
const char *lk_address_parse(const char *text, const char *dir, char **ret_url);

/* "host:port": an IPv4 address, "[IPv6]" or a name, and 0…65535. NULL, or what is wrong. */
const char *lk_host_port_check(const char *text);

#endif
