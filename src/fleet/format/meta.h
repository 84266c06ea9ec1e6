/* SPDX-License-Identifier: Apache-2.0 */
/* meta.json: what a snapshot of the original's kind says about itself (coordinator.md 6.2). */
#ifndef FLEET_FORMAT_META_H
#define FLEET_FORMAT_META_H
#include "base/buf.h"
#include "base/note.h"
#include "base/str.h"

enum {
    FLEET_META_BYTES_MAX = 1 << 20,
    FLEET_META_SERVERS_MAX = 64,
    FLEET_META_TEXT_MAX = 255, /* id, server id, address */
};
enum fleet_suffrage { FLEET_VOTER, FLEET_NON_VOTER, FLEET_STAGING };
struct fleet_meta_server {
    enum fleet_suffrage suffrage;
    char id[FLEET_META_TEXT_MAX + 1], address[FLEET_META_TEXT_MAX + 1];
};
struct fleet_meta {
    uint64_t version; /* 1 */
    char id[FLEET_META_TEXT_MAX + 1];
    uint64_t index, term; /* of the last entry contained; all that a restore needs */
    size_t server_count;
    struct fleet_meta_server servers[FLEET_META_SERVERS_MAX];
    uint64_t configuration_index, size; /* size: bytes of state */
};
/* "<term>-<index>-<unix milliseconds>" into meta->id. */
void fleet_meta_name(struct fleet_meta *meta, uint64_t unix_ms);
/* Appends it compact (SnapshotSave) or indented by two spaces (export), without a line end; `Peers`
 * is null. ERR_INVALID (text that is not UTF-8), ERR_FULL, ERR_NOMEM. */
enum err fleet_meta_write(const struct fleet_meta *meta, bool indented, struct buf *into);
/* Members that are missing stay zero, but an index of 0 is ERR_INVALID: "not a valid coordinator
 * snapshot". Unknown members, `Peers` and `CRC` are ignored. ERR_PARSE, ERR_TOO_LARGE. */
enum err fleet_meta_read(struct str text, struct fleet_meta *ret_meta, struct note *note);
#endif
