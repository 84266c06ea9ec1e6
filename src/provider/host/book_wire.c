/* SPDX-License-Identifier: Apache-2.0 */
/* Machines as bytes of the wire. The offer and the binding are kept as such, so an answer is a few
 * copies. */
#include "model/wire/demand_wire.h"
#include "provider/host/book_internal.h"

enum {
    TAG_ID = 1 << 3 | 2,
    TAG_STATE = 2 << 3,
    TAG_HOST = 3 << 3 | 2,
    TAG_HOST_PROVIDER = 1 << 3 | 2,
    TAG_HOST_REF = 2 << 3 | 2,
    TAG_ERROR = 12 << 3 | 2,
    ENTRY_BYTES_MAX = BOOK_METADATA_BYTES_MAX * 2,
};

static uint32_t varint_bytes(uint32_t value)
{
    uint32_t bytes = 1;

    for (; value > 0x7f; value >>= 7) bytes++;
    return bytes;
}

static uint32_t text_bytes(uint32_t len) /* with a tag of one byte and its length */
{
    return 1 + varint_bytes(len) + len;
}

static char *put_varint(char *at, uint32_t value)
{
    for (; value > 0x7f; value >>= 7) *at++ = (char)(value | 0x80);
    *at++ = (char)value;
    return at;
}

static char *put_raw(char *at, struct str bytes)
{
    if (bytes.len > 0) memcpy(at, bytes.at, bytes.len);
    return at + bytes.len;
}

static char *put_head(char *at, uint32_t tag, uint32_t len)
{
    *at++ = (char)tag;
    return put_varint(at, len);
}

static char *put_text(char *at, uint32_t tag, struct str text)
{
    return put_raw(put_head(at, tag, (uint32_t)text.len), text);
}

static uint32_t host_ref_len(const struct book_entry *e)
{
    return e->host ? e->host_len : 5u + e->id_len;
}

static uint32_t host_bytes(const struct book *book, const struct book_entry *e)
{
    return text_bytes((uint32_t)strlen(book->options.provider)) + text_bytes(host_ref_len(e));
}

static uint32_t body_len(const struct book *book, const struct book_entry *e)
{
    uint32_t len = text_bytes(e->id_len) + 2;

    if (e->has_host) len += text_bytes(host_bytes(book, e));
    if (e->error) len += text_bytes(e->error_len);
    return len + e->offer->len + (e->binding ? e->binding->len : 0);
}

uint32_t entry_wire_len(const struct book *book, const struct book_entry *e)
{
    return text_bytes(body_len(book, e));
}

static char *put_host(const struct book *book, const struct book_entry *e, char *at)
{
    at = put_head(at, TAG_HOST, host_bytes(book, e));
    at = put_text(at, TAG_HOST_PROVIDER, str_from(book->options.provider));
    at = put_head(at, TAG_HOST_REF, host_ref_len(e));
    if (e->host) return put_raw(at, str_of(e->host, e->host_len));
    return put_raw(put_raw(at, STR("host-")), entry_id(e));
}

static char *put_body(const struct book *book, const struct book_entry *e, char *at)
{
    at = put_text(at, TAG_ID, entry_id(e));
    *at++ = TAG_STATE;
    *at++ = (char)e->state;
    if (e->has_host) at = put_host(book, e, at);
    at = put_raw(at, pool_text(e->offer));
    if (e->error) at = put_text(at, TAG_ERROR, str_of(e->error, e->error_len));
    return put_raw(at, pool_text(e->binding));
}

static enum err write_entry(const struct book *book, const struct book_entry *e, uint32_t field,
                            struct buf *into)
{
    uint32_t body = body_len(book, e), len = field ? text_bytes(body) : body;
    char *room, *at;
    enum err err = buf_reserve(into, len, &room);

    if (err) return err;
    at = field ? put_head(room, field << 3 | 2, body) : room;
    at = put_body(book, e, at);
    assert(at == room + len);
    buf_commit(into, len);
    return ERR_OK;
}

enum err entry_write(const struct book *book, const struct book_entry *e, uint32_t field,
                     struct buf *into)
{
    assert(field > 0 && field < 16); /* a tag of one byte, as entry_wire_len counts */
    return write_entry(book, e, field, into);
}

enum err entry_write_plain(const struct book *book, const struct book_entry *e, struct buf *into)
{
    return write_entry(book, e, 0, into);
}

struct str entry_host(const struct book_entry *e, char room[ENTRY_HOST_CAP])
{
    if (!e->has_host) return STR_EMPTY;
    if (e->host) return str_of(e->host, e->host_len);
    return str_of(room, (size_t)(put_raw(put_raw(room, STR("host-")), entry_id(e)) - room));
}

/* --- bindings: cluster, then the entries of shard_metadata in the order they came --- */

enum err binding_write(const struct book_request *request, struct buf *into)
{
    struct pack pack = {into, ERR_OK};
    struct buf scratch;

    buf_init(&scratch, ENTRY_BYTES_MAX);
    pack_text(&pack, MACHINE_CLUSTER, request->cluster);
    for (size_t i = 0; i < request->metadata_count; i++)
        pack_pair(&pack, MACHINE_METADATA, request->metadata[i].key, request->metadata[i].value,
                  &scratch);
    buf_deinit(&scratch);
    return pack.err;
}
