/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the Raft library (libraft): each call runs library steps between guards and returns one
 * set of effects.
 *
 * Ownership (docs/raft-guards.md): the bytes of entries always belong to the caller. The engine
 * passes &no_batch as the library's "batch", and the allocator ignores a free of that address.
 * Configurations are allocated for each event and then belong to the library.
 *
 * Out of memory: the library does not survive a failed allocation (defect 22). Therefore an
 * allocation uses a reserve instead, and the call returns ERR_NOMEM, which ends the process. */
#include "log/engine.h"

#include <stdlib.h>
#include <string.h>

#include "log/guards.h"

enum {
    /* A new leader sends each member two messages and its barrier entry. */
    MESSAGES_MAX = 4 * REPLICA_MEMBERS_MAX + 4,
    /* Larger than any step's allocations. Never written to, so not resident. */
    ENGINE_RESERVE_BYTES = 1 << 20,
    /* Each failed candidacy doubles the election time-out. Limits: ELECTION_FACTOR_MAX times the
     * configured value, and ELECTION_MAX_MS unless the configured value is larger. The library
     * waits one to two times as long, at random. */
    ELECTION_FACTOR_MAX = 4,
    ELECTION_MAX_MS = 1000,
};
static_assert(RAFT_VERSION_NUMBER == 2201, "libraft 0.22.1, the one that was simulated");
static_assert((int)ENTRY_COMMAND == (int)RAFT_COMMAND && (int)ENTRY_BARRIER == (int)RAFT_BARRIER &&
                  (int)ENTRY_CHANGE == (int)RAFT_CHANGE,
              "entry kinds are the engine's");

struct heard {
    uint64_t id;
    mono_time at;
};
struct shape { /* a change of these fields sets ENGINE_ROLE */
    int state;
    uint64_t term, leader, uncommitted, committed;
};
struct engine {
    struct raft raft;
    struct guards guards;
    mono_time now;
    bool begun;
    uint64_t commit;      /* last index that may be applied */
    uint32_t election_ms; /* configured value */
    struct shape reported;
    struct heard heard[REPLICA_MEMBERS_MAX]; /* on a leader: each member's last response */
    size_t heard_count;
    uint32_t flags;
    uint64_t entries_index;
    struct raft_entry *entries; /* entries returned to the caller */
    size_t entry_count;
    struct raft_message messages[MESSAGES_MAX];
    size_t message_count;
    struct raft_entry barrier;
    struct raft_entry *given; /* entries passed to the library */
    size_t given_cap;
    void *reserve; /* memory for one step; NULL: the engine ran out of memory */
};

static const struct guards_step plain; /* a step without vote, leader's message or time-out */

/* -- memory -- */

static char no_batch;
static _Thread_local struct engine *stepping; /* the engine whose step runs on this thread */

/* True: the reserve is free, so try the allocation again. */
static bool use_reserve(const void *got)
{
    if (got || !stepping || !stepping->reserve) {
        assert(got || !stepping);
        return false;
    }
    free(stepping->reserve);
    stepping->reserve = NULL;
    return true;
}

static void *heap_malloc(void *, size_t size)
{
    void *memory = malloc(size);
    return use_reserve(memory) ? malloc(size) : memory;
}
static void heap_free(void *, void *memory)
{
    if (memory != &no_batch) free(memory);
}
static void *heap_calloc(void *, size_t count, size_t size)
{
    void *memory = calloc(count, size);
    return use_reserve(memory) ? calloc(count, size) : memory;
}
static void *heap_realloc(void *, void *memory, size_t size)
{
    void *grown = realloc(memory, size);
    if (grown) return grown;
    return use_reserve(grown) ? realloc(memory, size) : NULL;
}
static void *heap_aligned_alloc(void *, size_t alignment, size_t size)
{
    return aligned_alloc(alignment, size); /* only the library's libuv layer calls this */
}
static void heap_aligned_free(void *data, size_t, void *memory)
{
    heap_free(data, memory);
}
static struct raft_heap heap = {
    .malloc = heap_malloc,
    .free = heap_free,
    .calloc = heap_calloc,
    .realloc = heap_realloc,
    .aligned_alloc = heap_aligned_alloc,
    .aligned_free = heap_aligned_free,
};

static enum err err_of(int rv)
{
    switch (rv) {
    case 0: return ERR_OK;
    case RAFT_NOMEM: return ERR_NOMEM;
    case RAFT_SHUTDOWN: return ERR_CORRUPT; /* two logs differ below the commit index */
    default: return ERR_INTERNAL;
    }
}

static enum err configuration_of(const struct members *members,
                                 struct raft_configuration *ret_configuration)
{
    struct raft_configuration configuration;

    raft_configuration_init(&configuration);
    for (size_t i = 0; i < members->count; i++) {
        const struct member *member = &members->at[i];
        int role = member->role == MEMBER_VOTER ? RAFT_VOTER : RAFT_STANDBY;
        int rv = raft_configuration_add(&configuration, member->id, member->address, role);
        if (rv) {
            raft_configuration_close(&configuration);
            return err_of(rv);
        }
    }
    *ret_configuration = configuration;
    return ERR_OK;
}

static void members_of(const struct raft_configuration *configuration, struct members *ret_members)
{
    assert(configuration->n <= REPLICA_MEMBERS_MAX);
    ret_members->count = configuration->n;
    for (unsigned i = 0; i < configuration->n; i++) {
        struct member *member = &ret_members->at[i];
        member->id = configuration->servers[i].id;
        member->role = configuration->servers[i].role == RAFT_VOTER ? MEMBER_VOTER : MEMBER_LEARNER;
        size_t len = strlen(configuration->servers[i].address);
        assert(len <= REPLICA_ADDRESS_MAX);
        memcpy(member->address, configuration->servers[i].address, len + 1);
    }
}

static enum err metadata_of(const struct snapshot_mark *mark,
                            struct raft_snapshot_metadata *ret_metadata)
{
    ret_metadata->index = mark->index;
    ret_metadata->term = mark->term;
    ret_metadata->configuration_index = mark->members_index;
    return configuration_of(&mark->members, &ret_metadata->configuration);
}

/* -- opening -- */

enum err engine_open(const struct engine_options *options, struct engine **ret_engine)
{
    struct engine *engine;
    int rv;

    assert(options->id && options->heartbeat_ms && options->election_ms > options->heartbeat_ms);
    engine = calloc(1, sizeof *engine);
    if (!engine) return ERR_NOMEM;
    engine->reserve = malloc(ENGINE_RESERVE_BYTES);
    if (raft_heap_get() != &heap) raft_heap_set(&heap);
    rv = engine->reserve ? raft_init(&engine->raft, NULL, NULL, options->id, options->address)
                         : RAFT_NOMEM;
    if (rv) {
        free(engine->reserve);
        free(engine);
        return err_of(rv);
    }
    engine->raft.tracer = NULL; /* the environment can set a tracer that writes to stderr */
    raft_seed(&engine->raft, options->seed);
    raft_set_election_timeout(&engine->raft, options->election_ms);
    raft_set_heartbeat_timeout(&engine->raft, options->heartbeat_ms);
    raft_set_install_snapshot_timeout(&engine->raft, guards_install_ms(options->election_ms));
    raft_set_pre_vote(&engine->raft, true);
    raft_set_max_inflight_entries(&engine->raft,
                                  options->in_flight_entries ? options->in_flight_entries : 1);
    engine->election_ms = options->election_ms;
    engine->guards.election_ms = options->election_ms;
    engine->guards.heartbeat_ms = options->heartbeat_ms;
    *ret_engine = engine;
    return ERR_OK;
}

void engine_close(struct engine *engine)
{
    if (!engine) return;
    raft_close(&engine->raft, NULL);
    free(engine->given);
    free(engine->reserve);
    free(engine);
}

/* -- back-off of elections -- */

/* A vote that arrives after its candidate's term elects nobody. Slow replicas could repeat this
 * for ever, so each failed candidacy makes the time-out longer. */
static void set_election_timeout(struct engine *engine, uint64_t ms)
{
    if (engine->raft.election_timeout != ms) raft_set_election_timeout(&engine->raft, (unsigned)ms);
}

static void candidacy_failed(struct engine *engine)
{
    uint64_t usual = engine->election_ms;
    uint64_t longest = min_u64(ELECTION_FACTOR_MAX * usual, max_u64(ELECTION_MAX_MS, usual));

    set_election_timeout(engine, min_u64(2 * (uint64_t)engine->raft.election_timeout, longest));
}

/* A candidacy has failed when this replica's next candidacy begins or another candidate has a
 * higher term. */
static void look_at_candidacy(struct engine *engine, bool timeout)
{
    const struct raft *raft = &engine->raft;

    if (engine->reported.state != RAFT_CANDIDATE) return;
    if ((raft->state == RAFT_CANDIDATE && timeout &&
         raft->election_timer_start == engine->now.ms) ||
        (raft->state == RAFT_FOLLOWER && !raft->follower_state.current_leader.id))
        candidacy_failed(engine);
}

/* Restarts the election time-out. A leader also checks for its majority when the time-out ends. */
static void election_over(struct engine *engine)
{
    set_election_timeout(engine, engine->election_ms);
}

/* -- call_begin, steps, call_end -- */

static void call_begin(struct engine *engine, mono_time now)
{
    assert(now.ms >= engine->now.ms);
    engine->now = now;
    engine->flags = 0;
    engine->entry_count = 0;
    engine->message_count = 0;
}

static void engine_take_entries(struct engine *engine, const struct raft_update *update)
{
    struct raft_entry *batch = update->entries.batch;

    if (batch->batch != &no_batch) { /* a barrier made by the library, on its heap */
        assert(update->entries.n == 1 && batch->type == RAFT_BARRIER);
        engine->barrier = *batch;
        engine->barrier.buf = (struct raft_buffer){NULL, 0};
        raft_free(batch->batch);
        engine->barrier.batch = NULL;
        batch = &engine->barrier;
    }
    if (engine->entry_count == 0) {
        engine->entries_index = update->entries.index;
        engine->entries = batch;
    }
    assert(engine->entries_index + engine->entry_count == update->entries.index);
    assert(engine->entries + engine->entry_count == batch);
    engine->entry_count += update->entries.n;
    engine->flags |= ENGINE_ENTRIES;
}

static enum err engine_step(struct engine *engine, struct raft_event *event,
                            const struct guards_step *what)
{
    struct raft_update update;
    enum err err = ERR_OK;
    size_t count;
    int rv;

    event->time = engine->now.ms;
    event->capacity = 0; /* with a limit the library would refuse a new leader's barrier */
    stepping = engine;
    rv = raft_step(&engine->raft, event, &update);
    stepping = NULL;
    if (rv) return err_of(rv);
    if (!engine->reserve) err = ERR_NOMEM; /* the caller ignores the effects */
    if (update.flags & (RAFT_UPDATE_CURRENT_TERM | RAFT_UPDATE_VOTED_FOR))
        engine->flags |= ENGINE_VOTE;
    if (update.flags & (RAFT_UPDATE_ENTRIES)) engine_take_entries(engine, &update);
    if (update.flags & (RAFT_UPDATE_SNAPSHOT)) {
        raft_configuration_close(&update.snapshot.metadata.configuration);
        engine->flags |= ENGINE_INSTALL;
    }
    count = update.messages.n;
    assert(engine->message_count + count < MESSAGES_MAX);
    if (count)
        memcpy(&engine->messages[engine->message_count], update.messages.batch,
               count * sizeof engine->messages[0]);
    if (guards_after(&engine->guards, &engine->raft, what, engine->now,
                     &engine->messages[engine->message_count], &count))
        engine->flags |= ENGINE_VOTE;
    engine->message_count += count;
    return err;
}

static enum err reserve_given(struct engine *engine, size_t count)
{
    struct raft_entry *given;
    size_t cap = max_size(engine->given_cap, 64);

    if (count <= engine->given_cap) return ERR_OK;
    while (cap < count) cap *= 2;
    given = realloc(engine->given, cap * sizeof *given);
    if (!given) return ERR_NOMEM;
    engine->given = given;
    engine->given_cap = cap;
    return ERR_OK;
}

static void engine_give(struct raft_entry *to, const struct entry *entries, size_t count,
                        uint64_t term)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (struct raft_entry){
            .term = term ? term : entries[i].term,
            .type = (enum raft_entry_type)entries[i].kind,
            .buf = {.base = (void *)entries[i].bytes.at, .len = entries[i].bytes.len},
            .batch = &no_batch,
        };
}

/* A new leader needs an entry of its own term for the commit index, reads and changes. The
 * library appends a barrier only if its log is longer than its commit index. */
static enum err ensure_barrier(struct engine *engine)
{
    struct raft_event event = {.type = RAFT_SUBMIT};

    if (engine->raft.state != RAFT_LEADER || engine->reported.state == RAFT_LEADER) return ERR_OK;
    engine->heard_count = 0;
    engine->guards.heir = 0;
    if (engine->flags & ENGINE_ENTRIES) return ERR_OK;
    engine->barrier = (struct raft_entry){
        .term = engine->raft.current_term, .type = RAFT_BARRIER, .batch = &no_batch};
    event.submit.entries = &engine->barrier;
    event.submit.n = 1;
    return engine_step(engine, &event, &plain);
}

static struct shape shape_of(const struct engine *engine)
{
    return (struct shape){
        .state = engine->raft.state,
        .term = engine->raft.current_term,
        .leader = engine_leader(engine),
        .uncommitted = engine->raft.configuration_uncommitted_index,
        .committed = engine->raft.configuration_committed_index,
    };
}

static enum err call_end(struct engine *engine, enum err err, struct engine_effects *ret_effects)
{
    struct shape shape;
    uint64_t commit;

    if (!err) err = ensure_barrier(engine);
    if (err) return err;
    if (engine->raft.state == RAFT_LEADER) election_over(engine);
    shape = shape_of(engine);
    if (shape.state != engine->reported.state || shape.term != engine->reported.term ||
        shape.leader != engine->reported.leader ||
        shape.uncommitted != engine->reported.uncommitted ||
        shape.committed != engine->reported.committed)
        engine->flags |= ENGINE_ROLE;
    engine->reported = shape;
    commit = guards_commit(&engine->raft, engine->commit);
    if (commit != engine->commit) engine->flags |= ENGINE_COMMIT;
    engine->commit = commit;
    if (engine->message_count) engine->flags |= ENGINE_MESSAGES;
    ret_effects->flags = engine->flags;
    ret_effects->term = engine->raft.current_term;
    ret_effects->vote = guards_vote(&engine->guards, &engine->raft);
    ret_effects->entries_index = engine->entries_index;
    ret_effects->entries = engine->entries;
    ret_effects->entry_count = engine->entry_count;
    ret_effects->messages = engine->messages;
    ret_effects->message_count = engine->message_count;
    return ERR_OK;
}

/* -- events -- */

/* Newest configuration of the start entries; count 0: none. ERR_CORRUPT: a bad log. */
static enum err newest_members(const struct engine_start *start, struct members *ret_members)
{
    uint64_t last = start->start_index + start->entry_count - 1;
    uint64_t members_index = 0;

    ret_members->count = 0;
    if (start->snapshot) {
        const struct snapshot_mark *mark = start->snapshot;
        if (!mark->index || !mark->term || mark->term > start->term || !mark->members.count ||
            start->start_index > mark->index + 1 || last < mark->index)
            return ERR_CORRUPT;
        *ret_members = mark->members;
        members_index = mark->members_index;
    } else if (start->start_index != 1 ||
               (start->entry_count && start->entries[0].kind != ENTRY_CHANGE)) {
        return ERR_CORRUPT;
    }
    if (start->start_index == 0) return ERR_CORRUPT;
    for (size_t i = 0; i < start->entry_count; i++) {
        const struct entry *entry = &start->entries[i];
        if (entry->index != start->start_index + i || !entry->term || entry->term > start->term ||
            (i && entry->term < entry[-1].term))
            return ERR_CORRUPT;
        if (entry->kind != ENTRY_CHANGE || entry->index <= members_index) continue;
        if (members_decode(entry->bytes, ret_members)) return ERR_CORRUPT;
    }
    return ERR_OK;
}

enum err engine_begin(struct engine *engine, mono_time now, const struct engine_start *start,
                      struct engine_effects *ret_effects)
{
    struct raft_event event = {.type = RAFT_START};
    struct raft_snapshot_metadata metadata;
    struct raft_entry *entries = NULL;
    struct members members;
    enum err err = newest_members(start, &members);

    assert(!engine->begun);
    if (err) return err;
    call_begin(engine, now);
    if (start->entry_count) {
        entries = raft_malloc(start->entry_count * sizeof *entries);
        if (!entries) return ERR_NOMEM;
        engine_give(entries, start->entries, start->entry_count, 0);
    }
    if (start->snapshot) {
        err = metadata_of(start->snapshot, &metadata);
        if (err) {
            raft_free(entries);
            return err;
        }
        event.start.metadata = &metadata;
    }
    event.start.term = guards_start_term(&members, engine->raft.id, start->term);
    event.start.voted_for = start->vote;
    if (event.start.term != start->term) {
        event.start.voted_for = engine->raft.id;
        engine->flags |= ENGINE_VOTE;
    }
    event.start.start_index = start->start_index;
    event.start.entries = entries;
    event.start.n_entries = (unsigned)start->entry_count;
    engine->begun = true;
    err = engine_step(engine, &event, &plain);
    if (!err || !engine->reserve) raft_free(entries); /* a failed step frees `entries` */
    return call_end(engine, err, ret_effects);
}

enum err engine_timeout(struct engine *engine, mono_time now, struct engine_effects *ret_effects)
{
    static const struct guards_step timeout = {.timeout = true};
    struct raft_event event = {.type = RAFT_TIMEOUT};
    enum err err;

    assert(engine->begun);
    call_begin(engine, now);
    err = engine_step(engine, &event, &timeout);
    if (!err) look_at_candidacy(engine, true);
    return call_end(engine, err, ret_effects);
}

/* False: no correct peer sends this message, and the library might fail on it. */
static bool sound_leader(const struct engine *engine, uint64_t from, uint64_t term)
{
    return from && from != engine->raft.id && term &&
           !(engine->raft.state == RAFT_LEADER && term == engine->raft.current_term);
}

static bool sound_append(const struct engine *engine, uint64_t from,
                         const struct engine_append *append)
{
    uint64_t term = append->prev_term;
    struct members members;

    if (!sound_leader(engine, from, append->term) || append->prev_term > append->term ||
        (append->prev_index == 0) != (append->prev_term == 0) ||
        append->entry_count > UINT32_MAX / 2 ||
        append->prev_index > UINT64_MAX / 2 - append->entry_count)
        return false;
    for (size_t i = 0; i < append->entry_count; i++) {
        const struct entry *entry = &append->entries[i];
        if (entry->index != append->prev_index + 1 + i || !entry->term || entry->term < term ||
            entry->term > append->term)
            return false;
        if (entry->kind == ENTRY_CHANGE) {
            if (members_decode(entry->bytes, &members)) return false;
        } else if ((entry->kind != ENTRY_COMMAND && entry->kind != ENTRY_BARRIER) ||
                   entry->index == 1) {
            return false; /* a log's first entry is its first configuration */
        }
        term = entry->term;
    }
    return true;
}

/* Guard 20. */
static enum err settle_change(struct engine *engine)
{
    struct raft_event event = {.type = RAFT_CONFIGURATION};
    struct members members;
    enum err err;

    members_of(&engine->raft.configuration, &members);
    event.configuration.index = engine->raft.configuration_uncommitted_index;
    err = configuration_of(&members, &event.configuration.conf);
    return err ? err : engine_step(engine, &event, &plain);
}

static enum err receive_part(struct engine *engine, uint64_t from,
                             const struct raft_append_entries *part)
{
    struct guards_step what = {.leader_term = part->term};
    struct raft_message message = {
        .type = RAFT_APPEND_ENTRIES, .server_id = from, .server_address = ""};
    struct raft_event event = {.type = RAFT_RECEIVE, .receive.message = &message};
    enum err err = ERR_OK;

    if (guards_settles_change(&engine->raft, part)) err = settle_change(engine);
    if (err) return err;
    message.append_entries = *part;
    engine->message_count = 0; /* the last response covers the earlier responses */
    return engine_step(engine, &event, &what);
}

enum err engine_receive_append(struct engine *engine, mono_time now, uint64_t from,
                               const struct engine_append *append,
                               struct engine_effects *ret_effects)
{
    struct raft_append_entries rest = {
        .term = append->term,
        .prev_log_index = append->prev_index,
        .prev_log_term = append->prev_term,
        .leader_commit = append->commit,
        .n_entries = (unsigned)append->entry_count,
    };
    bool more = true;
    enum err err;

    assert(engine->begun);
    if (!sound_append(engine, from, append)) return ERR_INVALID;
    err = reserve_given(engine, append->entry_count);
    if (err) return err;
    call_begin(engine, now);
    guards_leader_heard(&engine->guards, &engine->raft, append->term, now);
    if (append->term >= engine->raft.current_term) election_over(engine);
    engine_give(engine->given, append->entries, append->entry_count, 0);
    rest.entries = engine->given;
    rest.entries += guards_trim_append(&engine->raft, &rest);
    while (!err && more) { /* ends: each part but the last has an entry */
        struct raft_append_entries part = rest;
        uint64_t last;
        part.n_entries = guards_part(rest.entries, rest.n_entries);
        err = receive_part(engine, from, &part);
        if (part.n_entries == rest.n_entries) break;
        last = part.prev_log_index + part.n_entries;
        rest.prev_log_index = last;
        rest.prev_log_term = part.entries[part.n_entries - 1].term;
        rest.entries += part.n_entries;
        rest.n_entries -= part.n_entries;
        more = !engine->raft.snapshot.installing && rest.term == engine->raft.current_term &&
               guards_term_at(&engine->raft, last) == rest.prev_log_term;
    }
    return call_end(engine, err, ret_effects);
}

static bool is_member(const struct engine *engine, uint64_t id)
{
    for (unsigned i = 0; i < engine->raft.configuration.n; i++)
        if (engine->raft.configuration.servers[i].id == id) return true;
    return false;
}

static void hear(struct engine *engine, uint64_t id)
{
    struct heard *heard = engine->heard;
    size_t at = 0;

    if (!is_member(engine, id)) return;
    while (at < engine->heard_count && heard[at].id != id) at++;
    if (at == REPLICA_MEMBERS_MAX) /* all slots are used: reuse a removed member's */
        for (at = 0; is_member(engine, heard[at].id);) at++;
    if (at == engine->heard_count) engine->heard_count++;
    heard[at] = (struct heard){.id = id, .at = engine->now};
}

static bool sound_message(const struct engine *engine, const struct raft_message *message)
{
    uint64_t from = message->server_id;

    if (!from || from == engine->raft.id) return false;
    switch (message->type) {
    case RAFT_REQUEST_VOTE:
        return message->request_vote.candidate_id == from && message->request_vote.term;
    case RAFT_REQUEST_VOTE_RESULT:
    case RAFT_APPEND_ENTRIES_RESULT:
    case RAFT_TIMEOUT_NOW: return true;
    default: return false;
    }
}

enum err engine_receive(struct engine *engine, mono_time now, const struct raft_message *message,
                        struct engine_effects *ret_effects)
{
    struct raft_message copy = *message;
    struct raft_event event = {.type = RAFT_RECEIVE, .receive.message = &copy};
    struct guards_step what = {0};
    enum err err;

    assert(engine->begun);
    if (!sound_message(engine, message)) return ERR_INVALID;
    call_begin(engine, now);
    copy.server_address = "";
    switch (message->type) { /* frames do not carry the library's message version */
    case RAFT_APPEND_ENTRIES_RESULT:
        copy.append_entries_result.version = 2;
        if (engine->raft.state == RAFT_LEADER &&
            message->append_entries_result.term == engine->raft.current_term)
            hear(engine, message->server_id);
        break;
    case RAFT_REQUEST_VOTE:
        copy.request_vote.version = 2;
        what.vote = &message->request_vote;
        break;
    case RAFT_REQUEST_VOTE_RESULT: copy.request_vote_result.version = 2; break;
    default: what.timeout_now = true;
    }
    if (!guards_admit(&engine->guards, &engine->raft, &copy, now))
        return call_end(engine, ERR_OK, ret_effects);
    err = engine_step(engine, &event, &what);
    if (!err) look_at_candidacy(engine, false);
    return call_end(engine, err, ret_effects);
}

enum err engine_offer(struct engine *engine, mono_time now, uint64_t from, uint64_t term,
                      const struct snapshot_mark *mark, struct engine_effects *ret_effects)
{
    struct guards_step what = {.leader_term = term};
    struct raft_message message = {
        .type = RAFT_INSTALL_SNAPSHOT, .server_id = from, .server_address = ""};
    struct raft_install_snapshot *install = &message.install_snapshot;
    struct raft_event event = {.type = RAFT_RECEIVE, .receive.message = &message};
    enum err err;

    assert(engine->begun);
    if (!sound_leader(engine, from, term) || !mark->index || !mark->term || mark->term > term ||
        !members_voters(&mark->members) || mark->members_index > mark->index)
        return ERR_INVALID;
    call_begin(engine, now);
    guards_leader_heard(&engine->guards, &engine->raft, term, now);
    if (term >= engine->raft.current_term) election_over(engine);
    if (!guards_admit_install(&engine->raft)) return call_end(engine, ERR_OK, ret_effects);
    install->term = term;
    install->last_index = mark->index;
    install->last_term = mark->term;
    install->conf_index = mark->members_index;
    err = configuration_of(&mark->members, &install->conf);
    if (!err) err = engine_step(engine, &event, &what);
    if (engine->flags & ENGINE_INSTALL) ret_effects->install = *mark;
    return call_end(engine, err, ret_effects);
}

enum err engine_installed(struct engine *engine, mono_time now, const struct snapshot_mark *mark,
                          struct engine_effects *ret_effects)
{
    struct raft_event event = {.type = RAFT_PERSISTED_SNAPSHOT};
    enum err err;

    assert(engine->raft.snapshot.installing);
    assert(engine->raft.trail.snapshot.index == mark->index);
    call_begin(engine, now);
    err = metadata_of(mark, &event.persisted_snapshot.metadata);
    event.persisted_snapshot.last = true;
    if (!err) err = engine_step(engine, &event, &plain);
    return call_end(engine, err, ret_effects);
}

enum err engine_persisted(struct engine *engine, mono_time now, uint64_t index,
                          struct engine_effects *ret_effects)
{
    struct raft_event event = {.type = RAFT_PERSISTED_ENTRIES, .persisted_entries.index = index};

    assert(engine->begun);
    call_begin(engine, now);
    /* A snapshot install dropped the log with these entries. */
    if (engine->raft.snapshot.installing || index <= engine->raft.last_stored)
        return call_end(engine, ERR_OK, ret_effects);
    assert(index <= guards_last_index(&engine->raft));
    return call_end(engine, engine_step(engine, &event, &plain), ret_effects);
}

enum err engine_compacted(struct engine *engine, mono_time now, const struct snapshot_mark *mark,
                          uint32_t trailing, struct engine_effects *ret_effects)
{
    struct raft_event event = {.type = RAFT_SNAPSHOT};
    enum err err;

    assert(engine->begun);
    if (engine->raft.snapshot.installing || mark->index <= engine->raft.trail.snapshot.index ||
        !guards_admit_snapshot(mark->index))
        return ERR_CONFLICT;
    assert(guards_term_at(&engine->raft, mark->index) == mark->term);
    assert(mark->index <= engine->commit);
    call_begin(engine, now);
    err = metadata_of(mark, &event.snapshot.metadata);
    event.snapshot.trailing = trailing;
    if (!err) err = engine_step(engine, &event, &plain);
    return call_end(engine, err, ret_effects);
}

enum err engine_configuration(struct engine *engine, mono_time now, uint64_t index,
                              struct str bytes, struct engine_effects *ret_effects)
{
    struct raft_event event = {.type = RAFT_CONFIGURATION, .configuration.index = index};
    struct members members;
    enum err err;

    assert(engine->begun && index);
    if (members_decode(bytes, &members)) return ERR_CORRUPT;
    call_begin(engine, now);
    err = configuration_of(&members, &event.configuration.conf);
    if (!err) err = engine_step(engine, &event, &plain);
    return call_end(engine, err, ret_effects);
}

enum err engine_submit(struct engine *engine, mono_time now, const struct entry *entries,
                       size_t count, uint64_t *ret_first, struct engine_effects *ret_effects)
{
    struct raft_event event = {.type = RAFT_SUBMIT};
    struct members members;
    uint64_t first = guards_last_index(&engine->raft) + 1;
    enum err err;

    assert(engine->begun && count && count <= UINT32_MAX);
    if (engine->raft.state != RAFT_LEADER) return ERR_NOT_LEADER;
    if (raft_transferee(&engine->raft)) return ERR_NOT_READY;
    err = guards_submit(&engine->raft, entries, count);
    for (size_t i = 0; !err && i < count; i++)
        if (entries[i].kind == ENTRY_CHANGE && members_decode(entries[i].bytes, &members))
            err = ERR_INVALID;
    if (!err) err = reserve_given(engine, count);
    if (err) return err;
    call_begin(engine, now);
    engine_give(engine->given, entries, count, engine->raft.current_term);
    event.submit.entries = engine->given;
    event.submit.n = (unsigned)count;
    err = call_end(engine, engine_step(engine, &event, &plain), ret_effects);
    if (!err) *ret_first = first;
    return err;
}

enum err engine_transfer(struct engine *engine, mono_time now, uint64_t to,
                         struct engine_effects *ret_effects)
{
    struct raft_event event = {.type = RAFT_TRANSFER, .transfer.server_id = to};
    bool another = false;

    assert(engine->begun);
    if (engine->raft.state != RAFT_LEADER) return ERR_NOT_LEADER;
    if (raft_transferee(&engine->raft)) return ERR_BUSY;
    if (to == engine->raft.id) return ERR_INVALID;
    for (unsigned i = 0; i < engine->raft.configuration.n; i++) {
        const struct raft_server *server = &engine->raft.configuration.servers[i];
        if (server->role != RAFT_VOTER || server->id == engine->raft.id) continue;
        if (!to || server->id == to) another = true;
    }
    if (!another) return ERR_NOT_FOUND;
    call_begin(engine, now);
    return call_end(engine, engine_step(engine, &event, &plain), ret_effects);
}

/* -- queries -- */

mono_time engine_due(const struct engine *engine)
{
    return guards_due(&engine->guards, (mono_time){raft_timeout(&engine->raft)});
}

enum replica_role engine_role(const struct engine *engine)
{
    switch (engine->raft.state) {
    case RAFT_LEADER: return REPLICA_LEADER;
    case RAFT_CANDIDATE: return REPLICA_CANDIDATE;
    default: return REPLICA_FOLLOWER;
    }
}

uint64_t engine_term(const struct engine *engine)
{
    return engine->raft.current_term;
}

uint64_t engine_commit(const struct engine *engine)
{
    return engine->commit;
}

uint64_t engine_last(const struct engine *engine)
{
    return guards_last_index(&engine->raft);
}

uint64_t engine_leader(const struct engine *engine)
{
    return guards_leader(&engine->guards, &engine->raft, engine->now);
}

uint64_t engine_transferee(const struct engine *engine)
{
    return raft_transferee(&engine->raft);
}

bool engine_installing(const struct engine *engine)
{
    return engine->raft.snapshot.installing;
}

uint64_t engine_match(const struct engine *engine, uint64_t id)
{
    raft_index match;
    return raft_match_index(&engine->raft, id, &match) ? 0 : match;
}

mono_time engine_heard(const struct engine *engine, uint64_t id)
{
    if (engine->raft.state == RAFT_LEADER)
        for (size_t i = 0; i < engine->heard_count; i++)
            if (engine->heard[i].id == id) return engine->heard[i].at;
    return (mono_time){0};
}

void engine_members(const struct engine *engine, struct members *ret_members,
                    uint64_t *ret_uncommitted)
{
    members_of(&engine->raft.configuration, ret_members);
    *ret_uncommitted = engine->raft.configuration_uncommitted_index;
}

uint64_t engine_members_committed(const struct engine *engine, struct members *ret_members)
{
    members_of(&engine->raft.configuration_committed, ret_members);
    return engine->raft.configuration_committed_index;
}
