/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the fleet: stored rows, and the division into files.
 *
 *   order.c   sorted sets of rows         rows.c    making, hashing and dropping rows
 *   apply.c   effects of commands         read.c    lookups and walks
 *   view.c    views                       result.c  times, names and messages
 *
 * A row is reference-counted. Its table holds a reference, and so does each open view to which it
 * was handed. A shard is also referenced by the rows that point to it, so that a view can name the
 * shard of a row after both have left their tables. */
#ifndef FLEET_CORE_INTERNAL_H
#define FLEET_CORE_INTERNAL_H
#include "fleet/core/fleet.h"

struct table_row {
    uint32_t holders;
    uint32_t born; /* number of the newest view at creation; the row is part of later views only */
};
/* A text that rows share: the key of domains, of which most fleets have a handful; or a shard,
 * registered or not, that domains are leaving. */
struct name {
    uint32_t holders;
    uint16_t len;
    uint64_t hash;     /* of a key: initial hash of its domains */
    struct order rows; /* of a shard: its leaving domains */
    char text[];
};
/* Each row is one block of memory: the fixed part, then its own texts, whose lengths are `lens`. */
struct shard_row {
    struct table_row row;
    struct fleet_time registered_at, last_heartbeat;
    struct order clusters, domains; /* rows in the tables that point to this shard */
    uint16_t lens[2];
    char text[]; /* id, address */
};
struct cluster_row {
    struct table_row row;
    struct shard_row *shard;
    uint16_t lens[1];
    char text[];
};
struct domain_row {
    struct table_row row;
    struct name *label;
    struct shard_row *shard;
    uint16_t lens[1];
    char text[]; /* value */
};
struct leaving_row {
    struct table_row row;
    struct name *leaver;
    uint64_t since;
    uint16_t lens[2];
    char text[]; /* key, value, length of the key as two bytes: unique per domain */
};
/* Longest text of a leaving row, for lookups. */
enum { LEAVING_TEXT_MAX = FLEET_LABEL_KEY_MAX + FLEET_LABEL_VALUE_MAX + 2 };
struct quota_row {
    struct table_row row;
    struct fleet_slice *slices; /* a separate block, which includes the names of the shards */
    size_t slice_count, slice_bytes;
    uint16_t lens[2];
    char text[]; /* provider, region */
};
struct provider_row {
    struct table_row row;
    uint16_t lens[3];
    char text[]; /* name, address, region */
};

struct fleet {
    uint64_t bytes;
    struct order_kind kinds[FLEET_TABLES], name_kind;
    struct order tables[FLEET_TABLES];
    struct order labels, leavers; /* sets of struct name */
    uint64_t sum;                 /* sum of the rows' hashes */
    uint64_t changes;
    uint32_t view_number; /* number of the newest view */
    struct fleet_view *views[FLEET_VIEWS_MAX];
};

/* -- rows.c -- */
struct order_key row_key(enum fleet_table table, const void *row);
uint64_t row_hash(enum fleet_table table, const void *row);
void row_show(enum fleet_table table, const void *row, struct fleet_row *ret_row);
void row_drop(struct fleet *fleet, enum fleet_table table, void *row); /* releases one reference */
/* Releases all rows of the set and empties the set. */
void rows_drop(struct fleet *fleet, enum fleet_table table, struct order *order);
/* Makes a row with one reference, in no table. A row that points to `shard` also references the
 * shard. NULL: no memory. */
void *row_make(struct fleet *fleet, const struct fleet_row *from, struct shard_row *shard);
/* The owner's set that contains the row; the owner is a shard or a name. NULL: no owner. */
struct order *row_owned(enum fleet_table table, void *row);
/* False: longer than any domain's text. */
bool leaving_text(struct str key, struct str value, char text[LEAVING_TEXT_MAX],
                  struct str *ret_text);
struct name *name_find(const struct order *names, struct str text); /* NULL: none */
/* NULL: not assigned. */
struct domain_row *domain_find(const struct fleet *fleet, struct str key, struct str value);
void fleet_kinds_init(struct fleet *fleet);
struct str shard_row_id(const struct shard_row *shard);

/* -- view.c -- */
/* Call before `row` leaves its table. Hands the row to every view that has not emitted it yet. */
void views_keep(struct fleet *fleet, enum fleet_table table, struct table_row *row);
void views_cancel(struct fleet *fleet);
#endif
