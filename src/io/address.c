/* SPDX-License-Identifier: Apache-2.0 */
/* Splits and checks addresses in text form, and recognises numeric and loopback addresses. Pure:
 * resolves no names. */
#include <arpa/inet.h>
#include <string.h>
#include <sys/un.h>

#include "io/net.h"

enum {
    HOST_LEN_MAX = 253,                                          /* maximum length of a DNS name */
    UNIX_PATH_CAP = sizeof(((struct sockaddr_un *)0)->sun_path), /* bytes, including NUL */
    PORT_MAX = 65535,
};

static enum err address_refuse(struct note *note, const char *address, const char *why)
{
    return note_fail(note, ERR_INVALID, "address \"%s\": %s", address, why);
}

/* Also with a scope: "fe80::1%eth0". */
static bool is_ipv6(struct str host)
{
    size_t scope = str_find(host, '%');
    uint8_t bytes[16];

    return scope + 1 != host.len && address_ip(str_of(host.at, scope), bytes) == 16;
}

static bool has_odd_bytes(struct str host)
{
    for (size_t i = 0; i < host.len; i++) {
        unsigned char c = (unsigned char)host.at[i];
        if (c <= ' ' || c == 0x7f || c == '/' || c == '[' || c == ']' || c == '@') return true;
    }
    return false;
}

static enum err split_unix(const char *address, struct str path, struct address_parts *ret_parts,
                           struct note *note)
{
    if (path.len == 0) return address_refuse(note, address, "names no path");
    if (path.len >= UNIX_PATH_CAP)
        return address_refuse(note, address, "the path is longer than 107 bytes");
    *ret_parts = (struct address_parts){.is_unix = true, .host = path};
    return ERR_OK;
}

enum err address_split(const char *address, struct address_parts *ret_parts, struct note *note)
{
    struct str all = str_from(address), host, port;
    const char *colon;
    uint64_t number;

    if (str_starts(all, STR("unix:")))
        return split_unix(address, str_tail(all, 5), ret_parts, note);
    if (address && strstr(address, "://"))
        return address_refuse(note, address, "is a URL; write host:port, without the scheme");
    colon = all.len > 0 ? memrchr(all.at, ':', all.len) : NULL;
    if (!colon) return address_refuse(note, address ? address : "", "has no port; write host:port");
    host = str_of(all.at, (size_t)(colon - all.at));
    port = str_tail(all, host.len + 1);
    if (str_starts(host, STR("["))) {
        if (!str_ends(host, STR("]")))
            return address_refuse(note, address, "has no port; write [v6]:port");
        host = str_of(host.at + 1, host.len - 2);
        if (!is_ipv6(host))
            return address_refuse(note, address, "the brackets hold no IPv6 address");
    } else if (str_has(host, ':')) {
        return address_refuse(note, address, "an IPv6 address needs brackets, as in [::1]:7790");
    } else if (has_odd_bytes(host)) {
        return address_refuse(note, address, "the host holds a character no host has");
    }
    if (host.len > HOST_LEN_MAX)
        return address_refuse(note, address, "the host is longer than 253 bytes");
    if (str_to_u64(port, &number) || number > PORT_MAX)
        return address_refuse(note, address, "the port is not a number from 0 to 65535");
    *ret_parts = (struct address_parts){.host = host, .port = (uint16_t)number};
    return ERR_OK;
}

size_t address_ip(struct str host, uint8_t ret_bytes[16])
{
    char text[INET6_ADDRSTRLEN];

    if (host.len == 0 || host.len >= sizeof text || str_has(host, '\0')) return 0;
    memcpy(text, host.at, host.len);
    text[host.len] = '\0';
    return inet_pton(AF_INET, text, ret_bytes) == 1    ? 4
           : inet_pton(AF_INET6, text, ret_bytes) == 1 ? 16
                                                       : 0;
}

bool address_is_loopback(const char *address)
{
    struct address_parts parts;
    struct in6_addr v6;
    uint8_t bytes[16];
    size_t len;

    if (address_split(address, &parts, NULL)) return false;
    if (parts.is_unix || str_equal_nocase(parts.host, STR("localhost"))) return true;
    len = address_ip(parts.host, bytes);
    if (len != 16) return len == 4 && bytes[0] == 127;
    memcpy(&v6, bytes, sizeof v6);
    return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && bytes[12] == 127);
}
