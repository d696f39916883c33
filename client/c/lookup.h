/*
 * Where "host:port" is. A numeric host is read at once. A name is looked up by a thread of its own, since
 * nothing else can be left behind when time is up; it ends with the look-up.
 */
#ifndef LK_CLIENT_LOOKUP_H
#define LK_CLIENT_LOOKUP_H

#include <netdb.h>
#include <stdbool.h>

struct lookup;

/* "host:port" or "[v6]:port", port 1…65535, taken apart; both are to be freed. False: it is neither, or
 * there is no memory (@ret_host is NULL then, too). */
bool lkc_lookup_split(const char *text, char **ret_host, char **ret_port);

/* NULL: out of memory or threads. */
struct lookup *lkc_lookup_start(const char *host, const char *port);

/* Readable once it is done. */
int lkc_lookup_fd(const struct lookup *lookup);

/* False: not done yet. Else *ret_found is for freeaddrinfo; NULL: nothing, and *ret_why says why. */
bool lkc_lookup_take(struct lookup *lookup, struct addrinfo **ret_found, const char **ret_why);

void lkc_lookup_drop(struct lookup *lookup); /* also when it is not done; NULL is fine */

#endif
