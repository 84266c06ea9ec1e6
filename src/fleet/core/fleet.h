/* SPDX-License-Identifier: Apache-2.0 */
/* Who owns what: the six replicated tables of the fleet and the eight commands that change them.
 *
 * It decides what a command does to the tables and nothing else; machines, reports and
 * instructions are the service's. Pure: no clock, no randomness, no I/O, no globals. Times are
 * the proposer's and travel inside the command; a registration time that is unset stays unset.
 * The same commands in the same order give the same tables and the same hash everywhere.
 *
 * Rows never change: a command adds one, removes one, or puts a new one in an old one's place. A
 * view (below) relies on that: a row that is removed before the view came to it is given to the view
 * instead of freed, so a snapshot is of one moment, costs no copy, and stops nobody.
 *
 * A domain that was taken from a shard stays in the table of leaving domains until that shard
 * acknowledges it (design.md section 6). Until then only that shard can be given the domain, unless
 * the command is forced. The shard need not be registered: RemoveShard leaves its domains leaving.
 *
 * The surprising rule: the last heartbeat of a shard is kept here for readers, but it is no part of
 * the replicated state: not in the hash, not in a command, and each replica has its own. The leader
 * sets it, and clears all of them when it becomes leader.
 *
 * One owner, one thread. Texts in commands are copied; texts in rows and results are borrowed,
 * valid until the next call that changes the fleet. */
#ifndef FLEET_CORE_FLEET_H
#define FLEET_CORE_FLEET_H
#include "base/buf.h"
#include "base/note.h"
#include "base/order.h"

/* Texts longer than this are refused (FLEET_TOO_LONG); generous beside what is in use: a
 * Kubernetes label has a key of at most 317 bytes and a value of 63, a host name 253. */
enum {
    FLEET_ID_MAX = 253,      /* shard, cluster, provider, region */
    FLEET_ADDRESS_MAX = 512, /* may be empty */
    FLEET_LABEL_KEY_MAX = 512,
    FLEET_LABEL_VALUE_MAX = 512,
    FLEET_SLICES_MAX = 16384, /* shards in one quota row */
};
/* Rows; past it a command that adds one is refused (FLEET_FULL), the same on every replica. */
enum {
    FLEET_SHARDS_MAX = 65536,
    FLEET_CLUSTERS_MAX = 4 << 20,
    FLEET_DOMAINS_MAX = 16 << 20, /* assigned and leaving together */
    FLEET_QUOTAS_MAX = 65536,
    FLEET_PROVIDERS_MAX = 65536,
    FLEET_LEAVERS_MAX = 16, /* shards that one domain may be leaving at once */
    /* Open at once: the log's snapshot, an export, a stream (two while it measures), and a list of
     * each of two tables. */
    FLEET_VIEWS_MAX = 6,
};

/* -- time -- */
/* UTC since 0001-01-01T00:00:00Z, so that zero is the specification's "unset". */
struct fleet_time {
    int64_t seconds; /* 0 to the end of the year 9999 */
    uint32_t nanos;  /* below 1e9 */
};
#define FLEET_TIME_UNIX        62135596800LL  /* seconds at 1970-01-01 */
#define FLEET_TIME_SECONDS_MAX 315537897599LL /* 9999-12-31T23:59:59Z */
bool fleet_time_is_set(struct fleet_time time);
/* Nanoseconds since 1970. 0 means unset both ways (wire.md 4.4); times that do not fit are the
 * nearest that does. */
struct fleet_time fleet_time_from_unix_ns(int64_t ns);
int64_t fleet_time_to_unix_ns(struct fleet_time time);

/* -- rows, as commands carry them and readers get them -- */
struct fleet_shard {
    struct str id, address;
    struct fleet_time registered_at;
    struct fleet_time last_heartbeat; /* readers: this replica's own; in a command: ignored */
    uint32_t clusters, domains;       /* readers: how many it owns; in a command: ignored */
};
struct fleet_cluster {
    struct str id, shard;
};
struct fleet_domain {
    struct str key, value, shard;
};
struct fleet_leaving { /* a domain that `shard` has not yet acknowledged to have given up */
    struct str key, value, shard;
    uint64_t since; /* index of the log entry that took it from the shard */
};
struct fleet_slice {
    struct str shard; /* need not be registered */
    int32_t slice;
};
struct fleet_quota {
    struct str provider, region;
    const struct fleet_slice *slices; /* readers: ascending by shard; in a command: any order,
                                         and the last of the same shard counts */
    size_t slice_count;
};
struct fleet_provider {
    struct str name, address, region;
};
enum fleet_table {
    FLEET_SHARDS, /* the order in which a view gives them, and a restore wants them */
    FLEET_CLUSTERS,
    FLEET_DOMAINS,
    FLEET_QUOTAS,
    FLEET_PROVIDERS,
    FLEET_LEAVING, /* from cluster level 4 on */
    FLEET_TABLES
};
enum { FLEET_TEXTS_MAX = 3 };
/* How many texts the rows of a table begin with. */
extern const uint8_t fleet_row_texts[FLEET_TABLES];
/* All bytes of any row. Rows are copied by it: an assignment of another member leaves its padding
 * out, where the others may have a value. */
struct fleet_content {
    unsigned char bytes[sizeof(struct fleet_shard)];
};
static_assert(sizeof(struct fleet_shard) >= sizeof(struct fleet_quota) &&
                  sizeof(struct fleet_shard) >= sizeof(struct fleet_leaving),
              "the largest row");
struct fleet_row {
    enum fleet_table table;
    union {
        struct str texts[FLEET_TEXTS_MAX]; /* those of the row, in the order of its struct */
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
/* the numbers of the specification; part of the log's format */
enum fleet_kind {
    FLEET_ADD_SHARD = 1,
    FLEET_REMOVE_SHARD,
    FLEET_BIND_CLUSTER,
    FLEET_ASSIGN_DOMAIN,
    FLEET_UNASSIGN_DOMAIN,
    FLEET_SET_QUOTA,
    FLEET_UPSERT_PROVIDER,
    FLEET_CLEAR_LEAVING, /* ours, from cluster level 4 on */
    FLEET_KIND_LAST = FLEET_CLEAR_LEAVING
};
/* The cluster level from which UnassignDomain and RemoveShard leave domains leaving. */
enum { FLEET_LEAVING_LEVEL = 4 };
struct fleet_command {
    enum fleet_kind kind;
    bool force; /* AssignDomain: although another shard has not acknowledged to have given it up */
    union {
        struct str texts[FLEET_TEXTS_MAX]; /* as in struct fleet_row */
        struct fleet_shard add_shard;
        struct str remove_shard;
        struct fleet_cluster bind_cluster;
        struct fleet_domain assign_domain;
        struct fleet_domain unassign_domain; /* its shard is ignored */
        struct fleet_quota set_quota;
        struct fleet_provider upsert_provider;
        struct fleet_leaving clear_leaving; /* nothing happens when `since` is another */
        struct fleet_content content;       /* as in struct fleet_row */
    };
};
const char *fleet_kind_name(enum fleet_kind kind); /* "AddShard"; "?" for another number */
size_t fleet_kind_texts(enum fleet_kind kind);     /* how many texts its commands begin with */
enum fleet_table fleet_kind_table(enum fleet_kind kind); /* its commands contain rows of */
/* The command that puts a row into its table; for a row of leaving domains, which has none
 * (fleet_put), the command that removes it. */
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
/* the numbers are part of the reply's format: add at the end */
enum fleet_status {
#define X(name, text, err) FLEET_##name,
    FLEET_STATUS_MAP(X)
#undef X
        FLEET_STATUS_COUNT
};
struct fleet_result {
    enum fleet_status status;
    bool changed; /* false: refused, or it was so already */
    struct str
        holder; /* CLUSTER_BOUND, DOMAIN_ASSIGNED: the current shard; UnassignDomain: whose it
                          was, empty when nobody's; DOMAIN_LEAVING: the shard that has not
                          acknowledged yet */
    const char *field; /* TOO_LONG, NOT_TEXT, FULL, BAD_TIME: which, static text; else "" */
    uint64_t number;   /* UNKNOWN_KIND: the number; TOO_LONG, FULL: the limit */
    uint32_t clusters_freed, domains_freed; /* RemoveShard: how many rows went with it */
};
const char *fleet_status_text(enum fleet_status status); /* "shard exists"; never NULL */
enum err fleet_status_err(enum fleet_status status);     /* gives gRPC status and exit code */
/* The sentence for people, which names what was asked and what prevents it: "domain already
 * assigned: rack=r-1: current shard-a, requested shard-b". `command` may be NULL (it could not be
 * read). */
void fleet_result_text(const struct fleet_command *command, const struct fleet_result *result,
                       struct note *ret_text);

/* -- life cycle and writing -- */
struct fleet;
enum err fleet_open(struct fleet **ret_fleet); /* empty; ERR_NOMEM */
void fleet_close(struct fleet *fleet);         /* NULL is fine; no view may be open */
void fleet_clear(struct fleet *fleet);         /* empties it; open views fail with ERR_CANCELLED */
/* The rules of the specification's section 5. Anything but DONE leaves the tables as they were,
 * NO_MEMORY too: that one alone is no function of the commands, so a replica must stop on it. */
struct fleet_entry { /* of the log, that brings the command */
    uint64_t index;
    uint32_t level; /* of the cluster; below FLEET_LEAVING_LEVEL no domain becomes leaving */
};
struct fleet_result fleet_apply_entry(struct fleet *fleet, const struct fleet_command *command,
                                      struct fleet_entry entry);
/* By the rules of level 1. */
struct fleet_result fleet_apply(struct fleet *fleet, const struct fleet_command *command);
/* How a restore writes a row. */
struct fleet_result fleet_put(struct fleet *fleet, const struct fleet_row *row);

/* -- heartbeats: this replica's own -- */
bool fleet_heartbeat(struct fleet *fleet, struct str shard,
                     struct fleet_time now); /* false: absent */
void fleet_heartbeats_clear(struct fleet *fleet);

/* -- reading -- */
/* By the key of its table: its id or name, key and value of a domain, provider and region of a
 * quota. False: absent, and *ret_row is untouched. O(log n). Leaving domains: fleet_find_leaving. */
bool fleet_find(const struct fleet *fleet, enum fleet_table table, struct str first,
                struct str second, struct fleet_row *ret_row);
/* How many shards other than `except` the domain is leaving, and the first of them, bytewise. */
uint32_t fleet_find_leaving(const struct fleet *fleet, struct str key, struct str value,
                            struct str except, struct fleet_leaving *ret_leaving);
/* How many domains wait for this shard's acknowledgement. */
uint32_t fleet_count_leaving(const struct fleet *fleet, struct str shard);
struct fleet_counts fleet_counts(const struct fleet *fleet);
uint64_t fleet_hash(const struct fleet *fleet);  /* of the replicated content; kept as it changes */
uint64_t fleet_bytes(const struct fleet *fleet); /* of memory held, views' rows included */

/* A place in a walk: start with {0}. Any change of the fleet ends it (asserted). */
struct fleet_walk {
    struct order_place place;
    const void *owner;
    uint64_t changes;
    bool begun;
};
/* The next row in order, false at the end. Bytewise: shards, clusters and providers by name,
 * domains by key then value, quotas by provider then region; leaving domains by key and value
 * joined, then shard. */
bool fleet_next(const struct fleet *fleet, enum fleet_table table, struct fleet_walk *walk,
                struct fleet_row *ret_row);
/* Domains by shard, then key, then value (the order of ListDomainAssignments, wire.md 4.4). */
bool fleet_next_assignment(const struct fleet *fleet, struct fleet_walk *walk,
                           struct fleet_row *ret_row);
/* The clusters or domains of one shard, none when it is not registered; the domains that are
 * leaving a shard, registered or not. */
bool fleet_next_of(const struct fleet *fleet, enum fleet_table table, struct fleet_walk *walk,
                   struct str shard, struct fleet_row *ret_row);

/* -- views: all rows as they were at one moment, read while commands go on -- */
struct fleet_view;
enum err fleet_view_open(struct fleet *fleet,
                         struct fleet_view **ret_view); /* ERR_FULL, ERR_NOMEM */
/* Tables in the order of enum fleet_table, rows in each table's order: the same content gives the
 * same rows in the same order on every replica, whatever happened meanwhile. *ret_more false: there
 * was none left and *ret_row is untouched. The row is valid until the next call for the fleet or
 * the view. ERR_NOMEM (a row that had to be kept was lost), ERR_CANCELLED (fleet_clear): final. */
enum err fleet_view_next(struct fleet_view *view, struct fleet_row *ret_row, bool *ret_more);
struct fleet_counts fleet_view_counts(const struct fleet_view *view);
uint64_t fleet_view_hash(const struct fleet_view *view); /* fleet_hash() of that moment */
void fleet_view_close(struct fleet_view *view); /* at any time, before the fleet; NULL is fine */
#endif
