/* SPDX-License-Identifier: Apache-2.0 */
/* The original caller's identity, as text between replicas.
 *
 * Layout: lines of a letter, a space, a value and a newline:
 *   u <URI>   d <DNS name>   c <common name>   s <serial>   e <not after, ms since 1970>
 * Values contain no control bytes, because the handshake refuses such certificates (io/tls.h). No
 * lines at all mean a caller without a certificate. */
#include <inttypes.h>

#include "rpc/forward.h"

enum { CALLER_BYTES_MAX = 16 * 1024 };

static enum err put_line(struct buf *into, char letter, struct str value)
{
    return buf_appendf(into, "%c %.*s\n", letter, STR_ARG(value));
}

enum err rpc_forward_caller_text(const struct tls_identity *identity, struct buf *into)
{
    enum err err = ERR_OK;

    if (!identity) return ERR_OK;
    for (size_t i = 0; !err && i < identity->uri_count; i++)
        err = put_line(into, 'u', identity->uris[i]);
    for (size_t i = 0; !err && i < identity->dns_count; i++)
        err = put_line(into, 'd', identity->dns_names[i]);
    if (!err && identity->common_name.len > 0) err = put_line(into, 'c', identity->common_name);
    if (!err && identity->serial_hex.len > 0) err = put_line(into, 's', identity->serial_hex);
    if (!err) err = buf_appendf(into, "e %" PRIu64 "\n", identity->not_after.ms);
    return err;
}

static bool is_clean(struct str value)
{
    for (size_t i = 0; i < value.len; i++)
        if ((unsigned char)value.at[i] < ' ' || value.at[i] == 0x7f) return false;
    return value.len > 0 && str_is_utf8(value);
}

static enum err take_line(struct tls_identity *identity, struct str *uris, struct str *dns_names,
                          struct str line)
{
    struct str value = str_tail(line, 2);

    if (line.len < 3 || line.at[1] != ' ' || !is_clean(value)) return ERR_PARSE;
    switch (line.at[0]) {
    case 'u':
        if (identity->uri_count == TLS_NAMES_MAX) return ERR_PARSE;
        uris[identity->uri_count++] = value;
        return ERR_OK;
    case 'd':
        if (identity->dns_count == TLS_NAMES_MAX) return ERR_PARSE;
        dns_names[identity->dns_count++] = value;
        return ERR_OK;
    case 'c': identity->common_name = value; return ERR_OK;
    case 's': identity->serial_hex = value; return ERR_OK;
    case 'e': return str_to_u64(value, &identity->not_after.ms) ? ERR_PARSE : ERR_OK;
    default: return ERR_PARSE;
    }
}

static enum err parse(struct str text, struct arena *arena,
                      const struct tls_identity **ret_identity)
{
    struct tls_identity *identity = ARENA_NEW(arena, struct tls_identity);
    struct str *uris = arena_calloc(arena, TLS_NAMES_MAX, sizeof *uris);
    struct str *dns_names = arena_calloc(arena, TLS_NAMES_MAX, sizeof *dns_names);
    char *copy = arena_dup(arena, text);
    struct str rest = str_of(copy, text.len), line;

    if (!identity || !uris || !dns_names || !copy) return ERR_NOMEM;
    identity->common_name = identity->serial_hex = STR_EMPTY;
    while (str_split(&rest, '\n', &line)) {
        enum err err = ERR_OK;
        if (!rest.at && line.len == 0) break; /* nothing follows the last newline */
        err = take_line(identity, uris, dns_names, line);
        if (err) return err;
    }
    identity->uris = uris;
    identity->dns_names = dns_names;
    *ret_identity = identity;
    return ERR_OK;
}

bool rpc_forward_from_replica(const struct tls_identity *peer)
{
    struct str uri;

    return !tls_identity_uri(peer, STR("muster"), &uri) &&
           str_starts(uri, STR("muster://replica/"));
}

enum err rpc_forward_identity(const struct tls_identity *peer, struct str caller,
                              struct arena *arena, const struct tls_identity **ret_identity,
                              struct note *note)
{
    enum err err;

    if (!peer) {
        *ret_identity = NULL;
        return ERR_OK;
    }
    if (!rpc_forward_from_replica(peer))
        return note_fail(note, ERR_DENIED, "%s is for replicas only", RPC_CALLER_HEADER);
    if (caller.len > CALLER_BYTES_MAX)
        err = ERR_PARSE;
    else
        err = parse(caller, arena, ret_identity);
    if (err == ERR_PARSE) note_set(note, "%s cannot be read", RPC_CALLER_HEADER);
    return err;
}
