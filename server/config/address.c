#include "config/address.h"

#include "base/mem.h"
#include "config/scalar.h"
#include "config/section.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#define HOST_MAX 255

static const char *check_ipv6(const char *host)
{
    char bare[HOST_MAX + 1];
    struct in6_addr address;
    size_t n = strcspn(host, "%"); /* a zone may follow: fe80::1%eth0 */
    memcpy(bare, host, n);
    bare[n] = '\0';
    if (inet_pton(AF_INET6, bare, &address) != 1)
        return "what stands in brackets is not an IPv6 address";
    if (host[n] == '%' && host[n + 1] == '\0')
        return "the zone after % is empty";
    return NULL;
}

static const char *check_name(const char *host)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_";
    struct in_addr address;
    size_t n = strlen(host);
    if (n == 0)
        return "the host is missing: 0.0.0.0 means every interface, 127.0.0.1 this machine alone";
    if (strspn(host, allowed) != n)
        return "the host is neither an address nor a name";
    if (strspn(host, "0123456789.") == n && inet_pton(AF_INET, host, &address) != 1)
        return "the host is not an IPv4 address";
    return NULL;
}

static const char *check_port(const char *port)
{
    uint64_t number = 0;
    if (lk_scalar_integer(port, &number) != NULL || number > 65535)
        return "the port is not a number from 0 to 65535";
    return NULL;
}

const char *lk_host_port_check(const char *text)
{
    char host[HOST_MAX + 1];
    bool bracketed = text[0] == '[';
    const char *start = bracketed ? text + 1 : text;
    const char *end = bracketed ? strchr(text, ']') : strrchr(text, ':');

    if (end == NULL)
        return bracketed ? "the bracket is not closed" : "the port is missing";
    if ((size_t)(end - start) > HOST_MAX)
        return "the host is too long";
    memcpy(host, start, (size_t)(end - start));
    host[end - start] = '\0';
    if (!bracketed && strchr(host, ':') != NULL)
        return "an IPv6 address is written in brackets: [::1]:port";
    if (bracketed && end[1] != ':')
        return "the port is missing";
    const char *problem = bracketed ? check_ipv6(host) : check_name(host);
    return problem != NULL ? problem : check_port(bracketed ? end + 2 : end + 1);
}

const char *lk_address_parse(const char *text, const char *dir, char **ret_url)
{
    if (strncmp(text, "tcp://", 6) == 0) {
        const char *problem = lk_host_port_check(text + 6);
        if (problem == NULL)
            *ret_url = lk_strdup(text);
        return problem;
    }
    if (strncmp(text, "tls+tcp://", 10) == 0)
        return "TLS is not supported in this version";
    if (strncmp(text, "ipc://", 6) != 0)
        return "it starts with neither ipc:// nor tcp://";
    if (text[6] == '\0')
        return "the path is missing";
    char *path = lk_path_resolve(dir, text + 6);
    bool fits = strlen(path) <= LK_SOCKET_PATH_MAX;
    if (fits)
        *ret_url = lk_format("ipc://%s", path);
    free(path);
    return fits ? NULL : "the whole path of the socket is longer than 107 bytes";
}
