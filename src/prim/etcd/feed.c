/* SPDX-License-Identifier: Apache-2.0 */
/* A reader's watch: a snapshot read in pages at one revision R, then Watch from R + 1.
 *
 *   SNAPSHOT --pages read--> LIVE --queue full--> WAIT_ROOM --reader has room--> SNAPSHOT
 *                             |  \--history gone (compaction)-------------------> SNAPSHOT
 *                             \--no permission--> ENDED
 *
 * etcd does not report why a key was deleted, so the feed asks for the lease: EXPIRE if the
 * lease is gone, else DELETE, because a release leaves the lease for a second (lease.c). Later
 * responses wait in `chunks`, in order. Guards (prim/guard.c) begin with LIVE, get deletions at
 * once, and get writes of other programs.
 *
 * A reopened watch resumes at its position. Loop's thread only. Closing does not wait for
 * questions under way. */
#include <stdlib.h>

#include "prim/etcd/internal.h"

enum {
    PAGE_ENTRIES = 128,
    PAGE_LIMIT_MS = 10000,
    AGAIN_MS = 500,
    LEASE_LIMIT_MS = 1000,
    CHUNK_BYTES_MAX = 64 * 1024 * 1024,
    CHUNK_LEASES_MAX = 4096,
    REQUEST_MAX = 64 * 1024,
    DENIED_MAX = 2, /* an old token may cause the first denial */
};
struct chunk_lease {
    int64_t lease;
    bool lives;
    struct chunk *chunk;
    struct grpc_thread_op op;
};
struct chunk { /* a watch response that waits for the state of leases */
    struct chunk *next;
    struct etcd_feed *feed;
    const Etcdserverpb__WatchResponse *response; /* in `arena` */
    struct arena arena;
    size_t len; /* of `arena` in bytes; 0: the response is not delivered */
    struct chunk_lease *leases;
    size_t lease_count, unknown;
};
enum feed_state { FEED_SNAPSHOT, FEED_LIVE, FEED_WAIT_ROOM, FEED_ENDED };
struct etcd_feed {
    struct etcd_backend *backend;
    struct prim_feed *feed; /* NULL: the feed is closed */
    enum feed_state state;
    bool guard;
    struct etcd_key from, end; /* an empty `end`: only the key `from` */
    struct grpc_stream stream;
    uint64_t next;
    uint32_t denied;
    /* The snapshot being read. */
    struct grpc_thread_op page;
    bool reading;
    struct prim_snapshot *snapshot;
    struct etcd_key cursor;
    int64_t revision;
    struct timer again;
    /* Used by the thread that opens the watch. */
    int64_t open_deadline_ns;
    struct latch *opening; /* opens after the first snapshot */
    coord_result opened;
    /* Responses that wait for the state of leases. */
    struct chunk *chunks, **chunks_end;
    size_t chunk_bytes, asking;
    struct post room;
    _Atomic bool room_posted;
};

static void read_page(struct etcd_feed *f);

/* -- open and close -- */

static void free_first(struct etcd_feed *f)
{
    struct chunk *chunk = f->chunks;

    f->chunks = chunk->next;
    if (!f->chunks) f->chunks_end = &f->chunks;
    f->chunk_bytes -= chunk->len;
    free(chunk->leases);
    arena_deinit(&chunk->arena);
    free(chunk);
}

static void maybe_free(struct etcd_feed *f)
{
    if (f->feed || f->reading || f->asking > 0) return;
    while (f->chunks) free_first(f);
    prim_snapshot_close(f->snapshot);
    if (f->stream.grpc_thread) grpc_stream_deinit(&f->stream);
    timer_deinit(&f->again);
    free(f);
}

static void etcd_feed_opened(struct etcd_feed *f, coord_result result)
{
    struct latch *wait = f->opening;

    if (!wait) return;
    f->opening = NULL;
    f->opened = result;
    latch_open(wait);
}

/* -- snapshot -- */

static bool etcd_feed_to_event(const struct etcd_feed *f, const Mvccpb__KeyValue *kv, int type,
                               struct prim_event *event)
{
    struct prim_seen seen;
    struct str key = etcd_key_ours(&f->backend->space, grpc_str(kv->key));
    bool ours = etcd_entry_read(&f->backend->space, kv, &seen) == ERR_OK;

    if (!ours && !f->guard) return false;
    *event = (struct prim_event){.type = type,
                                 .revision = (uint64_t)kv->mod_revision,
                                 .token = PRIM_TOKEN_UNKNOWN,
                                 .key = key};
    if (!ours) return true;
    if (kv->lease || !f->guard) event->token = seen.token;
    event->value = seen.envelope.value;
    event->owner = seen.envelope.owner;
    return true;
}

static void go_live(struct etcd_feed *f, uint64_t next)
{
    f->state = FEED_LIVE;
    f->next = next;
    grpc_stream_want(&f->stream);
    etcd_feed_opened(f, prim_ok(COORD_R_NONE));
}

static bool add_entries(struct etcd_feed *f, const Etcdserverpb__RangeResponse *range)
{
    struct prim_event event;

    for (size_t i = 0; i < range->n_kvs; i++)
        if (etcd_feed_to_event(f, range->kvs[i], COORD_ENTRY, &event) &&
            !prim_snapshot_add(f->snapshot, &event))
            return false;
    return true;
}

/* Sets the start of the next page. False: the answer is unusable. */
static bool feed_step(struct etcd_feed *f, const Etcdserverpb__RangeResponse *range)
{
    struct str last = range->n_kvs ? grpc_str(range->kvs[range->n_kvs - 1]->key) : STR_EMPTY;

    if (last.len == 0 || last.len + 1 > sizeof f->cursor.text ||
        str_compare(last, str_of(f->cursor.text, f->cursor.len)) < 0)
        return false;
    memcpy(f->cursor.text, last.at, last.len);
    f->cursor.text[last.len] = '\0';
    f->cursor.len = last.len + 1;
    return true;
}

static void page_failed(struct etcd_feed *f, coord_result why)
{
    if (f->opening) {
        etcd_feed_opened(f, why);
        return;
    }
    if (why.reason == COORD_R_FORBIDDEN || why.reason == COORD_R_DEGRADED) {
        f->state = FEED_ENDED;
        prim_feed_end(f->feed, why.reason);
        return;
    }
    timer_start_in(&f->again, AGAIN_MS); /* the reader knows that a snapshot will follow */
}

static void take_page(struct etcd_feed *f, const Etcdserverpb__RangeResponse *range)
{
    if (!etcd_header_fits(f->backend, range->header)) {
        page_failed(f, prim_answer(COORD_UNAVAILABLE, COORD_R_DEGRADED, "etcd: another cluster"));
        return;
    }
    if (f->revision == 0) f->revision = range->header->revision;
    if (f->revision <= 0) {
        page_failed(f, etcd_corrupt("a snapshot without a revision"));
        return;
    }
    if (!add_entries(f, range)) {
        page_failed(f, prim_no_memory());
    } else if (!range->more) {
        prim_feed_snapshot(f->feed, f->snapshot, (uint64_t)f->revision);
        f->snapshot = NULL;
        go_live(f, (uint64_t)f->revision + 1);
    } else if (feed_step(f, range)) {
        read_page(f);
    } else {
        page_failed(f, etcd_corrupt("a page that does not go on"));
    }
}

static void on_page(struct grpc_thread_op *op)
{
    struct etcd_feed *f = CONTAINER_OF(op, struct etcd_feed, page);
    ProtobufCMessage *message;
    struct arena arena;

    f->reading = false;
    arena_init(&arena, 1);
    if (!f->feed) {
        grpc_op_deinit(op);
        maybe_free(f);
        return;
    }
    if (etcd_says(op, GRPC_OUT_OF_RANGE, "compacted")) {
        timer_start_in(&f->again, AGAIN_MS); /* the revision was compacted: start again */
    } else if (op->err) {
        page_failed(f, etcd_failure(op, false));
    } else if (grpc_read(buf_peek(&op->response), &etcdserverpb__range_response__descriptor, &arena,
                         &message)) {
        page_failed(f, etcd_corrupt("an answer that cannot be read"));
    } else {
        /* A copy, because reading the next page reuses the op. */
        struct grpc_thread_op spent = *op;
        take_page(f, (Etcdserverpb__RangeResponse *)message);
        grpc_op_deinit(&spent);
        arena_deinit(&arena);
        return;
    }
    arena_deinit(&arena);
    grpc_op_deinit(op);
}

static void read_page(struct etcd_feed *f)
{
    Etcdserverpb__RangeRequest request = ETCDSERVERPB__RANGE_REQUEST__INIT;
    int64_t deadline =
        grpc_now(&f->backend->client.grpc_thread) + PAGE_LIMIT_MS * (int64_t)NS_PER_MS;

    if (f->opening && deadline > f->open_deadline_ns) deadline = f->open_deadline_ns;
    request.key = grpc_bytes(str_of(f->cursor.text, f->cursor.len));
    if (f->end.len > 0) request.range_end = grpc_bytes(str_of(f->end.text, f->end.len));
    request.limit = PAGE_ENTRIES;
    request.revision = f->revision;
    etcd_op_init(&f->page, "/etcdserverpb.KV/Range", deadline);
    f->page.idempotent = true;
    f->page.done = on_page;
    if (message_write(&request.base, &f->page.request, NULL)) {
        grpc_op_deinit(&f->page);
        page_failed(f, prim_no_memory());
        return;
    }
    f->reading = true;
    grpc_op_start(&f->backend->client.grpc_thread, &f->page);
}

static void begin_snapshot(struct etcd_feed *f)
{
    f->state = FEED_SNAPSHOT;
    if (f->reading) return;
    prim_snapshot_close(f->snapshot);
    f->snapshot = prim_snapshot_open(f->feed);
    f->cursor = f->from;
    f->revision = 0;
    if (f->snapshot)
        read_page(f);
    else
        page_failed(f, prim_no_memory());
}

static void feed_on_again(struct timer *timer)
{
    struct etcd_feed *f = CONTAINER_OF(timer, struct etcd_feed, again);

    if (f->feed && f->state == FEED_SNAPSHOT) begin_snapshot(f);
}

/* -- changes -- */

static void stop_live(struct etcd_feed *f)
{
    grpc_stream_leave(&f->stream);
    for (struct chunk *chunk = f->chunks; chunk; chunk = chunk->next)
        chunk->len = 0; /* not delivered; freed when answered */
    f->chunk_bytes = 0;
}

static void resync(struct etcd_feed *f)
{
    stop_live(f);
    prim_feed_resync(f->feed);
    begin_snapshot(f);
}

static bool chunk_lease_lives(const struct chunk *chunk, int64_t lease)
{
    for (size_t i = 0; chunk && i < chunk->lease_count; i++)
        if (chunk->leases[i].lease == lease) return chunk->leases[i].lives;
    return true;
}

static bool feed_notify(struct etcd_feed *f, const Mvccpb__Event *event, const struct chunk *chunk)
{
    struct etcd_space *space = &f->backend->space;
    struct str key = etcd_key_ours(space, grpc_str(event->kv->key));
    const Mvccpb__KeyValue *before = event->prev_kv;
    struct prim_seen seen;
    struct prim_event change;

    if (event->type != MVCCPB__EVENT__EVENT_TYPE__DELETE)
        return !etcd_feed_to_event(f, event->kv, COORD_PUT, &change) ||
               prim_feed_put(f->feed, &change);
    change = (struct prim_event){.type = COORD_DELETE, .key = key};
    if (before && !etcd_entry_read(space, before, &seen)) {
        change.owner = seen.envelope.owner;
        change.token = seen.token;
        if (before->lease && !chunk_lease_lives(chunk, before->lease)) change.type = COORD_EXPIRE;
    }
    change.revision = (uint64_t)event->kv->mod_revision;
    return prim_feed_put(f->feed, &change);
}

/* If the queue is full, the next snapshot has the later changes. */
static void deliver(struct etcd_feed *f, const Etcdserverpb__WatchResponse *response,
                    const struct chunk *chunk)
{
    for (size_t i = 0; i < response->n_events; i++) {
        if (feed_notify(f, response->events[i], chunk)) continue;
        stop_live(f);
        f->state = FEED_WAIT_ROOM;
        if (prim_feed_wants_snapshot(f->feed)) begin_snapshot(f);
        return;
    }
    if (response->n_events == 0)
        (void)prim_feed_put(f->feed,
                            &(struct prim_event){.type = COORD_PROGRESS,
                                                 .revision = (uint64_t)response->header->revision});
}

static void flush(struct etcd_feed *f)
{
    for (; f->chunks && f->chunks->unknown == 0; free_first(f))
        if (f->feed && f->chunks->len > 0 && f->state == FEED_LIVE)
            deliver(f, f->chunks->response, f->chunks);
}

static void on_lease(struct grpc_thread_op *op)
{
    struct chunk_lease *lease = CONTAINER_OF(op, struct chunk_lease, op);
    struct chunk *chunk = lease->chunk;
    struct etcd_feed *f = chunk->feed;
    ProtobufCMessage *message;
    struct arena arena;

    arena_init(&arena, 1);
    if (!op->err &&
        !grpc_read(buf_peek(&op->response), &etcdserverpb__lease_time_to_live_response__descriptor,
                   &arena, &message))
        lease->lives = ((Etcdserverpb__LeaseTimeToLiveResponse *)message)->ttl >= 0;
    arena_deinit(&arena);
    grpc_op_deinit(op);
    chunk->unknown--;
    f->asking--;
    flush(f);
    maybe_free(f);
}

static void ask_lease(struct etcd_feed *f, struct chunk *chunk, struct chunk_lease *lease)
{
    Etcdserverpb__LeaseTimeToLiveRequest request = ETCDSERVERPB__LEASE_TIME_TO_LIVE_REQUEST__INIT;
    struct grpc_thread *grpc_thread = &f->backend->client.grpc_thread;

    request.id = lease->lease;
    lease->chunk = chunk;
    etcd_op_init(&lease->op, "/etcdserverpb.Lease/LeaseTimeToLive",
                 grpc_now(grpc_thread) + LEASE_LIMIT_MS * (int64_t)NS_PER_MS);
    lease->op.idempotent = true;
    lease->op.done = on_lease;
    if (message_write(&request.base, &lease->op.request, NULL)) {
        grpc_op_deinit(&lease->op);
        return;
    }
    chunk->unknown++;
    f->asking++;
    grpc_op_start(grpc_thread, &lease->op);
}

static int64_t feed_lease_of(const Mvccpb__Event *event)
{
    if (event->type != MVCCPB__EVENT__EVENT_TYPE__DELETE || !event->prev_kv) return 0;
    return event->prev_kv->lease;
}

static size_t count_leases(const Etcdserverpb__WatchResponse *response)
{
    size_t count = 0;

    for (size_t i = 0; i < response->n_events && count < CHUNK_LEASES_MAX; i++)
        if (feed_lease_of(response->events[i])) count++;
    return count;
}

static bool asked_already(const struct chunk *chunk, int64_t lease)
{
    for (size_t i = 0; i < chunk->lease_count; i++)
        if (chunk->leases[i].lease == lease) return true;
    return false;
}

/* Keeps the response and its arena for later. False: out of memory. */
static bool set_aside(struct etcd_feed *f, const Etcdserverpb__WatchResponse *response,
                      struct arena *arena, size_t leases)
{
    struct chunk *chunk = calloc(1, sizeof *chunk);
    struct chunk_lease *rows = calloc(leases ? leases : 1, sizeof *rows);

    if (!chunk || !rows) {
        free(chunk);
        free(rows);
        return false;
    }
    chunk->feed = f;
    chunk->response = response;
    chunk->arena = *arena;
    chunk->len = arena->used;
    chunk->leases = rows;
    arena_init(arena, 1);
    f->chunk_bytes += chunk->len;
    for (size_t i = 0; i < response->n_events && chunk->lease_count < leases; i++) {
        int64_t lease = feed_lease_of(response->events[i]);
        if (!lease || asked_already(chunk, lease)) continue;
        chunk->leases[chunk->lease_count].lease = lease;
        ask_lease(f, chunk, &chunk->leases[chunk->lease_count++]);
    }
    *f->chunks_end = chunk; /* queued before the first answer about a lease can arrive */
    f->chunks_end = &chunk->next;
    return true;
}

static void feed_take_events(struct etcd_feed *f, const Etcdserverpb__WatchResponse *response,
                             struct arena *arena)
{
    size_t leases = f->guard ? 0 : count_leases(response);

    if (leases == 0 && !f->chunks)
        deliver(f, response, NULL);
    else if (arena->used > CHUNK_BYTES_MAX - min_size(f->chunk_bytes, CHUNK_BYTES_MAX) ||
             !set_aside(f, response, arena, leases))
        resync(f);
    else
        flush(f);
}

/* -- the stream -- */

static void etcd_feed_on_open(struct grpc_stream *stream)
{
    struct etcd_feed *f = CONTAINER_OF(stream, struct etcd_feed, stream);
    Etcdserverpb__WatchRequest request = ETCDSERVERPB__WATCH_REQUEST__INIT;
    Etcdserverpb__WatchCreateRequest create = ETCDSERVERPB__WATCH_CREATE_REQUEST__INIT;
    struct buf bytes;

    create.key = grpc_bytes(etcd_key_str(&f->from));
    if (f->end.len > 0) create.range_end = grpc_bytes(etcd_key_str(&f->end));
    create.start_revision = (int64_t)f->next;
    create.prev_kv = true;
    create.progress_notify = !f->guard;
    create.fragment = true;
    request.request_union_case = ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST;
    request.create_request = &create;
    buf_init(&bytes, REQUEST_MAX);
    if (message_write(&request.base, &bytes, NULL) || grpc_stream_send(stream, buf_peek(&bytes)))
        grpc_stream_reset(stream);
    buf_deinit(&bytes);
}

static void cancelled(struct etcd_feed *f, const Etcdserverpb__WatchResponse *response)
{
    const char *why = response->cancel_reason;

    if (response->compact_revision > 0 || strstr(why, "compacted")) {
        resync(f);
    } else if (!strstr(why, "permission") && !strstr(why, "auth") &&
               !strstr(why, "user name is empty")) {
        grpc_stream_reset(&f->stream); /* the stream is requested again after a pause */
    } else if (++f->denied < DENIED_MAX && etcd_client_forget_token(&f->backend->client)) {
        grpc_stream_reset(&f->stream);
    } else {
        stop_live(f);
        f->state = FEED_ENDED;
        prim_feed_end(f->feed, COORD_R_FORBIDDEN);
    }
}

/* An impossible number would make the watch skip later changes. */
static bool makes_sense(const Etcdserverpb__WatchResponse *response)
{
    if (!response->header || response->header->revision < 0) return false;
    for (size_t i = 0; i < response->n_events; i++)
        if (!response->events[i]->kv || response->events[i]->kv->mod_revision <= 0) return false;
    return true;
}

static void etcd_feed_take(struct etcd_feed *f, const Etcdserverpb__WatchResponse *response,
                           struct arena *arena)
{
    if (response->canceled) {
        cancelled(f, response);
        return;
    }
    if (response->created) {
        f->denied = 0;
        return;
    }
    if (!response->fragment) {
        uint64_t seen = response->n_events > 0
                            ? (uint64_t)response->events[response->n_events - 1]->kv->mod_revision
                            : (uint64_t)response->header->revision;
        if (seen + 1 > f->next) f->next = seen + 1;
    }
    feed_take_events(f, response, arena);
}

static void etcd_feed_on_message(struct grpc_stream *stream, struct str bytes)
{
    struct etcd_feed *f = CONTAINER_OF(stream, struct etcd_feed, stream);
    Etcdserverpb__WatchResponse *response;
    ProtobufCMessage *message;
    struct arena arena;

    if (grpc_read(bytes, &etcdserverpb__watch_response__descriptor, &arena, &message) ||
        !makes_sense(response = (Etcdserverpb__WatchResponse *)message) ||
        !etcd_header_fits(f->backend, response->header))
        grpc_stream_reset(stream);
    else
        etcd_feed_take(f, response, &arena);
    arena_deinit(&arena);
}

/* -- called from outside -- */

static void etcd_feed_on_room_post(struct post *post)
{
    struct etcd_feed *f = CONTAINER_OF(post, struct etcd_feed, room);

    f->room_posted = false;
    if (f->feed && f->state == FEED_WAIT_ROOM) begin_snapshot(f);
}

static void etcd_feed_on_room(void *owner)
{
    struct etcd_feed *f = owner;

    if (atomic_exchange(&f->room_posted, true)) return;
    post_init(&f->room, etcd_feed_on_room_post);
    loop_post(grpc_loop(&f->backend->client.grpc_thread), &f->room);
}

static void set_range(struct etcd_feed *f)
{
    struct etcd_key *from = &f->from, *end = &f->end;
    struct prim_scope scope = prim_feed_scope(f->feed);

    etcd_key_make(&f->backend->space, scope.name, from);
    end->len = 0;
    if (!scope.bucket) return;
    if (scope.name.len > 0) from->text[from->len++] = '/';
    *end = *from;
    if (end->len > 0) {
        end->text[end->len - 1]++; /* '/' + 1: the first key after all keys with this prefix */
        return;
    }
    from->text[from->len++] = '\0'; /* "\0" means all existing keys */
    *end = *from;
}

static void etcd_feed_on_watch(void *owner)
{
    struct etcd_feed *f = owner;

    struct grpc_thread *grpc_thread = &f->backend->client.grpc_thread;

    if (timer_init(&f->again, grpc_loop(grpc_thread), feed_on_again) ||
        grpc_stream_init(&f->stream, grpc_thread, "/etcdserverpb.Watch/Watch")) {
        etcd_feed_opened(f, prim_no_memory());
        return;
    }
    if (f->guard)
        go_live(f, prim_feed_since(f->feed));
    else
        begin_snapshot(f);
}

static void etcd_feed_on_unwatch(void *owner)
{
    struct etcd_feed *f = owner;

    stop_live(f);
    timer_stop(&f->again);
    f->feed = NULL;
    maybe_free(f);
}

coord_result etcd_watch(struct prim_backend *base, const struct prim_call *call,
                        struct prim_feed *feed, void **ret_watch)
{
    struct etcd_backend *b = etcd_of(base);
    struct etcd_feed *f = calloc(1, sizeof *f);
    struct latch wait;
    coord_result result;

    if (!f) return prim_no_memory();
    f->backend = b;
    f->feed = feed;
    f->guard = prim_feed_since(feed) > 0;
    f->open_deadline_ns = call->deadline_ns;
    f->chunks_end = &f->chunks;
    set_range(f);
    f->stream.on_open = etcd_feed_on_open;
    f->stream.on_message = etcd_feed_on_message;
    prim_feed_on_room(feed, etcd_feed_on_room, f);
    latch_init(&wait);
    f->opening = &wait;
    grpc_loop_call(&b->client.grpc_thread, etcd_feed_on_watch, f);
    latch_wait(&wait);
    result = f->opened;
    if (result.code == COORD_OK)
        *ret_watch = f;
    else
        grpc_loop_call(&b->client.grpc_thread, etcd_feed_on_unwatch, f);
    return result;
}

void etcd_unwatch(struct prim_backend *base, void *watch)
{
    grpc_loop_call(&etcd_of(base)->client.grpc_thread, etcd_feed_on_unwatch, watch);
}
