/* SPDX-License-Identifier: Apache-2.0 */
/* Machines in wire encoding. Offer and binding are stored encoded, so writing an answer is copying.
 * Measuring a machine cannot fail, because book_apply() reserves the room. Pure. */
#include "model/wire/demand_wire.h"
#include "provider/host/book_internal.h"

enum {
    FIELD_ID = 1,
    BOOK_WIRE_FIELD_STATE = 2,
    FIELD_HOST = 3,
    FIELD_ERROR = 12,
    HOST_PROVIDER = 1,
    HOST_REF = 2,
    ENTRY_BYTES_MAX = BOOK_METADATA_BYTES_MAX * 2,
};

struct str entry_host(const struct book_entry *e, char room[ENTRY_HOST_CAP])
{
    if (!e->has_host) return STR_EMPTY;
    if (entry_own_host(e).len > 0) return entry_own_host(e);
    memcpy(room, "host-", 5);
    memcpy(room + 5, e->id, e->id_len);
    return str_of(room, 5u + e->id_len);
}

static void pack_raw(struct pack *pack, struct str bytes)
{
    if (!pack->err) pack->err = buf_append(pack->into, bytes);
}

static struct pack entry_pack(struct book *book, const struct book_entry *e)
{
    struct pack pack = pack_begin(&book->machine), host = pack_begin(&book->host);
    char room[ENTRY_HOST_CAP];

    pack_text(&pack, FIELD_ID, entry_id(e));
    pack_u64(&pack, BOOK_WIRE_FIELD_STATE, e->state);
    if (e->has_host) {
        pack_text(&host, HOST_PROVIDER, str_from(book->options.provider));
        pack_text(&host, HOST_REF, entry_host(e, room));
        pack_row(&pack, FIELD_HOST, &host);
    }
    pack_raw(&pack, pool_text(e->offer));
    pack_text(&pack, FIELD_ERROR, entry_error(e));
    pack_raw(&pack, pool_text(e->binding));
    return pack;
}

uint32_t entry_wire_len(struct book *book, const struct book_entry *e)
{
    struct pack pack = entry_pack(book, e);
    /* one byte for the tag, at least one for the length */
    uint32_t len = 2 + (uint32_t)pack.into->len;

    assert(!pack.err);
    for (size_t rest = pack.into->len; rest > 0x7f; rest >>= 7) len++;
    return len;
}

enum err entry_write(struct book *book, const struct book_entry *e, uint32_t field,
                     struct buf *into)
{
    struct pack body = entry_pack(book, e), pack = {into, ERR_OK};
    size_t before = into->len;

    assert(field < 16); /* one byte is enough for the tag, as entry_wire_len() assumes */
    if (field)
        pack_row(&pack, field, &body);
    else
        pack_raw(&pack, buf_peek(body.into));
    if (!pack.err) pack.err = body.err;
    if (pack.err) into->len = before;
    return pack.err;
}

/* --- bindings: cluster, then the entries of shard_metadata in their order of arrival --- */

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
