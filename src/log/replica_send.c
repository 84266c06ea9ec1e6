/* SPDX-License-Identifier: Apache-2.0 */
/* Sends the engine's messages.
 *
 * An append names a range of the log. Entries in memory are sent immediately. The rest of the range
 * is stored (struct replica_lag) and sent in parts; the bulk thread reads old entries from the
 * segments. During this time a repeated request does not start the range again. */
#include "log/replica_internal.h"

#include <string.h>

static void send_frame(struct replica *replica, uint64_t to, const struct peer_frame *frame)
{
    if (peers_send(replica->peers, to, frame)) replica_count(replica, COUNT_MESSAGES_DROPPED);
}

void replica_send_all(struct replica *replica, const struct peer_frame *frame, bool voters_only)
{
    const struct members *members = &replica->change.newest;

    for (size_t i = 0; i < members->count; i++) {
        if (members->at[i].id == replica->id) continue;
        if (voters_only && members->at[i].role != MEMBER_VOTER) continue;
        send_frame(replica, members->at[i].id, frame);
    }
}

/* -- ranges -- */

static struct replica_lag *lag_of(struct replica *replica, uint64_t id)
{
    struct replica_lag *unused = NULL;

    for (size_t i = 0; i < ARRAY_LEN(replica->lags); i++) {
        struct replica_lag *lag = &replica->lags[i];
        if (lag->id == id) return lag;
        if (!lag->active && !lag->old.job.busy) unused = lag;
    }
    if (!unused) return NULL;
    unused->id = id;
    unused->replica = replica;
    return unused;
}

static bool lag_current(const struct replica_lag *lag)
{
    const struct engine *engine = lag->replica->engine;

    return engine_role(engine) == REPLICA_LEADER && engine_term(engine) == lag->term;
}

static bool next_in_memory(void *context, uint64_t index, struct entry *ret_entry)
{
    const struct replica_lag *lag = context;
    struct wal_place place;

    return entries_get(lag->replica->entries, index, ret_entry, &place) && ret_entry->bytes.at;
}

static bool next_read(void *context, uint64_t index, struct entry *ret_entry)
{
    const struct replica_lag *lag = context;
    const struct entry *entry = replica_old_entry(&lag->old, index);

    if (entry) *ret_entry = *entry;
    return entry != NULL;
}

/* Sends up to `count` entries from lag->next on. False: the range cannot continue now. */
static bool send_some(struct replica_lag *lag, peers_entry_fn *next, uint64_t count)
{
    struct replica *replica = lag->replica;
    struct peer_frame frame = {.kind = FRAME_APPEND};
    uint32_t sent = 0;
    enum err err;

    frame.u.append.term = lag->term;
    frame.u.append.prev_index = lag->next - 1;
    frame.u.append.prev_term = lag->prev_term;
    frame.u.append.commit = engine_commit(replica->engine);
    err = peers_send_append(replica->peers, lag->id, &frame, (uint32_t)min_u64(count, UINT32_MAX),
                            next, lag, &sent);
    if (sent > 0) {
        lag->next += sent;
        lag->prev_term = entries_term(replica->entries, lag->next - 1);
    }
    if (lag->next > lag->end || lag->prev_term == 0) lag->active = false;
    if (err == ERR_FULL) {
        lag->waits = true;
        return false;
    }
    if (err && err != ERR_NOT_FOUND) { /* ERR_NOT_FOUND: the next entry is not in memory */
        replica_count(replica, COUNT_MESSAGES_DROPPED);
        lag->active = false;
    }
    return lag->active && sent > 0;
}

static void lag_run(struct replica_lag *lag);

static void replica_send_old_done(struct replica_job *job)
{
    struct replica_lag *lag = CONTAINER_OF(job, struct replica_lag, old.job);
    struct replica_old *old = &lag->old;
    struct replica *replica = lag->replica;

    if (job->err == ERR_CORRUPT) { /* entries that this replica acknowledged are damaged */
        replica_fail(replica, job->err, &job->note);
        return;
    }
    if (job->err) { /* compacted, or memory is short: the engine asks again */
        LOG_WARN(&replica->log, "log entries for a slow replica could not be read: retrying",
                 log_err("err", job->err), log_text("why", job->note.text),
                 log_u64("peer", lag->id));
        lag->active = false;
        return;
    }
    /* No message is sent while a vote is pending (the gate). The vote will end this leadership. */
    if (!lag->active || !lag_current(lag) || !replica_may_step(replica) ||
        lag->next != old->first) {
        lag->active = false;
        return;
    }
    if (send_some(lag, next_read, min_u64(old->count, lag->end - lag->next + 1)))
        lag_run(lag); /* after this call the bulk thread may own the buffers */
    replica_wake(replica);
}

/* Reads the next entries. If the bulk thread's queue is full, or the entries were compacted, the
 * engine asks again. */
static void start_read(struct replica_lag *lag)
{
    struct replica_old *old = &lag->old;

    lag->active = (old->entries || !replica_old_open(old, lag->replica, replica_send_old_done)) &&
                  replica_old_read(old, lag->next, lag->end);
}

static void lag_run(struct replica_lag *lag)
{
    struct entry entry;

    lag->waits = false;
    while (lag->active && !lag->old.job.busy) {
        if (!next_in_memory(lag, lag->next, &entry)) {
            start_read(lag);
            return;
        }
        if (!send_some(lag, next_in_memory, lag->end - lag->next + 1)) return;
    }
}

static void send_append(struct replica *replica, uint64_t to,
                        const struct raft_append_entries *append)
{
    uint64_t prev = append->prev_log_index, count = append->n_entries;
    struct replica_lag *lag;

    if (count == 0) {
        struct peer_frame frame = {.kind = FRAME_APPEND};
        frame.u.append.term = append->term;
        frame.u.append.prev_index = prev;
        frame.u.append.prev_term = append->prev_log_term;
        frame.u.append.commit = append->leader_commit;
        send_frame(replica, to, &frame);
        return;
    }
    lag = lag_of(replica, to);
    if (!lag) {
        replica_count(replica, COUNT_MESSAGES_DROPPED);
        return;
    }
    if (lag->active && lag->term == append->term) {
        /* The new range continues or repeats the current one. */
        if (prev <= lag->end) lag->end = max_u64(lag->end, prev + count);
        if (!lag->old.job.busy && !lag->waits) lag_run(lag);
        return;
    }
    if (lag->old.job.busy) return; /* the job reads for an older term; the engine asks again */
    lag->active = true;
    lag->next = prev + 1;
    lag->end = prev + count;
    lag->term = append->term;
    lag->prev_term = append->prev_log_term;
    lag_run(lag);
}

void replica_send_pump(struct replica *replica)
{
    if (!replica_may_step(replica)) return;
    for (size_t i = 0; i < ARRAY_LEN(replica->lags); i++) {
        struct replica_lag *lag = &replica->lags[i];
        if (!lag->active || lag->old.job.busy) continue;
        if (!lag_current(lag))
            lag->active = false;
        else if (peers_queued(replica->peers, lag->id) < replica->limits.peer_queue_bytes / 2)
            lag_run(lag);
    }
}

/* Messages that a frame carries unchanged. */
static const struct {
    enum peer_frame_kind kind;
    int type;
    size_t size;
} carried[] = {
    {FRAME_APPEND_RESULT, RAFT_APPEND_ENTRIES_RESULT, sizeof(struct raft_append_entries_result)},
    {FRAME_VOTE, RAFT_REQUEST_VOTE, sizeof(struct raft_request_vote)},
    {FRAME_VOTE_RESULT, RAFT_REQUEST_VOTE_RESULT, sizeof(struct raft_request_vote_result)},
    {FRAME_TIMEOUT_NOW, RAFT_TIMEOUT_NOW, sizeof(struct raft_timeout_now)},
};

struct raft_message replica_message_of(const struct peer_frame *frame, uint64_t from)
{
    struct raft_message message = {.server_id = from, .server_address = ""};

    for (size_t i = 0; i < ARRAY_LEN(carried); i++) {
        if (carried[i].kind != frame->kind) continue;
        message.type = (enum raft_message_type)carried[i].type;
        memcpy(&message.request_vote, &frame->u, carried[i].size);
    }
    return message;
}

void replica_send(struct replica *replica, const struct raft_message *message)
{
    struct peer_frame frame = {0};

    if (message->type == RAFT_APPEND_ENTRIES)
        send_append(replica, message->server_id, &message->append_entries);
    else if (message->type == RAFT_INSTALL_SNAPSHOT)
        replica_install_send(replica, message);
    for (size_t i = 0; i < ARRAY_LEN(carried); i++) {
        if (carried[i].type != (int)message->type) continue;
        frame.kind = carried[i].kind;
        memcpy(&frame.u, &message->request_vote, carried[i].size);
        send_frame(replica, message->server_id, &frame);
    }
}

void replica_send_close(struct replica *replica)
{
    for (size_t i = 0; i < ARRAY_LEN(replica->lags); i++) replica_old_close(&replica->lags[i].old);
}
