/* SPDX-License-Identifier: Apache-2.0 */
/* A second, plain implementation of the store: arrays and loops, no index, nothing shared with
 * src/store. It implements the contract of docs/store.md. The shipped store is compared with it
 * after every entry of the log.
 *
 * The arrays have the size that a story needs; model_trouble() reports a story that is larger. */
#ifndef TESTS_SIM_STORE_MODEL_H
#define TESTS_SIM_STORE_MODEL_H
#include "base/buf.h"
#include "base/str.h"

enum {
    MODEL_TEXT_MAX = 60,
    MODEL_KEYS = 128,
    MODEL_LEASES = 256,
    MODEL_GROUPS = 8,
    MODEL_SLOTS = 8,
    MODEL_CLIENTS = 4096,
    MODEL_ANSWERS = 256, /* of a client: the contract's number */
    MODEL_CHANGES = 512, /* by one entry */
    MODEL_RENEWALS = 64,
    MODEL_TXNS = 24, /* of one command, the outermost among them */
    MODEL_COMPARES = 48,
    MODEL_OPS = 96,
};
struct model_text {
    uint32_t len;
    char at[MODEL_TEXT_MAX];
};
struct model_id {
    uint8_t b[16];
};
/* as the log has them */
enum model_kind {
    MODEL_TICK = 1,
    MODEL_CREATE,
    MODEL_CAS,
    MODEL_DELETE,
    MODEL_ACQUIRE,
    MODEL_CANCEL_WAIT,
    MODEL_RELEASE,
    MODEL_RENEW,
    MODEL_RESIZE,
    MODEL_COMPACT,
    MODEL_LEASE_GRANT = 13,
    MODEL_LEASE_REVOKE,
    MODEL_TXN,
};
/* -- a transaction: parts by their number -- */
struct model_compare {
    uint32_t result, target;
    struct model_text key, end, value;
    int64_t number;
};
enum model_op_kind { MODEL_RANGE = 1, MODEL_PUT, MODEL_DELETES, MODEL_INNER };
struct model_op {
    enum model_op_kind kind;
    struct model_text key, end, value;
    int64_t lease, limit, min_mod, max_mod, min_create, max_create;
    uint32_t order, target;
    bool prev, ignore_value, ignore_lease, keys_only, count_only;
    size_t inner; /* MODEL_INNER: which transaction */
};
struct model_txn {
    size_t compare_first, compare_count;
    struct {
        size_t at[16];
        size_t count;
    } branch[2]; /* operations; 1: when every compare holds */
    bool held;
};
struct model_txns {
    struct model_txn txns[MODEL_TXNS];
    struct model_compare compares[MODEL_COMPARES];
    struct model_op ops[MODEL_OPS];
    size_t txn_count, compare_count, op_count;
};
struct model_command {
    enum model_kind kind;
    struct model_id client, lease, held;
    uint64_t sequence, acked, expected, cooldown_ms;
    struct model_text key, value, owner;
    int64_t ttl_ms;
    uint32_t slot_count, flags, prefer_slot;
    bool wait;
    struct model_id renew[MODEL_RENEWALS];
    uint64_t token, renew_tokens[MODEL_RENEWALS]; /* 0: of an earlier release */
    size_t renew_count;
    struct model_txns *txns; /* TXN: the first is the outermost */
};
struct model_answer {
    int code, reason;
    uint64_t revision, token, create_revision;
    int64_t granted_ttl_ms, hint_ms;
    uint32_t slot, live, slot_count;
    bool waiting;
    struct model_id lease;
    struct model_text owner;
};
struct model_renewal {
    int code, reason;
    int64_t granted_ttl_ms;
    uint64_t token;
};
struct model_change {
    struct model_text key, value;
    uint64_t revision;
    bool gone, expired; /* expired: by the deadline of its lease */
};
struct model;
struct model *model_open(void); /* NULL: memory */
void model_close(struct model *model);
/* The answer of the entry, and its changes: valid until the next call. */
void model_apply(struct model *model, uint64_t clock_ns, const struct model_command *command,
                 struct model_answer *ret_answer, struct model_renewal *renewals);
size_t model_changes(const struct model *model, const struct model_change **ret_changes);
/* TXN: the response as text, see compare_txn. Valid until the next call. */
struct str model_response(const struct model *model);
const char *model_trouble(const struct model *model); /* NULL: none; it is too small */
/* Writes the replicated state line by line: see store_compare.h. */
void model_write_state(const struct model *model, struct buf *into);
#endif
