/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the fleet: stored rows, and what each file does.
 *
 *   order.c   sorted sets of rows         rows.c    making, hashing and dropping rows
 *   apply.c   effects of commands         read.c    lookups and walks
 *   view.c    views                       result.c  times, names and messages
 *
 * Rows are reference-counted. A row's table and each view that keeps the row hold a reference. A
 * row also references its shard, so that a view can name a removed shard. */
#ifndef FLEET_CORE_INTERNAL_H
#define FLEET_CORE_INTERNAL_H
#include "fleet/core/fleet.h"

struct table_row {
    uint32_t holders;
    uint32_t born; /* number of the newest view when the row was made */
};
/* A text that rows share: a key of domains, or the id of a shard that domains are leaving. */
struct name {
    uint32_t holders;
    uint16_t len;
    uint64_t hash;     /* for a key: the start of its domains' hashes */
    struct order rows; /* for a shard id: the domains leaving the shard */
    char text[];
};
/* One block of memory: the struct, then the row's own texts, whose lengths are in `lens`. */
struct shard_row {
    struct table_row row;
    struct fleet_time registered_at, last_heartbeat;
    struct order clusters, domains; /* rows of these tables that point to this shard */
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
    char text[]; /* key, value, the key's length in two bytes: unique per domain */
};
/* In bytes. */
enum { LEAVING_TEXT_MAX = FLEET_LABEL_KEY_MAX + FLEET_LABEL_VALUE_MAX + 2 };
struct quota_row {
    struct table_row row;
    struct fleet_slice *slices; /* a separate block, with the names of the shards */
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
    uint32_t view_number;
    struct fleet_view *views[FLEET_VIEWS_MAX];
};

/* -- rows.c -- */
struct order_key row_key(enum fleet_table table, const void *row);
uint64_t row_hash(enum fleet_table table, const void *row);
void row_show(enum fleet_table table, const void *row, struct fleet_row *ret_row);
void row_drop(struct fleet *fleet, enum fleet_table table, void *row); /* drops one reference */
void rows_drop(struct fleet *fleet, enum fleet_table table, struct order *order);
/* Makes a row with one reference, in no table. NULL if memory runs out. */
void *row_make(struct fleet *fleet, const struct fleet_row *from, struct shard_row *shard);
/* The set of rows of the row's owner (a shard or a name), or NULL. */
struct order *row_owned(enum fleet_table table, void *row);
/* Writes the text of a leaving domain. False if key and value are too long. */
bool leaving_text(struct str key, struct str value, char text[LEAVING_TEXT_MAX],
                  struct str *ret_text);
struct name *name_find(const struct order *names, struct str text); /* NULL: none */
/* NULL: not assigned. */
struct domain_row *domain_find(const struct fleet *fleet, struct str key, struct str value);
void fleet_kinds_init(struct fleet *fleet);
struct str shard_row_id(const struct shard_row *shard);

/* -- view.c -- */
/* Call before `row` leaves its table. Views that have not returned the row keep the row. */
void views_keep(struct fleet *fleet, enum fleet_table table, struct table_row *row);
void views_cancel(struct fleet *fleet);
#endif
