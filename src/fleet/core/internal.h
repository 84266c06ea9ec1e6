/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the fleet: rows as they are kept, and who owns what among the files.
 *
 *   order.c   sorted sets of rows         rows.c    making, hashing and dropping rows
 *   apply.c   what a command does         read.c    lookups and walks
 *   view.c    views                       result.c  times, names and sentences
 *
 * A row is counted: its table holds it, each open view that was handed it holds it, and a shard is
 * also held by the rows that point at it, so that a view can still name the shard of a row when
 * both have left their tables. */
#ifndef FLEET_CORE_INTERNAL_H
#define FLEET_CORE_INTERNAL_H
#include "fleet/core/fleet.h"

struct table_row {
    uint32_t holders;
    uint32_t born; /* number of the newest view when it was made: it is in later ones only */
};
/* A text that rows share: the key of domains, of which most fleets know a handful; a shard,
 * registered or not, that domains are leaving. */
struct name {
    uint32_t holders;
    uint16_t len;
    uint64_t hash;     /* of a key: what the hash of its domains begins with */
    struct order rows; /* of a shard: leaving domains that are in the table */
    char text[];
};
/* Each row is one block of memory: the fixed part, then its own texts. `lens` are theirs. */
struct shard_row {
    struct table_row row;
    struct fleet_time registered_at, last_heartbeat;
    struct order clusters, domains; /* rows that point here and are in their tables */
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
    char text[]; /* key, value, length of the key as two bytes: no two domains have the same text */
};
/* The text of a leaving row, for lookups. */
enum { LEAVING_TEXT_MAX = FLEET_LABEL_KEY_MAX + FLEET_LABEL_VALUE_MAX + 2 };
struct quota_row {
    struct table_row row;
    struct fleet_slice *slices; /* a block of its own, with their shards */
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
    struct order labels, leavers; /* of names */
    uint64_t sum;                 /* of the rows' hashes */
    uint64_t changes;
    uint32_t view_number; /* of the newest view ever opened */
    struct fleet_view *views[FLEET_VIEWS_MAX];
};

/* -- rows.c -- */
struct order_key row_key(enum fleet_table table, const void *row);
uint64_t row_hash(enum fleet_table table, const void *row);
void row_show(enum fleet_table table, const void *row, struct fleet_row *ret_row);
void row_drop(struct fleet *fleet, enum fleet_table table, void *row); /* by one holder */
/* All of the set, which is empty then. */
void rows_drop(struct fleet *fleet, enum fleet_table table, struct order *order);
/* A row held once and in no table yet; `shard`, for a row that points at one, is held, too. NULL:
 * out of memory. */
void *row_make(struct fleet *fleet, const struct fleet_row *from, struct shard_row *shard);
/* What a shard, or a name, has of the row's table; NULL: the row belongs to nobody. */
struct order *row_owned(enum fleet_table table, void *row);
/* False: longer than any domain's. */
bool leaving_text(struct str key, struct str value, char text[LEAVING_TEXT_MAX],
                  struct str *ret_text);
struct name *name_find(const struct order *names, struct str text); /* NULL: none */
/* NULL: not assigned. */
struct domain_row *domain_find(const struct fleet *fleet, struct str key, struct str value);
void fleet_kinds_init(struct fleet *fleet);
struct str shard_row_id(const struct shard_row *shard);

/* -- view.c -- */
/* Before `row` leaves its table: every view that has yet to give it gets it to hold. */
void views_keep(struct fleet *fleet, enum fleet_table table, struct table_row *row);
void views_cancel(struct fleet *fleet);
#endif
