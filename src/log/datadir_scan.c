/* SPDX-License-Identifier: Apache-2.0 */
/* Reads log and newest snapshot: last index and term, this replica's addresses, whether the log
 * continues the snapshot. Replaced entries do not count. */
#include <string.h>

#include "log/datadir_internal.h"

enum { ADDRESSES_MAX = 16 << 20 }; /* bytes; enough for 60,000 configurations */

void datadir_scan_init(struct datadir_scan *scan, uint64_t self)
{
    *scan = (struct datadir_scan){.self = self};
    buf_init(&scan->addresses, ADDRESSES_MAX);
}

void datadir_scan_deinit(struct datadir_scan *scan)
{
    buf_deinit(&scan->addresses);
}

enum err datadir_scan_snapshot(struct datadir_scan *scan, struct fs *fs, const char *dir,
                               struct note *note)
{
    char name[SNAP_NAME_CAP];
    enum err err = snap_newest(fs, dir, name, &scan->snapshot, note);
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

static void addresses_cut(struct datadir_scan *scan, uint64_t index)
{
    struct datadir_address address;
    while (scan->addresses.len > 0) {
        size_t at = scan->addresses.len - sizeof address;
        memcpy(&address, scan->addresses.data + at, sizeof address);
        if (address.index < index) break;
        scan->addresses.len = at;
    }
}

static enum err addresses_add(struct datadir_scan *scan, const struct entry *entry)
{
    struct members members;
    struct datadir_address address = {.index = entry->index};
    enum err err = members_decode(entry->bytes, &members);
    if (err) return err == ERR_NOMEM ? err : ERR_CORRUPT;
    const struct member *self = members_find(&members, scan->self);
    if (self) memcpy(address.address, self->address, sizeof address.address);
    return buf_append(&scan->addresses, str_of(&address, sizeof address));
}

enum err datadir_scan_found(void *context, const struct wal_found *found)
{
    struct datadir_scan *scan = context;
    const struct entry *entry = &found->entry;
    const struct snapshot_mark *mark = &scan->snapshot.mark;
    if (found->reset) {
        addresses_cut(scan, 0);
        scan->first = 0;
        scan->last = entry->index;
        scan->last_term = entry->term;
        scan->term_at_snapshot = entry->index == mark->index ? entry->term : 0;
        return ERR_OK;
    }
    if (scan->first == 0 || entry->index < scan->first) scan->first = entry->index;
    /* The term before a replaced entry is unknown here. */
    if (entry->index == scan->last + 1 && entry->term < scan->last_term && !scan->term_back)
        scan->term_back = entry->index;
    if (entry->index <= mark->index) scan->term_at_snapshot = 0;
    if (entry->index == mark->index) scan->term_at_snapshot = entry->term;
    if (scan->term_back >= entry->index && entry->index <= scan->last) scan->term_back = 0;
    scan->last = entry->index;
    scan->last_term = entry->term;
    addresses_cut(scan, entry->index);
    return entry->kind == ENTRY_CHANGE ? addresses_add(scan, entry) : ERR_OK;
}

enum datadir_join datadir_join(const struct snapshot_mark *mark, uint64_t first, uint64_t last,
                               uint64_t term_at_mark)
{
    assert(first <= last + 1);
    if (first > mark->index + 1) return DATADIR_GAP;
    if (first == mark->index + 1) return DATADIR_JOINS;
    return last >= mark->index && term_at_mark == mark->term ? DATADIR_JOINS : DATADIR_STALE;
}

enum datadir_join datadir_scan_join(const struct datadir_scan *scan)
{
    uint64_t first = scan->first ? scan->first : scan->last + 1;
    return datadir_join(&scan->snapshot.mark, first, scan->last, scan->term_at_snapshot);
}

const char *datadir_scan_address(const struct datadir_scan *scan)
{
    const char *address = NULL;
    for (size_t at = 0; at < scan->addresses.len; at += sizeof(struct datadir_address)) {
        const char *here = scan->addresses.data + at + offsetof(struct datadir_address, address);
        if (here[0]) address = here;
    }
    if (address) return address;
    const struct member *self = members_find(&scan->snapshot.mark.members, scan->self);
    return self ? self->address : NULL;
}
