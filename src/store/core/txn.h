/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges and transactions over the key space, as etcd's KV has them (spec/coordination.md C3).
 *
 * A transaction is one command: its compares, also of transactions inside it, are judged on the
 * state before it; then everything that could refuse it is looked at on the branches taken; only
 * then is written, all at one revision. So it is done whole or not at all, and the same everywhere.
 *
 * What it finds goes to a sink, operation by operation as it runs: a Range sees what was written
 * before it in the same transaction. */
#ifndef STORE_CORE_TXN_H
#define STORE_CORE_TXN_H
#include "store/core/keys.h"

struct store;
enum {
    TXN_OPS_MAX = 128,       /* compares, and operations of a branch; inside: what is left of it */
    TXN_DEPTH_MAX = 24,      /* transactions in transactions */
    TXN_TOTAL_MAX = 1 << 15, /* operations in all */
    TXN_KEYS_MAX = 1 << 16   /* keys that it looks at: more would hold up everybody else */
};

/* Why nothing was done. Those before TXN_STATE depend on the request alone. */
enum txn_refusal {
    TXN_TAKEN,
    TXN_NO_KEY,
    TXN_KEY_TOO_LONG,
    TXN_TOO_MANY,
    TXN_DUPLICATE,
    TXN_NO_OPERATION, /* an operation that is none */
    TXN_BAD_SORT,
    TXN_BAD_COMPARE,
    TXN_VALUE_PROVIDED,
    TXN_LEASE_PROVIDED,
    TXN_STATE,
    TXN_KEY_MISSING = TXN_STATE, /* ignore_value, ignore_lease */
    TXN_NO_LEASE,
    TXN_COMPACTED,
    TXN_FUTURE,
    TXN_CLAIM, /* it would write among the claims */
    TXN_NO_SPACE,
    TXN_TOO_LARGE, /* TXN_KEYS_MAX */
    TXN_NO_MEMORY, /* to check it, or to read: here and now. Applying ends the process instead */
};

/* -- ranges -- */
enum query_order { QUERY_UNORDERED, QUERY_ASCEND, QUERY_DESCEND };
enum query_target { QUERY_KEY, QUERY_VERSION, QUERY_CREATE, QUERY_MOD, QUERY_VALUE };
struct query {
    struct key_range range;
    int64_t limit;    /* 0 and less: none */
    int64_t revision; /* 0 and less: now */
    uint32_t order, target;
    bool keys_only, count_only;
    int64_t min_mod, max_mod, min_create, max_create; /* 0: any */
};
struct query_end {
    uint64_t count; /* keys of the range at that revision, before filters and limit */
    bool more;      /* cut by the limit */
    bool no_memory; /* to sort them: no pair was given */
};
typedef void pair_fn(void *owner, const struct key_value *pair);
bool query_is_sorted(const struct query *query); /* otherwise than keys come */
bool query_is_filtered(const struct query *query);
/* How many keys it looks at, as the range is now; of the past that is a guess. */
uint64_t query_cost(const struct keys *keys, const struct query *query);
/* And what it looks at in the past, no further than `max`; of now: 0. Not the same everywhere. */
uint64_t query_past_cost(const struct keys *keys, const struct query *query, uint64_t max);
bool query_passes(const struct query *query, const struct key_value *pair); /* its filters */
/* TXN_COMPACTED, TXN_FUTURE, or TXN_TAKEN. */
enum txn_refusal query_check(const struct keys *keys, const struct query *query);
/* After query_check. The value of a pair is empty for keys_only. */
struct query_end query_run(const struct keys *keys, const struct query *query, pair_fn *each,
                           void *owner);

/* The first pairs of a sorted range, of those that were added: for one that is looked at in parts.
 * Pairs are those of one revision, which must not be compacted before the last is given. */
enum { QUERY_BEST_MAX = 256 }; /* limit of such a query, which must have one */
struct query_best;
struct query_best *query_best_open(const struct query *query); /* copied; NULL: memory */
void query_best_close(struct query_best *best);                /* NULL is fine */
void query_best_clear(struct query_best *best);
void query_best_add(struct query_best *best, const struct key_value *pair); /* or not: filters */
/* True: the limit cut some off. */
bool query_best_give(const struct query_best *best, pair_fn *each, void *owner);

/* -- transactions -- */
enum compare_result { COMPARE_EQUAL, COMPARE_GREATER, COMPARE_LESS, COMPARE_NOT_EQUAL };
enum compare_target { COMPARE_VERSION, COMPARE_CREATE, COMPARE_MOD, COMPARE_VALUE, COMPARE_LEASE };
struct txn_compare {
    uint32_t result, target;
    struct key_range range;
    int64_t number;   /* all but COMPARE_VALUE */
    struct str value; /* COMPARE_VALUE */
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
    const struct txn_op *ops[2]; /* 0: when a compare fails; 1: when all hold */
    size_t op_count[2];
    bool held; /* whether they did: set by txn_apply */
};

/* What one operation came to. */
struct txn_end {
    enum txn_op_kind kind;
    uint64_t revision; /* when it had run */
    struct query_end range;
    uint64_t deleted;
};
struct txn_sink {
    void (*begin)(struct txn_sink *sink, enum txn_op_kind kind, bool held); /* held: of TXN_TXN */
    void (*pair)(struct txn_sink *sink, const struct key_value *pair);
    void (*end)(struct txn_sink *sink, const struct txn_end *end);
};

/* What the request alone decides, or TXN_NO_MEMORY. Memory is the arena's of nobody: it may take as
 * much as the request has operations, and gives it back. */
enum txn_refusal txn_check(const struct txn *txn);
bool txn_writes(const struct txn *txn); /* in any branch */
/* TXN_TOO_LARGE: it reads more of the past than TXN_KEYS_MAX, all branches together (which are taken
 * is not known before it is its turn). For before it is proposed: applying takes it all the same. */
enum txn_refusal txn_past_check(const struct keys *keys, const struct txn *txn);
/* For reads: everything but writing. `sink` is called only when it is taken, or
 * until memory is out. */
enum txn_refusal txn_read(const struct store *store, struct txn *txn, struct txn_sink *sink);
/* One that deletes a range whatever is there and is not asked what it was: that may take many
 * turns, so it is not for txn_apply. NULL: not such a one. */
const struct txn_delete *txn_sweeps(const struct txn *txn);
/* Whether it may: TXN_CLAIM. And what `sink` gets when it is done. */
enum txn_refusal txn_sweep_check(const struct store *store, const struct txn_delete *del);
void txn_sweep_report(struct txn_sink *sink, uint64_t deleted, uint64_t revision);
/* Inside apply; `sink` may be NULL. *ret_revision: after it. */
enum txn_refusal txn_apply(struct store *store, struct txn *txn, struct txn_sink *sink,
                           uint64_t *ret_revision);
#endif
