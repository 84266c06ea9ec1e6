/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as requests of etcd's Watch and Lease, with writes between them: refused by the
 * decoder, or accepted. Each response is a message of its type; the revisions of a watch rise, and
 * each event is sent once; a granted lease exists, and its keys end with it.
 *
 * Each record: one byte of kind, one of length, then the message; for acts without a message the
 * length is a number. */
#include <stdlib.h>

#include "sim/sim.h"
#include "store/etcd/feed.h"
#include "store/etcd/internal.h"
#include "wire/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    WATCH, /* and WATCH + 1: of the second stream */
    GRANT = 2,
    REVOKE,
    KEEP_ALIVE,
    PUT, /* a key of one byte, under the lease of that number when there is one */
    DELETE,
    COMPACT,
    DOOR,
    RUN,
    CLOCK,
    RESTORE,
    ACTS,
    STREAMS = 2,
    WATCHES = 256,
};
struct client {
    struct feed_stream stream;
    bool closed_door;
    struct {
        int64_t id;
        uint64_t last; /* revision reported, as events or as progress */
    } reported[WATCHES];
    size_t count;
};
static struct {
    struct sim *sim;
    struct store_machine *store;
    struct state_machine machine;
    struct watch_engine *engine;
    struct feed *feed;
    struct client clients[STREAMS];
    struct arena arena;
    struct buf command, reply;
    uint64_t index, clock_ns;
} bed;

static void must(bool holds)
{
    if (!holds) abort();
}

static const struct store *store(void)
{
    return store_machine_store(bed.store);
}

static void apply(const struct store_command *command)
{
    buf_clear(&bed.command);
    buf_clear(&bed.reply);
    must(store_command_write(command, &bed.command) == ERR_OK);
    struct machine_entry entry = {.index = ++bed.index,
                                  .term = 1,
                                  .clock_ns = bed.clock_ns,
                                  .version = STORE_MACHINE_VERSION,
                                  .level = STORE_MACHINE_VERSION,
                                  .command = buf_peek(&bed.command)};
    must(bed.machine.ops->apply(bed.machine.state, &entry, &bed.reply, NULL) == ERR_OK);
    while (bed.machine.ops->apply_more(bed.machine.state, &bed.reply)) continue;
}

/* -- checks of watch responses -- */

static void on_events(struct client *c, const Etcdserverpb__WatchResponse *m)
{
    uint64_t *last = NULL;

    for (size_t i = 0; i < c->count; i++)
        if (c->reported[i].id == m->watch_id) last = &c->reported[i].last;
    must(last != NULL);
    for (size_t i = 0; i < m->n_events; i++) {
        uint64_t mod = (uint64_t)m->events[i]->kv->mod_revision;
        bool same = i > 0 && mod == (uint64_t)m->events[i - 1]->kv->mod_revision;

        must(mod > *last || same);
        *last = mod;
    }
    must((uint64_t)m->header->revision >= *last);
}

static enum err on_send(struct feed_stream *stream, struct str bytes, bool kept)
{
    struct client *c = CONTAINER_OF(stream, struct client, stream);
    Etcdserverpb__WatchResponse *m;

    if (c->closed_door && !kept) return ERR_FULL;
    m = etcdserverpb__watch_response__unpack(NULL, bytes.len, (const uint8_t *)bytes.at);
    must(m && m->header);
    if (m->created && !m->canceled && c->count < WATCHES) {
        c->reported[c->count].id = m->watch_id;
        c->reported[c->count++].last = 0;
    } else if (m->canceled && !m->created) {
        for (size_t i = 0; i < c->count; i++)
            if (c->reported[i].id == m->watch_id) c->reported[i] = c->reported[--c->count];
    } else if (m->n_events) {
        on_events(c, m);
    } else if (m->watch_id == -1 && !m->created) {
        for (size_t i = 0; i < c->count; i++) {
            must((uint64_t)m->header->revision >= c->reported[i].last);
            c->reported[i].last = (uint64_t)m->header->revision;
        }
    }
    etcdserverpb__watch_response__free_unpacked(m, NULL);
    return ERR_OK;
}

static void on_broken(struct feed_stream *stream, enum err err)
{
    (void)stream;
    must(err == ERR_OK); /* nothing here is out of memory */
}

static void header(void *owner, struct pack *into, uint64_t revision)
{
    char room[16];
    struct buf small = {.data = room, .cap = sizeof room, .max = sizeof room};
    struct pack head = {&small, ERR_OK};

    (void)owner;
    pack_u64(&head, 3, revision);
    pack_row(into, 1, &head);
}

static void on_applied(void *owner, struct key_changes changes)
{
    (void)owner;
    watch_engine_applied(bed.engine, changes);
}

static void on_restored(void *owner)
{
    (void)owner;
    watch_engine_restored(bed.engine);
}

static const char *refusal(void *owner, struct key_range range)
{
    (void)owner;
    must(range.from.len > 0);
    return range.from.at[0] == 'z' ? "etcdserver: permission denied" : NULL;
}

/* -- acts -- */

static ProtobufCMessage *read(const ProtobufCMessageDescriptor *type, struct str bytes)
{
    ProtobufCMessage *message;
    struct note note = {""};

    arena_reset(&bed.arena);
    return message_read(type, bytes, NULL, &bed.arena, &message, &note) ? NULL : message;
}

static void grant(const Etcdserverpb__LeaseGrantRequest *m)
{
    struct store_command command;
    struct store_lease lease;
    bool there = m->id && store_lease_of(store(), m->id, bed.clock_ns, &lease);

    if (etcd_grant_command(m, 77, &command)) return;
    apply(&command);
    must(store_lease_of(store(), m->id ? m->id : 77, bed.clock_ns, &lease));
    must(there || lease.ttl_ms >= 2000);
}

static void revoke(const Etcdserverpb__LeaseRevokeRequest *m)
{
    struct store_command command;
    struct store_lease lease;

    if (etcd_revoke_command(m, &command)) return;
    apply(&command);
    must(!store_lease_of(store(), m->id, bed.clock_ns, &lease));
    must(keys_of_lease_count(store_keys(store()), (uint64_t)m->id) == 0);
}

static void keep_alive(const Etcdserverpb__LeaseKeepAliveRequest *m)
{
    struct store_id id = store_plain_lease(m->id);
    struct store_lease lease;
    struct store_renewal renewal;

    apply(&(struct store_command){.kind = STORE_RENEW, .renew = &id, .renew_count = 1});
    must(store_renewals_parse(buf_peek(&bed.reply), &renewal, 1) == 1);
    must((renewal.code == 0) == store_lease_of(store(), m->id, bed.clock_ns, &lease));
    must(renewal.code || lease.remaining_ms == lease.ttl_ms);
}

static void put(uint8_t number)
{
    char key = (char)('a' + number % 16);
    struct store_command command = {.kind = STORE_PUT, .key = str_of(&key, 1), .value = STR("v")};
    struct store_lease lease;

    if (store_lease_of(store(), number, bed.clock_ns, &lease))
        command.held = store_plain_lease(number);
    apply(&command);
}

static void restore(void)
{
    struct note note = {""};
    struct buf bytes;
    void *view;
    bool done = false;

    buf_init(&bytes, (size_t)16 << 20);
    must(bed.machine.ops->snapshot_begin(bed.machine.state, bed.index, &view) == ERR_OK);
    while (!done) must(bed.machine.ops->snapshot_next(view, 1 << 16, &bytes, &done) == ERR_OK);
    bed.machine.ops->snapshot_end(view);
    must(bed.machine.ops->restore_begin(bed.machine.state, bed.index, &note) == ERR_OK);
    must(bed.machine.ops->restore_next(bed.machine.state, buf_peek(&bytes), &note) == ERR_OK);
    must(bed.machine.ops->restore_end(bed.machine.state, &note) == ERR_OK);
    buf_deinit(&bytes);
}

static void act(uint8_t what, uint8_t number, struct str bytes)
{
    const struct keys *keys = store_keys(store());
    struct client *c = &bed.clients[what % STREAMS];
    ProtobufCMessage *m = NULL;
    char ends[2] = {(char)('a' + number % 8), (char)('a' + number % 8 + number / 64 + 1)};

    switch (what) {
    case WATCH:
    case WATCH + 1:
        m = read(&etcdserverpb__watch_request__descriptor, bytes);
        if (m) feed_request(&c->stream, (const Etcdserverpb__WatchRequest *)m, refusal, NULL);
        break;
    case GRANT:
        m = read(&etcdserverpb__lease_grant_request__descriptor, bytes);
        if (m) grant((const Etcdserverpb__LeaseGrantRequest *)m);
        break;
    case REVOKE:
        m = read(&etcdserverpb__lease_revoke_request__descriptor, bytes);
        if (m) revoke((const Etcdserverpb__LeaseRevokeRequest *)m);
        break;
    case KEEP_ALIVE:
        m = read(&etcdserverpb__lease_keep_alive_request__descriptor, bytes);
        if (m) keep_alive((const Etcdserverpb__LeaseKeepAliveRequest *)m);
        break;
    case PUT: put(number); break;
    case DELETE:
        apply(&(struct store_command){.kind = STORE_DELETE_RANGE,
                                      .key = str_of(&ends[0], 1),
                                      .range_end = str_of(&ends[1], 1)});
        break;
    case COMPACT:
        if (keys_revision(keys) > number)
            apply(&(struct store_command){.kind = STORE_COMPACT,
                                          .expected = keys_revision(keys) - number});
        break;
    case DOOR:
        c = &bed.clients[number % STREAMS];
        c->closed_door = !c->closed_door;
        if (!c->closed_door) watch_stream_writable(&c->stream.base);
        break;
    case RUN: (void)sim_run_for(bed.sim, number % 8); break;
    case CLOCK: bed.clock_ns += number * 100 * NS_PER_MS; break;
    case RESTORE: restore(); break;
    default: break;
    }
}

static bool takes_bytes(uint8_t what)
{
    return what <= KEEP_ALIVE;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sim_host *host;

    memset(&bed, 0, sizeof bed);
    arena_init(&bed.arena, (size_t)64 << 20);
    buf_init(&bed.command, (size_t)4 << 20);
    buf_init(&bed.reply, (size_t)4 << 20);
    must(sim_open(&(struct sim_options){.seed = 1, .events_max = 1000000}, &bed.sim) == ERR_OK);
    must(sim_host_add(bed.sim, &(struct sim_host_options){.name = "h"}, &host) == ERR_OK);
    must(store_machine_open(
             &(struct store_machine_options){.applied = on_applied, .restored = on_restored},
             &bed.store) == ERR_OK);
    bed.machine = store_machine_registration(bed.store);
    must(watch_engine_open(
             &(struct watch_engine_options){.io = sim_host_io(host), .machine = bed.store},
             &bed.engine) == ERR_OK);
    must(feed_open(&(struct feed_options){.io = sim_host_io(host),
                                          .engine = bed.engine,
                                          .watches_max = WATCHES / 2,
                                          .progress_ms = 3,
                                          .send = on_send,
                                          .broken = on_broken,
                                          .header = header},
                   &bed.feed) == ERR_OK);
    for (size_t i = 0; i < STREAMS; i++) feed_stream_init(bed.feed, &bed.clients[i].stream);
    for (size_t acts = 0; size >= 2 && acts < 512; acts++) {
        uint8_t what = data[0] % ACTS, number = data[1];
        size_t len = takes_bytes(what) ? min_size(number, size - 2) : 0;

        act(what, number, str_of(data + 2, len));
        data += 2 + len;
        size -= 2 + len;
    }
    for (size_t i = 0; i < STREAMS; i++) {
        bed.clients[i].closed_door = false;
        watch_stream_writable(&bed.clients[i].stream.base);
    }
    (void)sim_run_for(bed.sim, 10);
    for (size_t i = 0; i < STREAMS; i++) feed_stream_deinit(&bed.clients[i].stream);
    feed_close(bed.feed);
    watch_engine_close(bed.engine);
    store_machine_close(bed.store);
    sim_close(bed.sim);
    buf_deinit(&bed.command);
    buf_deinit(&bed.reply);
    arena_deinit(&bed.arena);
    return 0;
}
