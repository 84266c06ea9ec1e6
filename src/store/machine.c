/* SPDX-License-Identifier: Apache-2.0 */
/* The store as a state machine of the replicated log. Decodes each log entry, applies the command
 * to the store's core, encodes the reply, and reports events and changes. Loop's thread. */
#include "store/machine.h"

#include <muster/coord.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "section/section.h"
#include "store/bounds.h"
#include "store/txn_wire.h"
#include "wire/message.h"
#include "wire/pack.h"
#include "wire/pb/muster_v1_coordination.pb-c.h"

enum { ARENA_MAX = 256 << 20 }; /* memory for decoding one command */

struct store_machine {
    struct store_machine_options options;
    struct store *store;
    struct arena arena; /* memory of the command being applied */
    struct store_command command;
    bool unread; /* the command could not be decoded, so a tick is applied instead */
    struct store_renewal renewals[STORE_RENEW_MAX];
    struct txn_writer writer; /* results of the transaction being applied */
    struct store_restore *restore;
    uint64_t index;
    struct {               /* the entry being applied */
        bool on;           /* the command needs further turns */
        uint64_t reported; /* number of the first change that is not reported yet */
        uint64_t hash;     /* state hash before the entry */
    } part;
};

/* -- commands -- */
static void pack_id(struct pack *pack, uint32_t field, const struct store_id *id)
{
    if (!store_id_none(id)) pack_bytes(pack, field, store_id_text(id));
}

static void pack_tokens(struct pack *pack, const uint64_t *tokens, size_t count)
{
    char *at;

    if (count == 0) return;
    pack_varint(pack, 21 << 3 | 2);
    pack_varint(pack, count * sizeof *tokens);
    if (!pack->err) pack->err = buf_reserve(pack->into, count * sizeof *tokens, &at);
    if (pack->err) return;
    for (size_t i = 0; i < count; i++) store_le64(at + i * sizeof *tokens, tokens[i]);
    buf_commit(pack->into, count * sizeof *tokens);
}

enum err store_command_write(const struct store_command *command, struct buf *into)
{
    struct pack pack = {into, ERR_OK};

    pack_u64(&pack, 1, command->kind);
    pack_id(&pack, 2, &command->client);
    pack_u64(&pack, 3, command->sequence);
    pack_u64(&pack, 4, command->acked);
    pack_text(&pack, 5, command->key);
    pack_text(&pack, 6, command->value);
    pack_text(&pack, 7, command->owner);
    pack_text(&pack, 8, command->range_end);
    pack_u64(&pack, 9, command->expected);
    pack_sint64(&pack, 10, command->ttl_ms);
    pack_id(&pack, 11, &command->lease);
    pack_id(&pack, 12, &command->held);
    pack_u64(&pack, 13, command->slot_count);
    pack_u64(&pack, 14, command->flags);
    pack_u64(&pack, 15, command->prefer_slot);
    pack_u64(&pack, 16, command->cooldown_ms);
    pack_u64(&pack, 17, command->wait);
    for (size_t i = 0; i < command->renew_count; i++)
        pack_bytes(&pack, 18, str_of(command->renew[i].b, sizeof command->renew[i].b));
    pack_u64(&pack, 20, command->token);
    if (command->renew_tokens) pack_tokens(&pack, command->renew_tokens, command->renew_count);
    return pack.err;
}

enum err store_txn_write(const Etcdserverpb__TxnRequest *request, uint32_t flags, struct buf *into)
{
    struct pack pack = {into, ERR_OK};

    pack_u64(&pack, 1, STORE_TXN);
    pack_u64(&pack, 14, flags);
    pack_varint(&pack, 19 << 3 | 2);
    pack_varint(&pack, protobuf_c_message_get_packed_size(&request->base));
    return pack.err ? pack.err : message_write(&request->base, into, NULL);
}

uint32_t store_kind_version(enum store_kind kind)
{
    return kind < STORE_LEASE_GRANT ? STORE_FIRST_VERSION : 3;
}

uint32_t store_command_version(const struct store_command *command)
{
    return command->token || command->renew_tokens ? STORE_TOKENS_LEVEL
                                                   : store_kind_version(command->kind);
}

static bool take_id(ProtobufCBinaryData bytes, struct store_id *ret_id)
{
    memset(ret_id, 0, sizeof *ret_id);
    if (bytes.len == sizeof ret_id->b) memcpy(ret_id->b, bytes.data, bytes.len);
    return bytes.len == 0 || bytes.len == sizeof ret_id->b;
}

enum err store_command_read(struct str bytes, struct arena *arena,
                            struct store_command *ret_command, struct note *note)
{
    /* A StoreCommand nests a transaction one level deeper than a client's request does. */
    static const struct message_limits limits = {.depth_max = MESSAGE_DEPTH_USUAL + 1};
    struct store_id *renew = NULL;
    ProtobufCMessage *message;
    Muster__V1__StoreCommand *m;
    enum err err =
        message_read(&muster__v1__store_command__descriptor, bytes, &limits, arena, &message, note);

    if (err) return err == ERR_TOO_LARGE ? ERR_PARSE : err;
    m = (Muster__V1__StoreCommand *)message;
    if (m->kind < STORE_TICK || m->kind > STORE_TXN)
        return note_fail(note, ERR_VERSION, "a command of unknown kind %u", (unsigned)m->kind);
    *ret_command = (struct store_command){
        .kind = (enum store_kind)m->kind,
        .sequence = m->sequence,
        .acked = m->acked,
        .key = bytes_str(m->key),
        .value = bytes_str(m->value),
        .owner = bytes_str(m->owner),
        .range_end = bytes_str(m->range_end),
        .expected = m->expected,
        .ttl_ms = m->ttl_ms,
        .slot_count = m->slot_count,
        .flags = m->flags,
        .prefer_slot = m->prefer_slot,
        .cooldown_ms = m->cooldown_ms,
        .wait = m->wait,
        .token = m->token,
        .renew_count = m->n_renew,
    };
    if (!take_id(m->client_id, &ret_command->client) || !take_id(m->lease, &ret_command->lease) ||
        !take_id(m->held, &ret_command->held))
        return note_fail(note, ERR_INVALID, "an id that is not of 16 bytes");
    if (m->n_renew > STORE_RENEW_MAX)
        return note_fail(note, ERR_INVALID, "renews %zu leases; at most %d", m->n_renew,
                         STORE_RENEW_MAX);
    if (m->n_renew_tokens && m->n_renew_tokens != m->n_renew)
        return note_fail(note, ERR_INVALID, "renews %zu leases with %zu tokens", m->n_renew,
                         m->n_renew_tokens);
    if (m->n_renew_tokens) ret_command->renew_tokens = m->renew_tokens;
    if (m->n_renew && !(renew = arena_calloc(arena, m->n_renew, sizeof *renew))) return ERR_NOMEM;
    for (size_t i = 0; i < m->n_renew; i++)
        if (!take_id(m->renew[i], &renew[i]))
            return note_fail(note, ERR_INVALID, "an id that is not of 16 bytes");
    ret_command->renew = renew;
    if (ret_command->kind == STORE_TXN && !m->txn)
        return note_fail(note, ERR_INVALID, "a transaction that is not there");
    err = ret_command->kind == STORE_TXN ? txn_from_message(m->txn, arena, &ret_command->txn)
                                         : ERR_OK;
    if (err) return err;
    return store_check_command(ret_command, note);
}

/* -- replies -- */
static const char *text_of(const struct store_result *result)
{
    if (result->code == COORD_UNAVAILABLE && result->reason == COORD_R_QUOTA)
        return "the store is full: delete, release or compact";
    if (result->code == COORD_UNAVAILABLE && result->reason == COORD_R_OVERLOADED)
        return "10,000 wait for this group already";
    if (result->code != COORD_INVALID) return "";
    switch (result->reason) {
    case COORD_R_HANDLE: return "the id is taken: by another lease, or by another request";
    case COORD_R_KEY: return "a slot's key is changed by acquire and release only";
    case COORD_R_ARGUMENT: return "past a limit: 1,024 keys under one lease; no revision to come";
    default: return "";
    }
}

enum err store_outcome_write(const struct store_result *result, struct str text, struct buf *into)
{
    struct pack pack = {into, ERR_OK};

    pack_i64(&pack, 1, result->code);
    pack_i64(&pack, 2, result->reason);
    pack_u64(&pack, 3, result->revision);
    pack_u64(&pack, 4, result->token);
    pack_u64(&pack, 5, result->create_revision);
    pack_i64(&pack, 6, result->granted_ttl_ms);
    pack_i64(&pack, 7, result->hint_ms);
    pack_u64(&pack, 8, result->slot);
    pack_u64(&pack, 9, result->live);
    pack_u64(&pack, 10, result->slot_count);
    pack_id(&pack, 11, &result->lease);
    pack_text(&pack, 12, str_from(result->owner));
    pack_text(&pack, 13, text.len ? text : str_from(text_of(result)));
    return pack.err;
}

/* Without memory the reply stays empty, and the caller treats the outcome as unknown. */
static void reply_write(const struct store_result *result, struct buf *reply)
{
    char *head;

    if (buf_reserve(reply, STORE_REPLY_HEAD, &head)) return;
    head[0] = (char)result->waiting;
    head[1] = (char)result->code;
    memcpy(head + 2, result->lease.b, sizeof result->lease.b);
    buf_commit(reply, STORE_REPLY_HEAD);
    if (store_outcome_write(result, STR_EMPTY, reply)) buf_clear(reply);
}

enum err store_reply_parse(struct str reply, struct store_reply *ret_reply)
{
    if (reply.len < STORE_REPLY_HEAD) return ERR_PARSE;
    *ret_reply = (struct store_reply){.waiting = reply.at[0] != 0,
                                      .code = (unsigned char)reply.at[1],
                                      .outcome = str_tail(reply, STORE_REPLY_HEAD)};
    memcpy(ret_reply->lease.b, reply.at + 2, sizeof ret_reply->lease.b);
    return ERR_OK;
}

size_t store_renewals_parse(struct str reply, struct store_renewal *ret_renewals, size_t cap)
{
    size_t count = min_size(reply.len / STORE_RENEWAL_BYTES, cap);

    if (count) memcpy(ret_renewals, reply.at, count * STORE_RENEWAL_BYTES);
    return count;
}

/* Reserves the head of the reply; txn_reply_end() fills it in. */
static struct txn_sink *txn_reply_begin(struct txn_writer *writer,
                                        const struct store_command *command, struct buf *reply)
{
    char *head;

    txn_writer_init(writer, reply, command->flags & STORE_TXN_BARE);
    writer->pack.err = buf_reserve(reply, STORE_TXN_HEAD, &head);
    if (!writer->pack.err) buf_commit(reply, STORE_TXN_HEAD);
    return &writer->sink;
}

static void txn_reply_end(const struct txn_writer *writer, const struct store_result *result,
                          struct buf *reply)
{
    if (writer->pack.err) { /* without a reply the caller treats the outcome as unknown */
        buf_clear(reply);
        return;
    }
    store_le32(reply->data, (uint32_t)result->refusal);
    store_le64(reply->data + 4, result->revision);
}

enum err store_txn_parse(struct str reply, struct store_txn_reply *ret_reply)
{
    if (reply.len < STORE_TXN_HEAD) return ERR_PARSE;
    *ret_reply = (struct store_txn_reply){.refusal = (enum txn_refusal)load_le32(reply.at),
                                          .revision = load_le64(reply.at + 4),
                                          .response = str_tail(reply, STORE_TXN_HEAD)};
    return ERR_OK;
}

/* -- life -- */
enum err store_machine_open(const struct store_machine_options *options,
                            struct store_machine **ret_machine)
{
    struct store_machine *machine = calloc(1, sizeof *machine);

    if (!machine) return ERR_NOMEM;
    machine->options = *options;
    arena_init(&machine->arena, ARENA_MAX);
    machine->store = store_open(&options->store);
    if (!machine->store) {
        store_machine_close(machine);
        return ERR_NOMEM;
    }
    *ret_machine = machine;
    return ERR_OK;
}

void store_machine_close(struct store_machine *machine)
{
    if (!machine) return;
    store_restore_close(machine->restore);
    store_close(machine->store);
    arena_deinit(&machine->arena);
    free(machine);
}

struct store *store_machine_store(const struct store_machine *machine)
{
    return machine->store;
}

uint64_t store_machine_index(const struct store_machine *machine)
{
    return machine->index;
}

bool store_machine_restoring(const struct store_machine *machine)
{
    return machine->restore != NULL;
}

/* -- applying -- */
static void machine_report(struct store_machine *machine)
{
    const struct store_machine_options *options = &machine->options;
    struct key_changes changes = keys_changes(store_keys(machine->store));
    struct store_event event;

    changes.first = max_u64(machine->part.reported, changes.first);
    assert(changes.first <= changes.end);
    machine->part.reported = changes.end;
    while (store_event_next(machine->store, &event))
        if (options->event) options->event(options->owner, &event);
    if (options->applied) options->applied(options->owner, changes);
}

static void machine_finish(struct store_machine *machine, const struct store_result *result,
                           struct buf *reply)
{
    static const struct store_result not_read = {
        .code = COORD_INVALID, .reason = COORD_R_ARGUMENT, .hint_ms = -1};
    const struct store_command *command = &machine->command;

    if (machine->unread)
        reply_write(&not_read, reply);
    else if (command->kind == STORE_RENEW)
        (void)buf_append(reply, str_of(machine->renewals,
                                       command->renew_count * STORE_RENEWAL_BYTES)); /* or none */
    else if (command->kind == STORE_TXN)
        txn_reply_end(&machine->writer, result, reply);
    else
        reply_write(result, reply);
    machine_report(machine);
}

/* Reads between the turns of a command already see the leases that ended before the command. These
 * ends are reported first, or a watch that begins now would get them twice. */
static void report_so_far(struct store_machine *machine)
{
    if (machine->part.reported < keys_changes(store_keys(machine->store)).end)
        machine_report(machine);
}

/* A command that cannot be decoded becomes a tick, so the clock still moves on every replica. */
static enum err machine_read_command(struct store_machine *machine, struct str bytes,
                                     struct note *note)
{
    enum err err;

    arena_reset(&machine->arena);
    err = store_command_read(bytes, &machine->arena, &machine->command, note);
    if (err == ERR_NOMEM) abort(); /* continuing would make this replica's state differ */
    machine->unread = err != ERR_OK;
    if (err) machine->command = (struct store_command){.kind = STORE_TICK};
    return err == ERR_VERSION ? err : ERR_OK;
}

static enum err machine_apply(void *state, const struct machine_entry *entry, struct buf *reply,
                              struct note *note)
{
    struct store_machine *machine = state;
    struct store_command *command = &machine->command;
    struct store_result result;

    if (machine_read_command(machine, entry->command, note)) return ERR_VERSION;
    assert(!machine->restore && !machine->part.on);
    machine->part.reported = keys_changes(store_keys(machine->store)).end;
    machine->part.hash = store_hash(machine->store);
    machine->index = entry->index;
    store_set_level(machine->store, entry->level);
    if (command->kind == STORE_TXN)
        command->sink = txn_reply_begin(&machine->writer, command, reply);
    machine->part.on =
        store_apply_begin(machine->store, entry->clock_ns, command, &result, machine->renewals);
    if (machine->part.on)
        report_so_far(machine);
    else
        machine_finish(machine, &result, reply);
    return ERR_OK;
}

static bool machine_apply_more(void *state, struct buf *reply)
{
    struct store_machine *machine = state;
    struct store_result result;

    if (!machine->part.on) return false;
    machine->part.on = store_apply_more(machine->store, &machine->command, &result);
    if (machine->part.on)
        report_so_far(machine);
    else
        machine_finish(machine, &result, reply);
    return machine->part.on;
}

/* -- snapshots -- */
static enum err machine_snapshot_begin(void *state, uint64_t, void **ret_view)
{
    struct store_machine *machine = state;

    return machine->part.on ? ERR_FULL : store_view_open(machine->store, ret_view);
}

/* -- restoring -- */
static enum err machine_restore_begin(void *state, uint64_t, struct note *note)
{
    struct store_machine *machine = state;

    store_restore_close(machine->restore);
    machine->restore = store_restore_open(&machine->options.store);
    if (machine->restore) return ERR_OK;
    return note_fail(note, ERR_NOMEM, "store: %s", err_text(ERR_NOMEM));
}

static enum err machine_restore_next(void *state, struct str bytes, struct note *note)
{
    struct store_machine *machine = state;

    assert(machine->restore);
    return store_restore_feed(machine->restore, bytes, note);
}

static enum err machine_restore_end(void *state, struct note *note)
{
    struct store_machine *machine = state;
    struct store *fresh = NULL;
    enum err err;

    assert(machine->restore);
    err = store_restore_done(machine->restore, &fresh, note);
    store_restore_close(machine->restore);
    machine->restore = NULL;
    if (err) return err;
    machine->part.on = false;
    store_close(machine->store); /* an open view fails on its next read */
    machine->store = fresh;
    if (machine->options.restored) machine->options.restored(machine->options.owner);
    return ERR_OK;
}

static void machine_recover(void *state, const struct machine_recovery *recovery)
{
    struct store_machine *machine = state;
    struct store_id identity;

    static_assert(sizeof identity == sizeof recovery->identity, "one for the other");
    assert(!machine->restore && !machine->part.on);
    memcpy(&identity, recovery->identity, sizeof identity);
    store_replace_identity(machine->store, recovery->clock_ns, &identity, recovery->floor);
    machine->index = recovery->index;
    if (machine->options.restored) machine->options.restored(machine->options.owner);
}

static uint64_t machine_hash(const void *state)
{
    const struct store_machine *machine = state;

    return machine->part.on ? machine->part.hash : store_hash(machine->store);
}

static uint64_t machine_size(const void *state)
{
    const struct store_machine *machine = state;

    return store_sizes(machine->store).bytes;
}

static uint64_t machine_work(const void *state)
{
    const struct store_machine *machine = state;

    return store_work(machine->store);
}

static const struct machine_ops ops = {
    .apply = machine_apply,
    .apply_more = machine_apply_more,
    .snapshot_begin = machine_snapshot_begin,
    .snapshot_next = section_view_next,
    .snapshot_end = section_view_close,
    .restore_begin = machine_restore_begin,
    .restore_next = machine_restore_next,
    .restore_end = machine_restore_end,
    .recover = machine_recover,
    .hash = machine_hash,
    .size = machine_size,
    .work = machine_work,
};

struct state_machine store_machine_registration(struct store_machine *machine)
{
    return (struct state_machine){.id = STORE_MACHINE_ID,
                                  .name = "store",
                                  .version = STORE_MACHINE_VERSION,
                                  .ops = &ops,
                                  .state = machine};
}
