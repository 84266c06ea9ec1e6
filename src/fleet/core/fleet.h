/* SPDX-License-Identifier: Apache-2.0 */
/* The fleet's replicated state: six tables, the eight commands that change the tables, and the
 * owner of each row. Machines, reports and instructions belong to the service.
 *
 * Pure: no clock, randomness, I/O or globals. The proposer sets the times in a command. The same
 * commands in the same order produce the same tables and the same hash on every replica.
 *
 * A row never changes: a command adds a row, removes one, or replaces one by a new row. If a row is
 * removed before a view has reached the row, the view owns the row. A snapshot therefore shows one
 * moment, copies nothing, and blocks no commands.
 *
 * A domain that was taken from a shard is leaving until the shard acknowledges (design.md section
 * 6), even if the shard was removed. Until then only a forced command assigns the domain to another
 * shard.
 *
 * Heartbeats are not replicated: each replica has its own, in no hash and no command. A leader
 * clears them when its leadership begins.
 *
 * One owner and one thread use a fleet. Texts in commands are copied. Texts in rows and results are
 * valid until the next call that changes the fleet. */
#ifndef FLEET_CORE_FLEET_H
#define FLEET_CORE_FLEET_H
#include "base/buf.h"
#include "base/note.h"
#include "base/order.h"

/* Longer texts are refused (FLEET_TOO_LONG). */
enum {
    FLEET_ID_MAX = 253,      /* id of a shard, cluster, provider or region */
    FLEET_ADDRESS_MAX = 512, /* may be empty */
    FLEET_LABEL_KEY_MAX = 512,
    FLEET_LABEL_VALUE_MAX = 512,
    FLEET_SLICES_MAX = 16384, /* shards in a quota row */
};
/* The most rows per table. A command that would add more is refused (FLEET_FULL). */
enum {
    FLEET_SHARDS_MAX = 65536,
    FLEET_CLUSTERS_MAX = 4 << 20,
    FLEET_DOMAINS_MAX = 16 << 20, /* sum of assigned and leaving domains */
    FLEET_QUOTAS_MAX = 65536,
    FLEET_PROVIDERS_MAX = 65536,
    FLEET_LEAVERS_MAX = 16, /* shards that a domain may be leaving at a time */
    /* Views at a time: the log's snapshot, an export, a stream (two), two lists of table rows. */
    FLEET_VIEWS_MAX = 6,
};

/* -- time -- */
/* A time in UTC since 0001-01-01T00:00:00Z. Zero is the specification's unset time. */
struct fleet_time {
    int64_t seconds; /* up to the end of 9999 */
    uint32_t nanos;  /* less than 1e9 */
};
#define FLEET_TIME_UNIX        62135596800LL  /* seconds at 1970-01-01 */
#define FLEET_TIME_SECONDS_MAX 315537897599LL /* 9999-12-31T23:59:59Z */
bool fleet_time_is_set(struct fleet_time time);
/* 0 means unset on both sides (wire.md 4.4). A time out of range becomes the nearest time in
 * range. */
struct fleet_time fleet_time_from_unix_ns(int64_t ns);
int64_t fleet_time_to_unix_ns(struct fleet_time time);

/* -- rows, in commands and for readers -- */
struct fleet_shard {
    struct str id, address;
    struct fleet_time registered_at;
    struct fleet_time last_heartbeat; /* of this replica; ignored in commands */
    uint32_t clusters, domains;       /* numbers of owned rows; ignored in commands */
};
struct fleet_cluster {
    struct str id, shard;
};
struct fleet_domain {
    struct str key, value, shard;
};
struct fleet_leaving { /* a domain whose removal `shard` must still acknowledge */
    struct str key, value, shard;
    uint64_t since; /* log index of the command that took the domain */
};
struct fleet_slice {
    struct str shard; /* the shard may be unregistered */
    int32_t slice;
};
struct fleet_quota {
    struct str provider, region;
    const struct fleet_slice *slices; /* sorted by shard, except in commands */
    size_t slice_count;
};
struct fleet_provider {
    struct str name, address, region;
};
enum fleet_table {
    FLEET_SHARDS, /* views and restores use the order of this enum */
    FLEET_CLUSTERS,
    FLEET_DOMAINS,
    FLEET_QUOTAS,
    FLEET_PROVIDERS,
    FLEET_LEAVING, /* used from cluster level 4 */
    FLEET_TABLES
};
enum { FLEET_TEXTS_MAX = 3 };
/* The number of texts of a table's rows. */
extern const uint8_t fleet_row_texts[FLEET_TABLES];
/* The row as bytes. Copy these, because assigning one member of the union would not copy its
 * padding. */
struct fleet_content {
    unsigned char bytes[sizeof(struct fleet_shard)];
};
static_assert(sizeof(struct fleet_shard) >= sizeof(struct fleet_quota) &&
                  sizeof(struct fleet_shard) >= sizeof(struct fleet_leaving),
              "the largest row");
struct fleet_row {
    enum fleet_table table;
    union {
        struct str texts[FLEET_TEXTS_MAX]; /* the texts at the beginning of each struct below */
        struct fleet_shard shard;
        struct fleet_cluster cluster;
        struct fleet_domain domain;
        struct fleet_quota quota;
        struct fleet_provider provider;
        struct fleet_leaving leaving;
        struct fleet_content content;
    };
};
struct fleet_counts {
    uint32_t of[FLEET_TABLES];
};

/* -- commands -- */
/* The specification's numbers, which are part of the log's format. */
enum fleet_kind {
    FLEET_ADD_SHARD = 1,
    FLEET_REMOVE_SHARD,
    FLEET_BIND_CLUSTER,
    FLEET_ASSIGN_DOMAIN,
    FLEET_UNASSIGN_DOMAIN,
    FLEET_SET_QUOTA,
    FLEET_UPSERT_PROVIDER,
    FLEET_CLEAR_LEAVING, /* not in the original program; needs cluster level 4 */
    FLEET_KIND_LAST = FLEET_CLEAR_LEAVING
};
/* From this cluster level on, domains taken by UnassignDomain or RemoveShard become leaving. */
enum { FLEET_LEAVING_LEVEL = 4 };
struct fleet_command {
    enum fleet_kind kind;
    bool force; /* for AssignDomain: do not wait for acknowledgements */
    union {
        struct str texts[FLEET_TEXTS_MAX]; /* the command's first texts, as in struct fleet_row */
        struct fleet_shard add_shard;
        struct str remove_shard;
        struct fleet_cluster bind_cluster;
        struct fleet_domain assign_domain;
        struct fleet_domain unassign_domain; /* the field `shard` is ignored */
        struct fleet_quota set_quota;
        struct fleet_provider upsert_provider;
        struct fleet_leaving clear_leaving; /* no effect unless `since` matches */
        struct fleet_content content;       /* same as in struct fleet_row */
    };
};
const char *fleet_kind_name(enum fleet_kind kind); /* "?" for an unknown kind */
size_t fleet_kind_texts(enum fleet_kind kind);
enum fleet_table fleet_kind_table(enum fleet_kind kind);
/* The command that adds the row. For a leaving domain, the command that removes the row (see
 * fleet_put). */
struct fleet_command fleet_row_command(const struct fleet_row *row);

/* -- results -- */
/* clang-format off */
/*    name                text                                        as an error of the service */
#define FLEET_STATUS_MAP(X)                                                                      \
    X(DONE,               "done",                                     OK)                        \
    X(UNREADABLE,         "command cannot be read",                   PARSE)                     \
    X(UNKNOWN_KIND,       "unknown command kind",                     UNSUPPORTED)               \
    X(PAYLOAD_MISSING,    "command without its payload",              INVALID)                   \
    X(SHARD_ID_EMPTY,     "shard id is empty",                        INVALID)                   \
    X(SHARD_EXISTS,       "shard exists",                             EXISTS)                    \
    X(SHARD_NOT_FOUND,    "shard not found",                          NOT_FOUND)                 \
    X(CLUSTER_BOUND,      "cluster already bound",                    EXISTS)                    \
    X(DOMAIN_ASSIGNED,    "domain already assigned",                  EXISTS)                    \
    X(PROVIDER_NAME_EMPTY, "provider name is empty",                  INVALID)                   \
    X(TOO_LONG,           "longer than the limit",                    INVALID)                   \
    X(NOT_TEXT,           "not UTF-8",                                INVALID)                   \
    X(BAD_TIME,           "time out of range",                        INVALID)                   \
    X(FULL,               "table is full",                            FULL)                      \
    X(NO_MEMORY,          "out of memory",                            NOMEM)                     \
    X(DOMAIN_LEAVING,     "domain not given up yet",                  PRECONDITION)
/* clang-format on */
/* The numbers are part of the reply's format: only append. */
enum fleet_status {
#define X(name, text, err) FLEET_##name,
    FLEET_STATUS_MAP(X)
#undef X
        FLEET_STATUS_COUNT
};
struct fleet_result {
    enum fleet_status status;
    bool changed; /* false: the command was refused or had no effect */
    /* CLUSTER_BOUND, DOMAIN_ASSIGNED: the current owner.
     * UnassignDomain: the former owner, or empty.
     * DOMAIN_LEAVING: the shard that has not acknowledged. */
    struct str holder;
    /* Name of the wrong field for TOO_LONG, NOT_TEXT, FULL, BAD_TIME; otherwise "". */
    const char *field;
    uint64_t number; /* UNKNOWN_KIND: the kind; TOO_LONG and FULL: the limit */
    uint32_t clusters_freed, domains_freed; /* rows that RemoveShard removed with the shard */
};
const char *fleet_status_text(enum fleet_status status); /* such as "shard exists"; never NULL */
enum err fleet_status_err(enum fleet_status status);
/* Describes the result for people: "domain already assigned: rack=r-1: current shard-a, requested
 * shard-b". `command` is NULL if it could not be decoded. */
void fleet_result_text(const struct fleet_command *command, const struct fleet_result *result,
                       struct note *ret_text);

/* -- opening, closing and applying commands -- */
struct fleet;
enum err fleet_open(struct fleet **ret_fleet); /* with empty tables; ERR_NOMEM */
void fleet_close(struct fleet *fleet);         /* NULL is allowed; no view may be open */
void fleet_clear(struct fleet *fleet);         /* open views fail with ERR_CANCELLED */
/* Commands follow section 5 of the specification. A refused command changes nothing. A replica must
 * stop on NO_MEMORY, because it would differ from other replicas. */
struct fleet_entry {
    uint64_t index;
    uint32_t level; /* cluster level; see FLEET_LEAVING_LEVEL */
};
struct fleet_result fleet_apply_entry(struct fleet *fleet, const struct fleet_command *command,
                                      struct fleet_entry entry);
/* Applies the command by the rules of cluster level 1. */
struct fleet_result fleet_apply(struct fleet *fleet, const struct fleet_command *command);
/* For a restore. */
struct fleet_result fleet_put(struct fleet *fleet, const struct fleet_row *row);

/* -- heartbeats: each replica has its own -- */
bool fleet_heartbeat(struct fleet *fleet, struct str shard,
                     struct fleet_time now); /* false: unknown shard */
void fleet_heartbeats_clear(struct fleet *fleet);

/* -- reading -- */
/* Finds a row by its key: id or name; key and value of a domain; or provider and region of a quota.
 * O(log n). Not for leaving domains. */
bool fleet_find(const struct fleet *fleet, enum fleet_table table, struct str first,
                struct str second, struct fleet_row *ret_row);
/* How many shards, except `except`, the domain is leaving. *ret_leaving is the first row. */
uint32_t fleet_find_leaving(const struct fleet *fleet, struct str key, struct str value,
                            struct str except, struct fleet_leaving *ret_leaving);
uint32_t fleet_count_leaving(const struct fleet *fleet, struct str shard);
struct fleet_counts fleet_counts(const struct fleet *fleet);
uint64_t fleet_hash(const struct fleet *fleet);  /* of the replicated rows; O(1) */
uint64_t fleet_bytes(const struct fleet *fleet); /* memory in use, also by rows kept for views */

/* The position in a walk; {0} at the start. The fleet must not change during a walk (asserted). */
struct fleet_walk {
    struct order_place place;
    const void *owner;
    uint64_t changes;
    bool begun;
};
/* The next row in byte order; false at the end. The order is by name, or:
 * - domains: key, value
 * - quotas: provider, region
 * - leaving domains: key and value joined, shard */
bool fleet_next(const struct fleet *fleet, enum fleet_table table, struct fleet_walk *walk,
                struct fleet_row *ret_row);
/* Finds the next assignment, in the order of ListDomainAssignments: shard, key, value (wire.md
 * 4.4). */
bool fleet_next_assignment(const struct fleet *fleet, struct fleet_walk *walk,
                           struct fleet_row *ret_row);
/* Finds the next cluster or domain of the shard, or the next domain that is leaving the shard. A
 * leaving domain's shard may be unregistered. */
bool fleet_next_of(const struct fleet *fleet, enum fleet_table table, struct fleet_walk *walk,
                   struct str shard, struct fleet_row *ret_row);

/* -- views: all rows at one moment, read while commands are applied -- */
struct fleet_view;
enum err fleet_view_open(struct fleet *fleet,
                         struct fleet_view **ret_view); /* ERR_FULL, ERR_NOMEM */
/* Returns rows in the same order on every replica: by table, as in enum fleet_table, then in the
 * order of the table. *ret_more false: no row is left. The row is valid until the next call for the
 * fleet or the view. ERR_NOMEM (a removed row could not be kept) and ERR_CANCELLED (fleet_clear)
 * are final. */
enum err fleet_view_next(struct fleet_view *view, struct fleet_row *ret_row, bool *ret_more);
struct fleet_counts fleet_view_counts(const struct fleet_view *view);
uint64_t fleet_view_hash(const struct fleet_view *view); /* the hash when the view was opened */
void fleet_view_close(struct fleet_view *view);          /* before fleet_close(); NULL is allowed */
#endif
