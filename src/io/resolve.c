/* SPDX-License-Identifier: Apache-2.0 */
/* Looks a host name up and writes each of its addresses once, with the port. Blocks for as long as the
 * resolver takes; any thread. */
#include "io/resolve.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "io/net.h"

enum { RESOLVE_HOST_CAP = 256, NUMERIC_CAP = 48 };

static void keep(struct resolved *resolved, const char *text)
{
    for (size_t i = 0; i < resolved->count; i++)
        if (strcmp(resolved->at[i], text) == 0) return;
    if (resolved->count == RESOLVE_MAX) return;
    snprintf(resolved->at[resolved->count++], RESOLVE_CAP, "%s", text);
}

enum err address_resolve(const char *address, struct resolved *ret_resolved, struct note *note)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct resolved resolved = {.count = 0};
    struct address_parts parts;
    struct addrinfo *found = NULL;
    char host[RESOLVE_HOST_CAP], text[RESOLVE_CAP];
    enum err err = address_split(address, &parts, note);
    int failed;

    if (err) return err;
    if (parts.is_unix || parts.host.len == 0 || parts.host.len >= sizeof host)
        return note_fail(note, ERR_INVALID, "%s: no host to look up", address);
    snprintf(host, sizeof host, "%.*s", STR_ARG(parts.host));
    failed = getaddrinfo(host, NULL, &hints, &found);
    if (failed) {
        note_set(note, "look up %s: %s", host, gai_strerror(failed));
        return failed == EAI_NONAME ? ERR_NOT_FOUND : ERR_UNAVAILABLE;
    }
    for (const struct addrinfo *at = found; at; at = at->ai_next) {
        char numeric[NUMERIC_CAP];
        if (getnameinfo(at->ai_addr, at->ai_addrlen, numeric, sizeof numeric, NULL, 0,
                        NI_NUMERICHOST))
            continue;
        snprintf(text, sizeof text, at->ai_family == AF_INET6 ? "[%s]:%u" : "%s:%u", numeric,
                 parts.port);
        keep(&resolved, text);
    }
    freeaddrinfo(found);
    *ret_resolved = resolved;
    return ERR_OK;
}
