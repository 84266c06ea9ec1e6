/* SPDX-License-Identifier: Apache-2.0 */
#include "prim/etcd/reply.h"

#include "lib/test.h"

static const struct etcd_space space = {.prefix = "muster/app/", .prefix_len = 11};
static const struct etcd_space bare = {.prefix = "app/", .prefix_len = 4, .raw = true};

static const struct {
    const char *why;
    bool answered;
    enum err err;
    enum grpc_status status;
    const char *text;
    int code, reason;
    bool doubt;
} failures[] = {
    {"not sent", false, ERR_TIMEOUT, GRPC_DEADLINE_EXCEEDED, "", COORD_UNAVAILABLE, COORD_R_TIMEOUT,
     false},
    {"sent, silent", false, ERR_UNKNOWN, GRPC_DEADLINE_EXCEEDED, "", COORD_UNAVAILABLE,
     COORD_R_TIMEOUT, true},
    {"connection lost after it was sent", false, ERR_UNKNOWN, GRPC_UNAVAILABLE, "",
     COORD_UNAVAILABLE, COORD_R_CONNECTION, true},
    {"no connection", false, ERR_UNAVAILABLE, GRPC_UNAVAILABLE, "refused", COORD_UNAVAILABLE,
     COORD_R_CONNECTION, false},
    {"too many calls", false, ERR_FULL, GRPC_RESOURCE_EXHAUSTED, "", COORD_UNAVAILABLE,
     COORD_R_OVERLOADED, false},
    {"closed meanwhile", false, ERR_CANCELLED, GRPC_CANCELLED, "", COORD_UNAVAILABLE,
     COORD_R_CLOSED, false},
    {"no memory", false, ERR_NOMEM, GRPC_RESOURCE_EXHAUSTED, "", COORD_UNAVAILABLE, COORD_R_MEMORY,
     false},
    {"no leader", true, ERR_UNKNOWN, GRPC_UNAVAILABLE, "etcdserver: no leader", COORD_UNAVAILABLE,
     COORD_R_NO_LEADER, true},
    {"leader changed", true, ERR_UNKNOWN, GRPC_UNAVAILABLE, "etcdserver: leader changed",
     COORD_UNAVAILABLE, COORD_R_NO_LEADER, true},
    {"the write that crosses the quota is applied", true, ERR_FULL, GRPC_RESOURCE_EXHAUSTED,
     "etcdserver: mvcc: database space exceeded", COORD_UNAVAILABLE, COORD_R_QUOTA, true},
    {"too many requests", true, ERR_FULL, GRPC_RESOURCE_EXHAUSTED, "etcdserver: too many requests",
     COORD_UNAVAILABLE, COORD_R_OVERLOADED, false},
    {"rights", true, ERR_DENIED, GRPC_PERMISSION_DENIED, "etcdserver: permission denied",
     COORD_UNAVAILABLE, COORD_R_FORBIDDEN, false},
    {"token", true, ERR_UNAUTHENTICATED, GRPC_UNAUTHENTICATED, "etcdserver: invalid auth token",
     COORD_UNAVAILABLE, COORD_R_FORBIDDEN, false},
    {"password", true, ERR_INVALID, GRPC_INVALID_ARGUMENT,
     "etcdserver: authentication failed, invalid user ID or password", COORD_UNAVAILABLE,
     COORD_R_FORBIDDEN, false},
    {"no user given", true, ERR_INVALID, GRPC_INVALID_ARGUMENT, "etcdserver: user name is empty",
     COORD_UNAVAILABLE, COORD_R_FORBIDDEN, false},
    {"too large", true, ERR_INVALID, GRPC_INVALID_ARGUMENT, "etcdserver: request is too large",
     COORD_INVALID, COORD_R_VALUE_SIZE, false},
    {"lease gone", true, ERR_NOT_FOUND, GRPC_NOT_FOUND, "etcdserver: requested lease not found",
     COORD_EXPIRED, COORD_R_DEADLINE, false},
    {"corrupt cluster", true, ERR_UNKNOWN, GRPC_DATA_LOSS, "etcdserver: corrupt cluster",
     COORD_UNAVAILABLE, COORD_R_CORRUPT, true},
    {"no such method", true, ERR_UNSUPPORTED, GRPC_UNIMPLEMENTED, "", COORD_UNSUPPORTED,
     COORD_R_SERVER, false},
    {"whatever else", true, ERR_INVALID, GRPC_OUT_OF_RANGE, "?", COORD_UNAVAILABLE, COORD_R_STORAGE,
     false},
};

TEST(every_failure_has_our_name_and_keeps_its_doubt)
{
    for (size_t i = 0; i < ARRAY_LEN(failures); i++) {
        struct grpc_thread_op op = {
            .answered = failures[i].answered, .err = failures[i].err, .status = failures[i].status};
        coord_result got;
        memcpy(op.text, failures[i].text, strlen(failures[i].text) + 1);
        got = etcd_failure(&op, true);
        CHECK_I64(failures[i].why, got.code, failures[i].code);
        CHECK_I64(failures[i].why, got.reason, failures[i].reason);
        CHECK_U64(failures[i].why, got.flags, failures[i].doubt ? COORD_F_MAYBE_APPLIED : 0);
        CHECK_U64("a read leaves no doubt", etcd_failure(&op, false).flags, 0);
    }
}

TEST(a_lease_number_is_63_bits_of_the_id_and_never_zero)
{
    CHECK_I64("all bits", etcd_lease_number(&(coord_id){{255, 255, 255, 255, 255, 255, 255, 255}}),
              INT64_MAX);
    CHECK_I64("order", etcd_lease_number(&(coord_id){{0, 0, 0, 0, 0, 0, 1, 2}}), 258);
    CHECK_I64("zero would let the server draw one", etcd_lease_number(&(coord_id){{0}}), 1);
    CHECK_I64("the sign alone", etcd_lease_number(&(coord_id){{128}}), 1);
}

TEST(keys_are_under_their_prefix)
{
    struct etcd_key key;

    etcd_key_make(&space, STR("a/b"), &key);
    CHECK_STR("made", str_of(key.text, key.len), STR("muster/app/a/b"));
    CHECK_STR("read", etcd_key_ours(&space, STR("muster/app/a/b")), STR("a/b"));
    CHECK_STR("not ours", etcd_key_ours(&space, STR("muster/apple")), STR_EMPTY);
}

/* An entry with a consistent envelope, and changes to it. */
struct sample {
    struct claim_envelope envelope;
    int64_t create, mod, lease;
    const char *key;
};

static enum err read_sample(const struct sample *sample, struct prim_seen *ret_entry)
{
    Mvccpb__KeyValue kv = MVCCPB__KEY_VALUE__INIT;
    struct buf value;
    enum err err;

    buf_init(&value, 4096);
    CHECK_OK("encoded", envelope_encode(&sample->envelope, &value));
    kv.key = grpc_bytes(str_from(sample->key));
    kv.value = grpc_bytes(buf_peek(&value));
    kv.create_revision = sample->create;
    kv.mod_revision = sample->mod;
    kv.lease = sample->lease;
    err = etcd_entry_read(&space, &kv, ret_entry);
    if (!err)
        ret_entry->envelope.value = ret_entry->envelope.owner =
            STR_EMPTY; /* gone with the buffer */
    buf_deinit(&value);
    return err;
}

TEST(an_entry_that_cannot_be_is_corrupt)
{
    const struct sample good = {{.flags = ENVELOPE_LEASED,
                                 .lease_id = {{0, 0, 0, 0, 0, 0, 0, 7}},
                                 .ttl_ms = 5000,
                                 .owner = {"me", 2}},
                                3,
                                9,
                                7,
                                "muster/app/k"};
    struct prim_seen entry;
    struct sample bad;

    CHECK_OK("the granting write", read_sample(&good, &entry));
    CHECK_U64("its token is its revision", entry.token, 9);
    bad = good, bad.envelope.token = 5;
    CHECK_OK("a later write", read_sample(&bad, &entry));
    CHECK_U64("carries the token", entry.token, 5);
    bad = good, bad.lease = 8;
    CHECK_ERR("another's lease", read_sample(&bad, &entry), ERR_CORRUPT);
    bad = good, bad.lease = 0;
    CHECK_ERR("written again without its lease", read_sample(&bad, &entry), ERR_CORRUPT);
    bad = good, bad.lease = -7;
    CHECK_ERR("no lease number", read_sample(&bad, &entry), ERR_CORRUPT);
    bad = good, bad.create = 0;
    CHECK_ERR("never created", read_sample(&bad, &entry), ERR_CORRUPT);
    bad = good, bad.mod = 2;
    CHECK_ERR("older than itself", read_sample(&bad, &entry), ERR_CORRUPT);
    bad = good, bad.envelope.token = 10;
    CHECK_ERR("a token of the future", read_sample(&bad, &entry), ERR_CORRUPT);
    bad = good, bad.envelope.token = 2;
    CHECK_ERR("a token from before it was there", read_sample(&bad, &entry), ERR_CORRUPT);
    bad = good, bad.key = "muster/other/k";
    CHECK_ERR("outside our prefix", read_sample(&bad, &entry), ERR_CORRUPT);
}

TEST(a_raw_entry_is_its_value)
{
    Mvccpb__KeyValue kv = MVCCPB__KEY_VALUE__INIT;
    struct prim_seen entry;

    kv.key = grpc_bytes(STR("app/k"));
    kv.value = grpc_bytes(STR("hello"));
    kv.create_revision = 4;
    kv.mod_revision = 6;
    kv.lease = 12;
    CHECK_OK("read", etcd_entry_read(&bare, &kv, &entry));
    CHECK_STR("value", entry.envelope.value, STR("hello"));
    CHECK_U64("token of a leased one", entry.token, 4);
    kv.lease = 0;
    CHECK_OK("read", etcd_entry_read(&bare, &kv, &entry));
    CHECK_U64("no lease, no token", entry.token, 0);
}

TEST(a_range_of_one_key_answers_for_that_key_only)
{
    Mvccpb__KeyValue kv = MVCCPB__KEY_VALUE__INIT, *list[] = {&kv, &kv};
    Etcdserverpb__RangeResponse range = ETCDSERVERPB__RANGE_RESPONSE__INIT;
    struct prim_seen entry;

    kv.key = grpc_bytes(STR("app/k"));
    kv.create_revision = kv.mod_revision = 4;
    range.kvs = list;
    CHECK_I64("absent", etcd_range_one(&bare, &range, STR("k"), &entry), 0);
    range.n_kvs = 1;
    CHECK_I64("there", etcd_range_one(&bare, &range, STR("k"), &entry), 1);
    CHECK_I64("another key", etcd_range_one(&bare, &range, STR("l"), &entry), -1);
    range.n_kvs = 2;
    CHECK_I64("two", etcd_range_one(&bare, &range, STR("k"), &entry), -1);
    CHECK_I64("no answer to it", etcd_range_one(&bare, NULL, STR("k"), &entry), -1);
}
