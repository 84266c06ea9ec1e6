/* SPDX-License-Identifier: Apache-2.0 */
#include "member/config/address.h"

#include <stdio.h>

#include "io/net.h"

bool address_is_numeric(const char *address)
{
    struct address_parts parts;
    uint8_t bytes[16];

    return !address_split(address, &parts, NULL) && !parts.is_unix &&
           address_ip(parts.host, bytes) > 0;
}

enum err address_of_url(struct str url, char address[CONFIG_ADDRESS_CAP], struct note *note)
{
    struct str rest = url;
    struct address_parts parts;

    if (str_starts(url, STR("https://"))) rest = str_tail(url, 8);
    if (str_ends(rest, STR("/"))) rest.len--;
    if (rest.at == url.at || rest.len == 0 || rest.len >= CONFIG_ADDRESS_CAP) {
        note_set(note, "'%.*s' is no URL of a coordinator, such as https://127.0.0.1:50051",
                 (int)min_size(url.len, 64), url.at);
        return ERR_INVALID;
    }
    snprintf(address, CONFIG_ADDRESS_CAP, "%.*s", STR_ARG(rest));
    if (address_split(address, &parts, note)) return ERR_INVALID;
    if (!parts.is_unix && parts.host.len > 0 && parts.port != 0) return ERR_OK;
    note_set(note, "'%s' names no host and port to dial", address);
    return ERR_INVALID;
}
