/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes etcd's answers (reply.h). Pure: no I/O, any thread.
 *
 * Invariant: an entry is returned only if envelope, lease number and revisions agree. */
#include "prim/etcd/reply.h"

#include <stdio.h>

#include "base/bytes.h"

const struct grpc_scheme etcd_scheme = {.name = "etcd",
                                        .port = ":2379",
                                        .example = "etcd://h1:2379,h2:2379",
                                        .secure = "etcds",
                                        .tls = "etcds:// or tls=1"};

void etcd_key_make(const struct etcd_space *space, struct str key, struct etcd_key *ret_key)
{
    assert(space->prefix_len + key.len < sizeof ret_key->text);
    memcpy(ret_key->text, space->prefix, space->prefix_len);
    if (key.len > 0) memcpy(ret_key->text + space->prefix_len, key.at, key.len);
    ret_key->len = space->prefix_len + key.len;
}

struct str etcd_key_ours(const struct etcd_space *space, struct str stored)
{
    struct str prefix = str_of(space->prefix, space->prefix_len);

    return str_starts(stored, prefix) ? str_tail(stored, prefix.len) : STR_EMPTY;
}

int64_t etcd_lease_number(const coord_id *lease_id)
{
    uint64_t number = 0;

    for (size_t i = 0; i < 8; i++) number = number << 8 | lease_id->b[i];
    number &= INT64_MAX;
    return number ? (int64_t)number : 1;
}

enum err etcd_entry_read(const struct etcd_space *space, const Mvccpb__KeyValue *kv,
                         struct prim_seen *ret_seen)
{
    struct prim_seen seen = {.kind = PRIM_SEEN_LIVE,
                             .envelope = {.owner = STR_EMPTY, .value = grpc_str(kv->value)},
                             .revision = (uint64_t)kv->mod_revision,
                             .create_revision = (uint64_t)kv->create_revision,
                             .left_ms = -1,
                             .sequence = (uint64_t)kv->lease};
    const struct claim_envelope *envelope = &seen.envelope;

    if (etcd_key_ours(space, grpc_str(kv->key)).len == 0 || kv->create_revision <= 0 ||
        kv->mod_revision < kv->create_revision || kv->lease < 0)
        return ERR_CORRUPT;
    if (space->raw) {
        if (kv->lease) seen.token = seen.create_revision;
        *ret_seen = seen;
        return ERR_OK;
    }
    if (envelope_decode(grpc_str(kv->value), &seen.envelope)) return ERR_CORRUPT;
    /* An envelope that names another lease: another program has written this value. */
    if (!(envelope->flags & ENVELOPE_LEASED) != !kv->lease) return ERR_CORRUPT;
    if (kv->lease && etcd_lease_number(&envelope->lease_id) != kv->lease) return ERR_CORRUPT;
    if (envelope->flags & ENVELOPE_TOMBSTONE || envelope->token > seen.revision) return ERR_CORRUPT;
    seen.ttl_ms = envelope->ttl_ms;
    if (kv->lease) seen.token = envelope->token ? envelope->token : seen.revision;
    if (kv->lease && seen.token < seen.create_revision) return ERR_CORRUPT;
    *ret_seen = seen;
    return ERR_OK;
}

/* -- failures -- */

bool etcd_says(const struct grpc_thread_op *op, enum grpc_status status, const char *part)
{
    return op->answered && op->status == status && strstr(op->text, part);
}

coord_result etcd_corrupt(const char *what)
{
    return prim_answer(COORD_UNAVAILABLE, COORD_R_CORRUPT, "etcd: %s", what);
}

static int etcd_reply_reason_of_answer(const struct grpc_thread_op *op)
{
    switch (op->status) {
    case GRPC_UNAVAILABLE:
        if (strstr(op->text, "no leader") || strstr(op->text, "leader changed"))
            return COORD_R_NO_LEADER;
        return strstr(op->text, "timed out") ? COORD_R_TIMEOUT : COORD_R_CONNECTION;
    case GRPC_RESOURCE_EXHAUSTED:
        return strstr(op->text, "space exceeded") ? COORD_R_QUOTA : COORD_R_OVERLOADED;
    case GRPC_PERMISSION_DENIED:
    case GRPC_UNAUTHENTICATED: return COORD_R_FORBIDDEN;
    case GRPC_INVALID_ARGUMENT:
        if (strstr(op->text, "user name is empty") || strstr(op->text, "authentication failed"))
            return COORD_R_FORBIDDEN;
        return COORD_R_STORAGE;
    case GRPC_DATA_LOSS: return COORD_R_CORRUPT;
    case GRPC_DEADLINE_EXCEEDED: return COORD_R_TIMEOUT;
    default: return COORD_R_STORAGE; /* A10 (4) */
    }
}

coord_result etcd_failure(const struct grpc_thread_op *op, bool writes)
{
    int reason = op->answered ? etcd_reply_reason_of_answer(op) : grpc_op_silence(op);
    coord_result result;

    if (etcd_says(op, GRPC_UNIMPLEMENTED, ""))
        return prim_answer(COORD_UNSUPPORTED, COORD_R_SERVER, "etcd: %s", op->text);
    if (etcd_says(op, GRPC_INVALID_ARGUMENT, "request is too large"))
        return prim_answer(COORD_INVALID, COORD_R_VALUE_SIZE,
                           "the server takes no request this large (its --max-request-bytes)");
    if (etcd_says(op, GRPC_FAILED_PRECONDITION, "lease already exists"))
        return prim_answer(COORD_EXISTS, COORD_R_HELD, "etcd: the lease is there already");
    if (etcd_says(op, GRPC_NOT_FOUND, "lease not found"))
        return prim_answer(COORD_EXPIRED, COORD_R_DEADLINE, "etcd: the lease has ended");
    result = prim_answer(COORD_UNAVAILABLE, reason, "etcd: %s",
                         op->text[0] ? op->text : err_text(op->err));
    /* etcd reports an exceeded quota after applying the write. */
    if (writes && (op->err == ERR_UNKNOWN || reason == COORD_R_QUOTA))
        result.flags |= COORD_F_MAYBE_APPLIED;
    return result;
}

/* -- answers -- */

int etcd_range_one(const struct etcd_space *space, const Etcdserverpb__RangeResponse *range,
                   struct str key, struct prim_seen *ret_seen)
{
    *ret_seen = (struct prim_seen){.kind = PRIM_SEEN_NOTHING, .left_ms = -1};
    if (!range || range->n_kvs > 1) return -1;
    if (range->n_kvs == 0) return 0;
    if (etcd_entry_read(space, range->kvs[0], ret_seen)) return -1;
    return str_equal(etcd_key_ours(space, grpc_str(range->kvs[0]->key)), key) ? 1 : -1;
}

const Etcdserverpb__RangeResponse *etcd_txn_range(const Etcdserverpb__TxnResponse *txn, size_t at)
{
    if (at >= txn->n_responses) return NULL;
    if (txn->responses[at]->response_case != ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_RANGE)
        return NULL;
    return txn->responses[at]->response_range;
}
