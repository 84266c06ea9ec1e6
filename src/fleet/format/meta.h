/* SPDX-License-Identifier: Apache-2.0 */
/* The file meta.json, which describes a snapshot in the original's format (coordinator.md 6.2). */
#ifndef FLEET_FORMAT_META_H
#define FLEET_FORMAT_META_H
#include "base/buf.h"
#include "base/note.h"
#include "base/str.h"

enum {
    FLEET_META_BYTES_MAX = 1 << 20,
    FLEET_META_SERVERS_MAX = 64,
    FLEET_META_TEXT_MAX = 255, /* bytes of an id, server id or address */
};
enum fleet_suffrage { FLEET_VOTER, FLEET_NON_VOTER, FLEET_STAGING };
struct fleet_meta_server {
    enum fleet_suffrage suffrage;
    char id[FLEET_META_TEXT_MAX + 1], address[FLEET_META_TEXT_MAX + 1];
};
struct fleet_meta {
    uint64_t index, term; /* of the last log entry in the snapshot */
    uint64_t size;        /* bytes of the state; 0: unknown */
    /* Written, but not read by a restore. */
    uint64_t configuration_index, created_ms;
    size_t server_count;
    struct fleet_meta_server servers[FLEET_META_SERVERS_MAX];
};
/* "<term>-<index>-<milliseconds since 1970>". */
void fleet_meta_id(const struct fleet_meta *meta, char id[FLEET_META_TEXT_MAX + 1]);
/* Appends the object without a line end: compact for SnapshotSave, indented by two spaces for an
 * export. `Peers` is null. ERR_FULL, ERR_NOMEM. */
enum err fleet_meta_write(const struct fleet_meta *meta, bool indented, struct buf *into);
/* Reads index, term and size; a missing member is zero. ERR_INVALID for index 0. ERR_PARSE,
 * ERR_TOO_LARGE. */
enum err fleet_meta_read(struct str text, struct fleet_meta *ret_meta, struct note *note);
#endif
