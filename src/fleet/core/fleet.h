/* SPDX-License-Identifier: Apache-2.0 */
/* The fleet's replicated state: six tables, the eight commands that change them, and who owns what.
 *
 * This module decides only what a command does to the tables; machines, reports and instructions
 * belong to the service. Pure: no clock, no randomness, no I/O, no globals. Times are set by the
 * proposer and are part of the command; an unset registration time stays unset. The same commands
 * in the same order produce the same tables and the same hash everywhere.
 *
 * A row never changes: a command adds a row, removes one, or replaces one by a new row. Views rely
 * on that. A row that is removed before a view has reached it is handed to the view instead of
 * being freed. A snapshot therefore shows one moment without copies and without blocking commands.
 *
 * A domain that was taken from a shard stays in the table of leaving domains until the shard
 * acknowledges it (design.md section 6). Until then the domain can be assigned only to that shard,
 * unless the command is forced. The shard need not be registered: the domains of a removed shard
 * keep leaving it.
 *
 * The surprising rule: the last heartbeat of a shard is stored here for readers, but is not
 * replicated state. It is in no hash and no command, and each replica has its own. The leader sets
 * heartbeats, and clears them when it becomes leader.
 *
 * One owner, one thread. Texts in commands are copied. Texts in rows and results are borrowed, and
 * valid until the next call that changes the fleet. */
#ifndef FLEET_CORE_FLEET_H
#define FLEET_CORE_FLEET_H
#include "base/buf.h"
#include "base/note.h"
#include "base/order.h"

/* Longer texts are refused (FLEET_TOO_LONG). The limits are generous: a Kubernetes label has a key
 * of at most 317 bytes and a value of 63, a host name 253. */
enum {
    FLEET_ID_MAX = 253,      /* id of a shard, cluster, provider or region */
    FLEET_ADDRESS_MAX = 512, /* an address may be empty */
    FLEET_LABEL_KEY_MAX = 512,
    FLEET_LABEL_VALUE_MAX = 512,
    FLEET_SLICES_MAX = 16384, /* shards in a quota row */
};
/* Most rows per table. Every replica refuses a command that would add another row (FLEET_FULL). */
enum {
    FLEET_SHARDS_MAX = 65536,
    FLEET_CLUSTERS_MAX = 4 << 20,
    FLEET_DOMAINS_MAX = 16 << 20, /* assigned and leaving domains together */
    FLEET_QUOTAS_MAX = 65536,
    FLEET_PROVIDERS_MAX = 65536,
    FLEET_LEAVERS_MAX = 16, /* shards that a domain may be leaving at the same time */
    /* Views that may be open together: the log's snapshot, an export, a stream (two while it
     * measures), and a list of each of two tables. */
    FLEET_VIEWS_MAX = 6,
};

/* -- time -- */
/* UTC since 0001-01-01T00:00:00Z, so that zero is the specification's unset time. */
struct fleet_time {
    int64_t seconds; /* 0 to the end of the year 9999 */
    uint32_t nanos;  /* below 1e9 */
};
#define FLEET_TIME_UNIX        62135596800LL  /* seconds at 1970-01-01 */
#define FLEET_TIME_SECONDS_MAX 315537897599LL /* 9999-12-31T23:59:59Z */
bool fleet_time_is_set(struct fleet_time time);
/* Converts from and to nanoseconds since 1970. 0 means unset in both directions (wire.md 4.4).
 * Times out of range become the nearest time in range. */
struct fleet_time fleet_time_from_unix_ns(int64_t ns);
int64_t fleet_time_to_unix_ns(struct fleet_time time);

/* -- rows, in commands and for readers -- */
struct fleet_shard {
    struct str id, address;
    struct fleet_time registered_at;
    struct fleet_time last_heartbeat; /* for readers: this replica's value; ignored in commands */
    uint32_t clusters, domains;       /* for readers: number of owned rows; ignored in commands */
};
struct fleet_cluster {
    struct str id, shard;
};
struct fleet_domain {
    struct str key, value, shard;
};
struct fleet_leaving { /* a domain that `shard` has not acknowledged to have given up */
    struct str key, value, shard;
    uint64_t since; /* index of the log entry that took the domain from the shard */
};
struct fleet_slice {
    struct str shard; /* need not be registered */
    int32_t slice;
};
struct fleet_quota {
    struct str provider, region;
    const struct fleet_slice *slices; /* for readers: ascending by shard; in commands: any order */
    size_t slice_count;
};
struct fleet_provider {
    struct str name, address, region;
};
enum fleet_table {
    FLEET_SHARDS, /* in the order of views and restores */
    FLEET_CLUSTERS,
    FLEET_DOMAINS,
    FLEET_QUOTAS,
    FLEET_PROVIDERS,
    FLEET_LEAVING, /* from cluster level 4 */
    FLEET_TABLES
};
enum { FLEET_TEXTS_MAX = 3 };
/* How many texts the rows of a table begin with. */
extern const uint8_t fleet_row_texts[FLEET_TABLES];
/* All bytes of any row, for copying rows. Assigning another member would skip that member's
 * padding, where other members may have data. */
struct fleet_content {
    unsigned char bytes[sizeof(struct fleet_shard)];
};
static_assert(sizeof(struct fleet_shard) >= sizeof(struct fleet_quota) &&
                  sizeof(struct fleet_shard) >= sizeof(struct fleet_leaving),
              "the largest row");
struct fleet_row {
    enum fleet_table table;
    union {
        struct str texts[FLEET_TEXTS_MAX]; /* the row's texts, in the order of its struct */
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
/* the specification's numbers; part of the log's format */
enum fleet_kind {
    FLEET_ADD_SHARD = 1,
    FLEET_REMOVE_SHARD,
    FLEET_BIND_CLUSTER,
    FLEET_ASSIGN_DOMAIN,
    FLEET_UNASSIGN_DOMAIN,
    FLEET_SET_QUOTA,
    FLEET_UPSERT_PROVIDER,
    FLEET_CLEAR_LEAVING, /* added by muster, from cluster level 4 */
    FLEET_KIND_LAST = FLEET_CLEAR_LEAVING
};
/* From this cluster level, UnassignDomain and RemoveShard make domains leaving. */
enum { FLEET_LEAVING_LEVEL = 4 };
struct fleet_command {
    enum fleet_kind kind;
    bool force; /* for AssignDomain: ignore missing acknowledgements of other shards */
    union {
        struct str texts[FLEET_TEXTS_MAX]; /* same as in struct fleet_row */
        struct fleet_shard add_shard;
        struct str remove_shard;
        struct fleet_cluster bind_cluster;
        struct fleet_domain assign_domain;
        struct fleet_domain unassign_domain; /* the shard is ignored */
        struct fleet_quota set_quota;
        struct fleet_provider upsert_provider;
        struct fleet_leaving clear_leaving; /* no effect unless `since` matches */
        struct fleet_content content;       /* same as in struct fleet_row */
    };
};
const char *fleet_kind_name(enum fleet_kind kind); /* "AddShard"; "?" for another number */
size_t fleet_kind_texts(enum fleet_kind kind);     /* how many texts its commands begin with */
enum fleet_table fleet_kind_table(enum fleet_kind kind); /* the table that its commands change */
/* The command that puts the row into its table. A leaving domain has no such command (fleet_put);
 * for it, the command that removes the row. */
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
/* the numbers are part of the reply's format: append only */
enum fleet_status {
#define X(name, text, err) FLEET_##name,
    FLEET_STATUS_MAP(X)
#undef X
        FLEET_STATUS_COUNT
};
struct fleet_result {
    enum fleet_status status;
    bool changed; /* false: refused, or already in that state */
    struct str
        holder; /* CLUSTER_BOUND, DOMAIN_ASSIGNED: the current shard. UnassignDomain: the former
                 * owner, or empty. DOMAIN_LEAVING: the shard that has not acknowledged */
    const char *field; /* TOO_LONG, NOT_TEXT, FULL, BAD_TIME: the field; static text; else "" */
    uint64_t number;   /* UNKNOWN_KIND: the number; TOO_LONG, FULL: the limit */
    uint32_t clusters_freed, domains_freed; /* for RemoveShard: rows removed with the shard */
};
const char *fleet_status_text(enum fleet_status status); /* "shard exists"; never NULL */
/* the error that determines gRPC status and exit code */
enum err fleet_status_err(enum fleet_status status);
/* Describes the result for people: the request and what prevents it, for example "domain already
 * assigned: rack=r-1: current shard-a, requested shard-b". `command` may be NULL if it could not be
 * decoded. */
void fleet_result_text(const struct fleet_command *command, const struct fleet_result *result,
                       struct note *ret_text);

/* -- life cycle and writing -- */
struct fleet;
enum err fleet_open(struct fleet **ret_fleet); /* empty; ERR_NOMEM */
void fleet_close(struct fleet *fleet);         /* NULL is fine; no view may be open */
void fleet_clear(struct fleet *fleet);         /* open views fail with ERR_CANCELLED */
/* Apply follows section 5 of the specification. Unless DONE, the tables are unchanged. Only the
 * status NO_MEMORY does not follow from the commands, so a replica must stop on it. */
struct fleet_entry { /* the log entry with the command */
    uint64_t index;
    uint32_t level; /* cluster level; below FLEET_LEAVING_LEVEL no domain becomes leaving */
};
struct fleet_result fleet_apply_entry(struct fleet *fleet, const struct fleet_command *command,
                                      struct fleet_entry entry);
/* Applies by the rules of level 1. */
struct fleet_result fleet_apply(struct fleet *fleet, const struct fleet_command *command);
/* Adds a row during a restore. */
struct fleet_result fleet_put(struct fleet *fleet, const struct fleet_row *row);

/* -- heartbeats: this replica's own -- */
bool fleet_heartbeat(struct fleet *fleet, struct str shard,
                     struct fleet_time now); /* false: no such shard */
void fleet_heartbeats_clear(struct fleet *fleet);

/* -- reading -- */
/* Finds a row by the key of its table: id or name; key and value of a domain; provider and region
 * of a quota. False: not found; *ret_row is unchanged. O(log n). Leaving domains:
 * fleet_find_leaving. */
bool fleet_find(const struct fleet *fleet, enum fleet_table table, struct str first,
                struct str second, struct fleet_row *ret_row);
/* How many shards other than `except` the domain is leaving, and the first in byte order. */
uint32_t fleet_find_leaving(const struct fleet *fleet, struct str key, struct str value,
                            struct str except, struct fleet_leaving *ret_leaving);
/* How many domains wait for this shard's acknowledgement. */
uint32_t fleet_count_leaving(const struct fleet *fleet, struct str shard);
struct fleet_counts fleet_counts(const struct fleet *fleet);
uint64_t fleet_hash(const struct fleet *fleet);  /* hash of the replicated content; kept current */
uint64_t fleet_bytes(const struct fleet *fleet); /* memory in use, including rows kept by views */

/* A position in a walk: start with {0}. A change of the fleet invalidates it (asserted). */
struct fleet_walk {
    struct order_place place;
    const void *owner;
    uint64_t changes;
    bool begun;
};
/* The next row in byte order, false at the end. Shards, clusters and providers are ordered by name,
 * domains by key then value, quotas by provider then region; leaving domains by key and value
 * joined, then shard. */
bool fleet_next(const struct fleet *fleet, enum fleet_table table, struct fleet_walk *walk,
                struct fleet_row *ret_row);
/* Domains by shard, then key, then value (the order of ListDomainAssignments, wire.md 4.4). */
bool fleet_next_assignment(const struct fleet *fleet, struct fleet_walk *walk,
                           struct fleet_row *ret_row);
/* The clusters or domains of one shard, none if it is not registered; or the domains that are
 * leaving a shard, registered or not. */
bool fleet_next_of(const struct fleet *fleet, enum fleet_table table, struct fleet_walk *walk,
                   struct str shard, struct fleet_row *ret_row);

/* -- views: all rows at one moment, read while commands are applied -- */
struct fleet_view;
enum err fleet_view_open(struct fleet *fleet,
                         struct fleet_view **ret_view); /* ERR_FULL, ERR_NOMEM */
/* Tables come in the order of enum fleet_table, rows in the order of their table. The same content
 * therefore gives the same rows in the same order on every replica. *ret_more false: no row is left
 * and *ret_row is unchanged. The row is valid until the next call for the fleet or the view.
 * ERR_NOMEM (a removed row could not be kept), ERR_CANCELLED (fleet_clear): final. */
enum err fleet_view_next(struct fleet_view *view, struct fleet_row *ret_row, bool *ret_more);
struct fleet_counts fleet_view_counts(const struct fleet_view *view);
uint64_t fleet_view_hash(const struct fleet_view *view); /* fleet_hash() at that moment */
void fleet_view_close(struct fleet_view *view); /* call before fleet_close(); NULL is fine */
#endif
