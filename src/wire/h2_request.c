/* SPDX-License-Identifier: Apache-2.0 */
/* Checks whether a request is malformed (RFC 9113, 8.1 to 8.3).
 *
 * nghttp2's own check is disabled for servers, because it rejects the :authority of etcd clients,
 * which is no host: "http://h:2379", "#initially=[h:2379]" (coordination.md C1). */
#include "wire/h2_internal.h"

enum pseudo { METHOD = BIT(0), SCHEME = BIT(1), AUTHORITY = BIT(2), PATH = BIT(3) };
enum { CONNECT = BIT(4), OPTIONS = BIT(5), STAR = BIT(6), HOST = BIT(7), REGULAR = BIT(8) };

static const uint8_t *bytes_of(struct str s)
{
    return (const uint8_t *)s.at;
}

static bool once(struct h2_block *b, unsigned what)
{
    bool first = !(b->seen & what);

    b->seen |= what;
    return first;
}

static bool is_path(struct h2_block *b, struct str path)
{
    if (str_equal(path, STR("*"))) return once(b, STAR);
    return path.len > 0 && path.at[0] == '/' && nghttp2_check_path(bytes_of(path), path.len);
}

static bool take_pseudo(struct h2_block *b, struct h2_header field)
{
    struct str name = field.name, value = field.value;

    if (b->trailers || b->seen & REGULAR) return false;
    if (str_equal(name, STR(":method"))) {
        if (str_equal(value, STR("CONNECT"))) b->seen |= CONNECT;
        if (str_equal(value, STR("OPTIONS"))) b->seen |= OPTIONS;
        return once(b, METHOD) && nghttp2_check_method(bytes_of(value), value.len);
    }
    if (str_equal(name, STR(":scheme"))) return once(b, SCHEME) && value.len > 0;
    if (str_equal(name, STR(":authority")))
        return once(b, AUTHORITY) && nghttp2_check_header_value(bytes_of(value), value.len);
    return str_equal(name, STR(":path")) && once(b, PATH) && is_path(b, value);
}

/* Connection-specific fields, which HTTP/2 forbids. */
static bool is_hop(struct str name)
{
    static const struct str names[] = {{"connection", 10},
                                       {"keep-alive", 10},
                                       {"proxy-connection", 16},
                                       {"transfer-encoding", 17},
                                       {"upgrade", 7}};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (str_equal(name, names[i])) return true;
    return false;
}

static bool take_length(struct h2_block *b, struct str value)
{
    uint64_t length;

    if (b->length != H2_ANY_LENGTH || str_to_u64(value, &length)) return false;
    b->length = length;
    return true;
}

static bool take(struct h2_block *b, struct h2_header field)
{
    struct str name = field.name, value = field.value;

    if (!nghttp2_check_header_name(bytes_of(name), name.len)) return false;
    if (name.at[0] == ':') return take_pseudo(b, field);
    b->seen |= REGULAR;
    if (!nghttp2_check_header_value(bytes_of(value), value.len) || is_hop(name)) return false;
    if (str_equal(name, STR("te"))) return str_equal_nocase(value, STR("trailers"));
    if (str_equal(name, STR("host"))) return once(b, HOST);
    if (!b->trailers && str_equal(name, STR("content-length"))) return take_length(b, value);
    return true;
}

void h2_request_field(struct h2_block *b, struct h2_header field)
{
    if (!b->malformed) b->malformed = !take(b, field);
}

bool h2_request_is_whole(const struct h2_block *b)
{
    unsigned wanted = METHOD | SCHEME | PATH;

    if (b->malformed) return false;
    if (b->trailers) return true;
    if (b->seen & CONNECT) return (b->seen & (SCHEME | PATH | AUTHORITY)) == AUTHORITY;
    if (b->seen & STAR && !(b->seen & OPTIONS)) return false;
    return (b->seen & wanted) == wanted && b->seen & (AUTHORITY | HOST);
}
