/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges and transactions over the key space, as in etcd's KV (spec/coordination.md C3).
 *
 * A transaction is one atomic command, with the same result on every replica:
 * 1. all compares, nested ones included, are evaluated on the state before the transaction
 * 2. the branches taken are checked for every reason to refuse
 * 3. the branches write, at one revision
 *
 * Results go to a sink, one operation at a time. A Range sees earlier writes of its transaction. */
#ifndef STORE_CORE_TXN_H
#define STORE_CORE_TXN_H
#include "store/core/keys.h"

struct store;
enum {
    TXN_OPS_MAX = 128,       /* length of the longest list of operations, over all nesting levels */
    TXN_DEPTH_MAX = 24,      /* nesting depth */
    TXN_TOTAL_MAX = 1 << 15, /* operations in all */
    TXN_KEYS_MAX = 1 << 16   /* keys read by a transaction; other calls wait meanwhile */
};

/* Refusals before TXN_STATE depend on the request alone. */
enum txn_refusal {
    TXN_TAKEN,
    TXN_NO_KEY,
    TXN_KEY_TOO_LONG,
    TXN_TOO_MANY,
    TXN_DUPLICATE,
    TXN_NO_OPERATION, /* the operation's kind is not set */
    TXN_BAD_SORT,
    TXN_BAD_COMPARE,
    TXN_VALUE_PROVIDED,
    TXN_LEASE_PROVIDED,
    TXN_STATE,
    TXN_KEY_MISSING = TXN_STATE, /* ignore_value or ignore_lease was set for a missing key */
    TXN_NO_LEASE,
    TXN_COMPACTED,
    TXN_FUTURE,
    TXN_CLAIM,
    TXN_NO_SPACE,
    TXN_TOO_LARGE,
    TXN_NO_MEMORY, /* to check or read; apply aborts the process instead */
};

/* -- ranges -- */
enum query_order { QUERY_UNORDERED, QUERY_ASCEND, QUERY_DESCEND };
enum query_target { QUERY_KEY, QUERY_VERSION, QUERY_CREATE, QUERY_MOD, QUERY_VALUE };
struct query {
    struct key_range range;
    int64_t limit;    /* 0 or less: no limit */
    int64_t revision; /* 0 or less: the current revision */
    uint32_t order, target;
    bool keys_only, count_only;
    int64_t min_mod, max_mod, min_create, max_create; /* 0: no bound */
};
struct query_end {
    uint64_t count; /* keys in the range at the revision, before filters and limit */
    bool more;      /* the limit cut the result */
    bool no_memory; /* to sort the pairs; no pair was emitted */
};
typedef void pair_fn(void *owner, const struct key_value *pair);
bool query_is_sorted(const struct query *query); /* true: the pairs are not in key order */
bool query_is_filtered(const struct query *query);
/* keys that the query reads now; for a past revision an estimate */
uint64_t query_cost(const struct keys *keys, const struct query *query);
/* Past versions that the query also reads, counted up to `max`; 0 for the current revision.
 * Replicas may differ. */
uint64_t query_past_cost(const struct keys *keys, const struct query *query, uint64_t max);
bool query_passes(const struct query *query, const struct key_value *pair);
/* TXN_COMPACTED, TXN_FUTURE, or TXN_TAKEN. */
enum txn_refusal query_check(const struct keys *keys, const struct query *query);
/* Call query_check() first. With keys_only the values are empty. */
struct query_end query_run(const struct keys *keys, const struct query *query, pair_fn *each,
                           void *owner);

/* For a query that reads its range in several turns: keeps the first pairs in the query's order.
 * All pairs must be of one revision, which stays uncompacted until query_best_give(). */
enum { QUERY_BEST_MAX = 256 }; /* the query must have a limit, at most this */
struct query_best;
/* copies the query; NULL without memory */
struct query_best *query_best_open(const struct query *query);
void query_best_close(struct query_best *best); /* NULL is fine */
void query_best_clear(struct query_best *best);
/* skips a pair that the filters reject */
void query_best_add(struct query_best *best, const struct key_value *pair);
/* true: the limit cut off some pairs */
bool query_best_give(const struct query_best *best, pair_fn *each, void *owner);

/* -- transactions -- */
enum compare_result { COMPARE_EQUAL, COMPARE_GREATER, COMPARE_LESS, COMPARE_NOT_EQUAL };
enum compare_target { COMPARE_VERSION, COMPARE_CREATE, COMPARE_MOD, COMPARE_VALUE, COMPARE_LEASE };
struct txn_compare {
    uint32_t result, target;
    struct key_range range;
    int64_t number;   /* for all targets but COMPARE_VALUE */
    struct str value; /* for COMPARE_VALUE */
};
enum txn_op_kind { TXN_NONE, TXN_RANGE, TXN_PUT, TXN_DELETE, TXN_TXN };
struct txn_put {
    struct str key, value;
    int64_t lease; /* 0: none */
    bool prev, ignore_value, ignore_lease;
};
struct txn_delete {
    struct key_range range;
    bool prev;
};
struct txn_op {
    enum txn_op_kind kind;
    union {
        struct query range;
        struct txn_put put;
        struct txn_delete del;
        struct txn *txn;
    };
};
struct txn {
    const struct txn_compare *compares;
    size_t compare_count;
    const struct txn_op *ops[2]; /* [0] runs if a compare fails, [1] if all succeed */
    size_t op_count[2];
    bool held; /* all compares succeeded; set by txn_apply */
};

/* The result of one operation. */
struct txn_end {
    enum txn_op_kind kind;
    uint64_t revision;
    struct query_end range;
    uint64_t deleted;
};
struct txn_sink {
    /* held: the compares of a TXN_TXN succeeded */
    void (*begin)(struct txn_sink *sink, enum txn_op_kind kind, bool held);
    void (*pair)(struct txn_sink *sink, const struct key_value *pair);
    void (*end)(struct txn_sink *sink, const struct txn_end *end);
};

/* Checks what depends on the request alone; may return TXN_NO_MEMORY. */
enum txn_refusal txn_check(const struct txn *txn);
bool txn_writes(const struct txn *txn); /* true: any branch writes */
/* TXN_TOO_LARGE: all branches together read more than TXN_KEYS_MAX past versions. Call before the
 * transaction is proposed, because txn_apply does not check this. */
enum txn_refusal txn_past_check(const struct keys *keys, const struct txn *txn);
/* Executes a transaction that does not write. A refused transaction makes no call of `sink`.
 * Without memory, some calls may already have been made. */
enum txn_refusal txn_read(const struct store *store, struct txn *txn, struct txn_sink *sink);
/* Returns the operation of a transaction that only deletes one range, without compares or returned
 * pairs; else NULL. txn_apply() must not run this operation, because it may take many turns. */
const struct txn_delete *txn_sweeps(const struct txn *txn);
/* txn_sweep_check() may return TXN_CLAIM. */
enum txn_refusal txn_sweep_check(const struct store *store, const struct txn_delete *del);
void txn_sweep_report(struct txn_sink *sink, uint64_t deleted, uint64_t revision);
/* Call during apply. `sink` may be NULL. *ret_revision: the revision after the transaction. */
enum txn_refusal txn_apply(struct store *store, struct txn *txn, struct txn_sink *sink,
                           uint64_t *ret_revision);
#endif
