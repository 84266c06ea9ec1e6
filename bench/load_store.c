/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of a store, by muster.v1.Coordination and by etcd's v3, as a client of each makes
 * them. Each slot is a client of its own, with keys of its own where an operation changes
 * keys. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "load.h"
#include "prim/etcd/internal.h"
#include "wire/message.h"
#include "wire/pb/muster_v1_coordination.pb-c.h"

enum {
    NAME_MAX_LEN = 256,
    VALUE_MAX = 1 << 20,
    LEASE_SECONDS = 3600,
    CLAIM_SECONDS = 60,
    BATCH_MAX = 1024,
};

/* -- common to both -- */

bool field_next(struct str *rest, struct field *ret_field)
{
    uint64_t numbers[2] = {0, 0};
    size_t at = 0;

    *ret_field = (struct field){0};
    for (size_t i = 0; i < 2; i++) { /* the tag, then a number or a length */
        for (unsigned shift = 0;; shift += 7) {
            if (at == rest->len || shift > 63) return false;
            numbers[i] |= (uint64_t)(rest->at[at] & 0x7f) << shift;
            if (!(rest->at[at++] & 0x80)) break;
        }
    }
    ret_field->number = (uint32_t)(numbers[0] >> 3);
    ret_field->value = numbers[1];
    if ((numbers[0] & 7) == 2) {
        if (numbers[1] > rest->len - at) return false;
        ret_field->bytes = str_of(rest->at + at, (size_t)numbers[1]);
        at += (size_t)numbers[1];
    }
    *rest = str_tail(*rest, at);
    return true;
}

static struct field field_of(struct str message, uint32_t number)
{
    struct field field;

    while (field_next(&message, &field))
        if (field.number == number) return field;
    return (struct field){0};
}

static ProtobufCBinaryData data(const void *bytes, size_t len)
{
    return (ProtobufCBinaryData){len, (uint8_t *)bytes};
}

static struct str value_of(const struct slot *slot)
{
    static char value[VALUE_MAX];

    if (!value[0]) memset(value, 'x', sizeof value);
    return str_of(value, slot->load->plan.value < VALUE_MAX ? slot->load->plan.value : VALUE_MAX);
}

/* "PREFIX-00000042" in a text that lives until the next call. */
static struct str name_of(const struct load *load, uint64_t number)
{
    static char text[NAME_MAX_LEN];
    int len =
        snprintf(text, sizeof text, "%s-%08llu", load->plan.prefix, (unsigned long long)number);

    return str_of(text, (size_t)len);
}

/* A different number for each operation, in no order, below `keys`. */
static uint64_t any_number(struct load *load)
{
    uint64_t n = load->varied++;

    return load->plan.keys ? n * 2654435761u % load->plan.keys : n;
}

static uint64_t random_once(void)
{
    static uint64_t drawn;

    if (!drawn && getentropy(&drawn, sizeof drawn)) abort();
    return drawn;
}

static void encode(const ProtobufCMessage *message, struct buf *into)
{
    struct note note = {""};

    if (message_write(message, into, &note)) load_die("request", str_from(note.text));
}

/* -- muster -- */

struct identity {
    Muster__V1__Request request;
    uint64_t client[2];
};

/* Each client acknowledges every answer with its next request: no older request is repeated. */
static Muster__V1__Request *identify(struct slot *slot, struct identity *identity)
{
    muster__v1__request__init(&identity->request);
    identity->client[0] = random_once();
    identity->client[1] = slot->number + 1;
    identity->request.client_id = data(identity->client, sizeof identity->client);
    identity->request.sequence = identity->request.acked = ++slot->sequence;
    return &identity->request;
}

static ProtobufCBinaryData lease_id(uint64_t number, uint64_t room[2])
{
    room[0] = number;
    room[1] = random_once() >> 1; /* ids are of 16 bytes; the first eight count */
    return data(room, 16);
}

static int muster_decided(struct slot *slot, struct str message)
{
    if (field_of(message, 1).value) return -1;
    slot->revision = field_of(message, 3).value;
    return 1;
}

static const char *muster_put(struct slot *slot, struct buf *request)
{
    Muster__V1__PutRequest m = MUSTER__V1__PUT_REQUEST__INIT;
    struct identity identity;
    struct str key = name_of(slot->load, any_number(slot->load)), value = value_of(slot);

    m.request = identify(slot, &identity);
    m.key = data(key.at, key.len);
    m.value = data(value.at, value.len);
    encode(&m.base, request);
    return "/muster.v1.Coordination/Put";
}

static const char *muster_create(struct slot *slot, struct buf *request)
{
    Muster__V1__CreateRequest m = MUSTER__V1__CREATE_REQUEST__INIT;
    struct identity identity;
    struct str key = name_of(slot->load, any_number(slot->load)), value = value_of(slot);

    m.request = identify(slot, &identity);
    m.key = data(key.at, key.len);
    m.value = data(value.at, value.len);
    encode(&m.base, request);
    return "/muster.v1.Coordination/Create";
}

static const char *muster_cas(struct slot *slot, struct buf *request)
{
    Muster__V1__CompareAndSetRequest m = MUSTER__V1__COMPARE_AND_SET_REQUEST__INIT;
    struct identity identity;
    struct str key = name_of(slot->load, slot->number), value = value_of(slot);

    m.request = identify(slot, &identity);
    m.key = data(key.at, key.len);
    m.value = data(value.at, value.len);
    m.expected = slot->revision;
    encode(&m.base, request);
    return "/muster.v1.Coordination/CompareAndSet";
}

static const char *muster_get(struct slot *slot, struct buf *request)
{
    Muster__V1__GetRequest m = MUSTER__V1__GET_REQUEST__INIT;
    struct str key = name_of(slot->load, any_number(slot->load));

    m.key = data(key.at, key.len);
    m.serializable = slot->load->plan.work->stale;
    encode(&m.base, request);
    return "/muster.v1.Coordination/Get";
}

static int muster_got(struct slot *slot, struct str message)
{
    (void)slot;
    return field_of(message, 1).value ? 1 : -1;
}

static const char *muster_claim(struct slot *slot, struct buf *request)
{
    struct str group = name_of(slot->load, slot->number);
    struct identity identity;
    uint64_t room[2];

    if (slot->step == 0) {
        Muster__V1__AcquireRequest m = MUSTER__V1__ACQUIRE_REQUEST__INIT;

        slot->lease = (random_once() >> 2) + slot->load->varied++;
        m.request = identify(slot, &identity);
        m.group = data(group.at, group.len);
        m.slot_count = 1;
        m.prefer_slot = -1;
        m.owner = "bench";
        m.ttl_ms = CLAIM_SECONDS * 1000;
        m.lease_id = lease_id(slot->lease, room);
        encode(&m.base, request);
        return "/muster.v1.Coordination/Acquire";
    }
    Muster__V1__ReleaseRequest m = MUSTER__V1__RELEASE_REQUEST__INIT;
    m.request = identify(slot, &identity);
    m.lease_id = lease_id(slot->lease, room);
    encode(&m.base, request);
    return "/muster.v1.Coordination/Release";
}

static int claimed_in(struct slot *slot, size_t steps)
{
    slot->step = (slot->step + 1) % steps;
    return slot->step == 0 ? 1 : 0;
}

static int muster_claimed(struct slot *slot, struct str message)
{
    if (field_of(message, 1).value) {
        slot->step = 0;
        return -1;
    }
    return claimed_in(slot, 2);
}

static const char *muster_lease(struct slot *slot, struct buf *request)
{
    Muster__V1__CreateRequest m = MUSTER__V1__CREATE_REQUEST__INIT;
    struct identity identity;
    uint64_t number = slot->load->varied++, room[2];
    struct str key = name_of(slot->load, number);

    m.request = identify(slot, &identity);
    m.key = data(key.at, key.len);
    m.ttl_ms = LEASE_SECONDS * 1000;
    m.owner = "bench";
    m.lease_id = data(room, sizeof room);
    room[0] = number + 1;
    room[1] = 1; /* not random: another run renews the same leases */
    encode(&m.base, request);
    return "/muster.v1.Coordination/Create";
}

static const char *muster_renew(struct slot *slot, struct buf *request)
{
    Muster__V1__RenewRequest m = MUSTER__V1__RENEW_REQUEST__INIT;
    ProtobufCBinaryData ids[BATCH_MAX];
    uint64_t ids_at[BATCH_MAX][2];

    m.n_lease_ids = slot->load->plan.batch;
    m.lease_ids = ids;
    for (size_t i = 0; i < m.n_lease_ids; i++) {
        ids_at[i][0] = any_number(slot->load) + 1;
        ids_at[i][1] = 1;
        ids[i] = data(ids_at[i], sizeof ids_at[i]);
    }
    encode(&m.base, request);
    return "/muster.v1.Coordination/Renew";
}

static int muster_renewed(struct slot *slot, struct str message)
{
    struct field renewal;
    size_t good = 0;

    while (field_next(&message, &renewal))
        if (renewal.number == 1 && !field_of(renewal.bytes, 1).value) good++;
    return good == slot->load->plan.batch ? (int)good : -1;
}

/* -- etcd -- */

static const char *etcd_put_key(struct slot *slot, struct buf *request)
{
    Etcdserverpb__PutRequest m = ETCDSERVERPB__PUT_REQUEST__INIT;
    struct str key = name_of(slot->load, any_number(slot->load)), value = value_of(slot);

    m.key = data(key.at, key.len);
    m.value = data(value.at, value.len);
    encode(&m.base, request);
    return "/etcdserverpb.KV/Put";
}

static int etcd_done(struct slot *slot, struct str message)
{
    (void)slot, (void)message; /* refusals are statuses there */
    return 1;
}

static void encode_txn(struct etcd_txn *txn, struct buf *into)
{
    if (txn->err || buf_append(into, buf_peek(&txn->request))) load_die("transaction", STR_EMPTY);
    etcd_txn_deinit(txn);
}

static const char *etcd_create(struct slot *slot, struct buf *request)
{
    struct str key = name_of(slot->load, any_number(slot->load));
    struct etcd_txn txn;

    etcd_txn_init(&txn);
    etcd_if(&txn, key, ETCD_CREATED, 0);
    etcd_put(&txn, key, value_of(slot), 0);
    encode_txn(&txn, request);
    return "/etcdserverpb.KV/Txn";
}

static const char *load_etcd_cas(struct slot *slot, struct buf *request)
{
    struct str key = name_of(slot->load, slot->number);
    struct etcd_txn txn;

    etcd_txn_init(&txn);
    etcd_if(&txn, key, ETCD_MODIFIED, (int64_t)slot->revision);
    etcd_put(&txn, key, value_of(slot), 0);
    encode_txn(&txn, request);
    return "/etcdserverpb.KV/Txn";
}

static int etcd_decided(struct slot *slot, struct str message)
{
    if (!field_of(message, 2).value) return -1;
    slot->revision = field_of(field_of(message, 1).bytes, 3).value;
    return 1;
}

static const char *etcd_get(struct slot *slot, struct buf *request)
{
    Etcdserverpb__RangeRequest m = ETCDSERVERPB__RANGE_REQUEST__INIT;
    struct str key = name_of(slot->load, any_number(slot->load));

    m.key = data(key.at, key.len);
    m.serializable = slot->load->plan.work->stale;
    encode(&m.base, request);
    return "/etcdserverpb.KV/Range";
}

/* A thousand keys from one of them on. */
static const char *etcd_range_keys(struct slot *slot, struct buf *request)
{
    Etcdserverpb__RangeRequest m = ETCDSERVERPB__RANGE_REQUEST__INIT;
    struct str key = name_of(slot->load, any_number(slot->load));

    m.key = data(key.at, key.len);
    m.range_end = data("\xff", 1);
    m.limit = 1000;
    encode(&m.base, request);
    return "/etcdserverpb.KV/Range";
}

static int etcd_got(struct slot *slot, struct str message)
{
    (void)slot;
    return field_of(message, 4).value ? 1 : -1;
}

static const char *grant(uint64_t id, int64_t seconds, struct buf *request)
{
    Etcdserverpb__LeaseGrantRequest m = ETCDSERVERPB__LEASE_GRANT_REQUEST__INIT;

    m.id = (int64_t)id;
    m.ttl = seconds;
    encode(&m.base, request);
    return "/etcdserverpb.Lease/LeaseGrant";
}

/* A lease, the key under it if it is free, and the lease's end. */
static const char *etcd_claim(struct slot *slot, struct buf *request)
{
    struct str key = name_of(slot->load, slot->number);
    struct etcd_txn txn;

    if (slot->step == 0) {
        slot->lease = (random_once() >> 2) + slot->load->varied++;
        return grant(slot->lease, CLAIM_SECONDS, request);
    }
    if (slot->step == 1) {
        etcd_txn_init(&txn);
        etcd_if(&txn, key, ETCD_CREATED, 0);
        etcd_put(&txn, key, value_of(slot), (int64_t)slot->lease);
        encode_txn(&txn, request);
        return "/etcdserverpb.KV/Txn";
    }
    Etcdserverpb__LeaseRevokeRequest m = ETCDSERVERPB__LEASE_REVOKE_REQUEST__INIT;
    m.id = (int64_t)slot->lease;
    encode(&m.base, request);
    return "/etcdserverpb.Lease/LeaseRevoke";
}

static int etcd_claimed(struct slot *slot, struct str message)
{
    if (slot->step == 1 && !field_of(message, 2).value) {
        slot->step = 0;
        return -1;
    }
    return claimed_in(slot, 3);
}

static const char *etcd_lease(struct slot *slot, struct buf *request)
{
    return grant(slot->load->varied++ + 1, LEASE_SECONDS, request);
}

static const char *load_etcd_renew(struct slot *slot, struct buf *request)
{
    Etcdserverpb__LeaseKeepAliveRequest m = ETCDSERVERPB__LEASE_KEEP_ALIVE_REQUEST__INIT;

    m.id = (int64_t)any_number(slot->load) + 1;
    encode(&m.base, request);
    return "/etcdserverpb.Lease/LeaseKeepAlive";
}

static int etcd_renewed(struct slot *slot, struct str message)
{
    (void)slot;
    return field_of(message, 3).value ? 1 : -1;
}

/* -- writes that watchers wait for: the value has the writer and the time -- */

static struct str stamp(struct slot *slot)
{
    static char value[VALUE_MAX];
    size_t len = slot->load->plan.value > 16 ? slot->load->plan.value : 16;

    memcpy(value, &slot->number, 8);
    memcpy(value + 8, &slot->began_ns, 8);
    return str_of(value, len < VALUE_MAX ? len : VALUE_MAX);
}

static const char *muster_notify(struct slot *slot, struct buf *request)
{
    Muster__V1__PutRequest m = MUSTER__V1__PUT_REQUEST__INIT;
    struct identity identity;
    struct str value = stamp(slot);

    m.request = identify(slot, &identity);
    m.key = data(slot->load->plan.prefix, strlen(slot->load->plan.prefix));
    m.value = data(value.at, value.len);
    encode(&m.base, request);
    return "/muster.v1.Coordination/Put";
}

static const char *etcd_notify(struct slot *slot, struct buf *request)
{
    Etcdserverpb__PutRequest m = ETCDSERVERPB__PUT_REQUEST__INIT;
    struct str value = stamp(slot);

    m.key = data(slot->load->plan.prefix, strlen(slot->load->plan.prefix));
    m.value = data(value.at, value.len);
    encode(&m.base, request);
    return "/etcdserverpb.KV/Put";
}

/* -- by name -- */

static const struct work muster_works[] = {
    {.name = "put", .next = muster_put, .answered = muster_decided},
    {.name = "create", .next = muster_create, .answered = muster_decided},
    {.name = "cas", .next = muster_cas, .answered = muster_decided},
    {.name = "get", .next = muster_get, .answered = muster_got},
    {.name = "get-stale", .next = muster_get, .answered = muster_got, .stale = true},
    {.name = "claim", .next = muster_claim, .answered = muster_claimed},
    {.name = "lease", .next = muster_lease, .answered = muster_decided},
    {.name = "renew", .next = muster_renew, .answered = muster_renewed},
    {.name = "watch", .next = muster_notify, .answered = muster_decided, .watched = true},
    {0},
};
static const struct work etcd_works[] = {
    {.name = "put", .next = etcd_put_key, .answered = etcd_done},
    {.name = "create", .next = etcd_create, .answered = etcd_decided},
    {.name = "cas", .next = load_etcd_cas, .answered = etcd_decided},
    {.name = "get", .next = etcd_get, .answered = etcd_got},
    {.name = "get-stale", .next = etcd_get, .answered = etcd_got, .stale = true},
    {.name = "range", .next = etcd_range_keys, .answered = etcd_got},
    {.name = "claim", .next = etcd_claim, .answered = etcd_claimed},
    {.name = "lease", .next = etcd_lease, .answered = etcd_done},
    {.name = "renew", .next = load_etcd_renew, .answered = etcd_renewed, .bidi = true},
    {.name = "watch", .next = etcd_notify, .answered = etcd_done, .watched = true},
    {0},
};

const struct work *load_work(const char *store, const char *op)
{
    const struct work *work = strcmp(store, "muster") == 0 ? muster_works
                              : strcmp(store, "etcd") == 0 ? etcd_works
                                                           : NULL;

    while (work && work->name && strcmp(work->name, op) != 0) work++;
    return work && work->name ? work : NULL;
}
