/* SPDX-License-Identifier: Apache-2.0 */
/* Header fields to be sent: checked, and converted to nghttp2's form.
 *
 * Nearly every field of a gRPC call has a known name, and most have a known value. Known texts are
 * constants, without check or copy. Unknown texts are checked and copied.
 *
 * Ways to use the peer's header table:
 *   KEEP    store the field; repetitions cost one byte
 *   NAME    the value is new in every call and would evict useful entries: store the field
 *           once every NAME_AGAIN times, and otherwise refer to its name
 *   NEVER   store nothing: the value is secret or rare */
#include <string.h>

#include "wire/h2_internal.h"

enum {
    FIELD_WORST = 12, /* bytes that nghttp2 adds to a field's name and value */
    NAME_AGAIN = 1024,
};
/* Values from H2_FIELDS_NAME on mean NAME. Each has a counter. */
enum keeping { KEEP, NEVER, H2_FIELDS_NAME };
static_assert(NAME_AGAIN <= UINT16_MAX, "names_said counts up to it");
struct known {
    struct str name, usual; /* usual: the most frequent value, or "" */
    unsigned keeping;
};

#define FIELD(name_text, usual_text, how)                                                          \
    if (str_equal(name, STR(name_text))) {                                                         \
        static const struct known field = {                                                        \
            {name_text, sizeof(name_text) - 1}, {usual_text, sizeof(usual_text) - 1}, how};        \
        return &field;                                                                             \
    }

/* NULL for an unknown name. */
static const struct known *find(struct str name)
{
    switch (name.len) {
    case 2: FIELD("te", "trailers", KEEP) break;
    case 5: FIELD(":path", "", KEEP) break;
    case 7:
        FIELD(":status", "200", KEEP)
        FIELD(":method", "POST", KEEP)
        FIELD(":scheme", "http", KEEP)
        break;
    case 10:
        FIELD(":authority", "", KEEP)
        FIELD("user-agent", "", KEEP)
        break;
    case 11:
        FIELD("grpc-status", "0", KEEP)
        FIELD("traceparent", "", H2_FIELDS_NAME)
        break;
    case 12:
        FIELD("content-type", "application/grpc", KEEP)
        FIELD("grpc-timeout", "", H2_FIELDS_NAME + 1)
        FIELD("x-request-id", "", H2_FIELDS_NAME + 2)
        FIELD("grpc-message", "", NEVER)
        break;
    case 13: FIELD("authorization", "", NEVER) break;
    case 14: FIELD("x-muster-trace", "", H2_FIELDS_NAME + 3) break;
    case 20: FIELD("grpc-accept-encoding", "identity,gzip", KEEP) break;
    case 23: FIELD("grpc-status-details-bin", "", NEVER) break;
    default: break;
    }
    return NULL;
}

/* nghttp2's type is not const, but nghttp2 does not write to the text. */
static uint8_t *h2_fields_text_of(struct str s)
{
    return (uint8_t *)s.at;
}

static bool is_value(struct str value)
{
    return nghttp2_check_header_value(h2_fields_text_of(value), value.len);
}

static uint8_t table_flag(struct h2 *h2, unsigned keeping)
{
    uint16_t *said;

    if (keeping == KEEP) return NGHTTP2_NV_FLAG_NONE;
    if (keeping == NEVER) return NGHTTP2_NV_FLAG_NO_INDEX;
    assert(keeping - H2_FIELDS_NAME < H2_NAMES_KEPT);
    said = &h2->names_said[keeping - H2_FIELDS_NAME];
    *said = (uint16_t)((*said + 1) % NAME_AGAIN);
    return *said == 1 ? NGHTTP2_NV_FLAG_NONE : NGHTTP2_NV_FLAG_NO_INDEX;
}

static bool make(struct h2 *h2, struct h2_header header, nghttp2_nv *into)
{
    const struct known *known = find(header.name);

    *into = (nghttp2_nv){h2_fields_text_of(header.name), h2_fields_text_of(header.value),
                         header.name.len, header.value.len, NGHTTP2_NV_FLAG_NONE};
    if (!known)
        return nghttp2_check_header_name(into->name, into->namelen) && is_value(header.value);
    into->name = h2_fields_text_of(known->name);
    into->flags = NGHTTP2_NV_FLAG_NO_COPY_NAME | table_flag(h2, known->keeping);
    if (known->usual.len == 0 || !str_equal(header.value, known->usual))
        return is_value(header.value);
    into->value = h2_fields_text_of(known->usual);
    into->flags |= NGHTTP2_NV_FLAG_NO_COPY_VALUE;
    return true;
}

enum err h2_fields_make(struct h2 *h2, const struct h2_header *headers, size_t count,
                        nghttp2_nv *into)
{
    size_t worst = count * FIELD_WORST;

    if (count > H2_FIELDS_OUT_MAX) return ERR_TOO_LARGE;
    for (size_t i = 0; i < count; i++) {
        if (!make(h2, headers[i], &into[i])) return ERR_INVALID;
        worst += headers[i].name.len + headers[i].value.len;
    }
    return worst > H2_HEADERS_OUT_MAX ? ERR_TOO_LARGE : ERR_OK;
}
