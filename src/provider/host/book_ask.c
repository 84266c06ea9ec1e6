/* SPDX-License-Identifier: Apache-2.0 */
/* Requests, ends of operations and sightings: each is checked and becomes changes. Requests are
 * checked in the order of wire.md 8.2. Pure. */
#include <stdio.h>
#include <string.h>

#include "model/ids.h"
#include "provider/host/book_internal.h"
#include "provider/host/offer.h"
#include "text/utf8.h"
#include "wire/pack.h"

enum {
    ACK_OPERATION = 1,
    ACK_MACHINE = 2,
    BINDING_BYTES_MAX = BOOK_METADATA_BYTES_MAX * 2,
    OPERATION_NAME_CAP = 24,
};

const char *book_outcome_name(enum book_outcome outcome)
{
    static const char *const names[BOOK_OUTCOMES] = {
        [BOOK_ACCEPTED] = "accepted",   [BOOK_REPEATED] = "repeated",
        [BOOK_INVALID] = "invalid",     [BOOK_FENCED] = "fenced",
        [BOOK_NOT_FOUND] = "not_found", [BOOK_WRONG_STATE] = "wrong_state",
        [BOOK_REFUSED] = "refused",
    };

    assert(outcome < BOOK_OUTCOMES);
    return names[outcome];
}

/* Decodes a machine for the backend; its views are in the arena or in the entry. */
static enum err entry_read(const struct book *book, const struct book_entry *e, struct arena *arena,
                           struct backend_operation *operation)
{
    struct str offer = book->options.ignores_offers ? STR_EMPTY : pool_text(e->offer);
    char *room = arena_alloc(arena, ENTRY_HOST_CAP);

    if (!room) return ERR_NOMEM;
    operation->machine =
        (struct backend_machine){.id = entry_id(e), .state = e->state, .host = entry_host(e, room)};
    return offer_read(offer, pool_text(e->binding), arena, operation);
}

/* --- checks of the arguments --- */

static enum err request_check_metadata(const struct book_request *request, struct note *note)
{
    size_t bytes = 0;

    if (request->metadata_count > BOOK_METADATA_MAX)
        return note_fail(note, ERR_TOO_LARGE, "shard_metadata: more than %d entries",
                         BOOK_METADATA_MAX);
    for (size_t i = 0; i < request->metadata_count; i++) {
        bytes += request->metadata[i].key.len + request->metadata[i].value.len;
        if (bytes <= BOOK_METADATA_BYTES_MAX) continue;
        return note_fail(note, ERR_TOO_LARGE, "shard_metadata: more than %d bytes",
                         BOOK_METADATA_BYTES_MAX);
    }
    return ERR_OK;
}

static enum err request_check(const struct book_request *request, struct note *note)
{
    enum err err;

    if (request->machine_id.len == 0) return note_fail(note, ERR_INVALID, "machine_id required");
    err = id_check("machine_id", request->machine_id, ID_MAX, note);
    if (!err) err = text_check("shard_id", request->shard, ID_MAX, note);
    if (err || request->kind != OPERATION_CONFIGURE) return err;
    err = id_check("cluster_id", request->cluster, ID_MAX, note);
    if (!err) err = request_check_metadata(request, note);
    if (!err && request->blob.len > BOOK_BLOB_MAX) {
        note_set(note, "bootstrap_blob: more than %d bytes", BOOK_BLOB_MAX);
        err = ERR_TOO_LARGE;
    }
    return err;
}

/* --- the fence --- */

static struct book_answer answer_of(enum book_outcome outcome, enum grpc_status status)
{
    return (struct book_answer){.outcome = outcome, .status = status};
}

static struct book_answer answer_refused(enum err err, struct note *note)
{
    if (note && !note->text[0]) note_set(note, "%s", err_text(err));
    return answer_of(BOOK_REFUSED, GRPC_RESOURCE_EXHAUSTED);
}

/* True if the token is too old. The numbers come first in the note, because the shard parses them
 * (provider_fence_epoch) and an id may be long. */
static bool request_is_fenced(const struct book_request *request, const struct shard_epoch *newest,
                              const struct fence *mark, struct note *note)
{
    if (newest && request->epoch < newest->epoch) {
        note_set(note,
                 "token (%lld, %lld) is not newer than (%lld, *), the newest epoch of shard %.*s "
                 "(machine %.*s)",
                 (long long)request->epoch, (long long)request->sequence, (long long)newest->epoch,
                 STR_ARG(request->shard), STR_ARG(request->machine_id));
        return true;
    }
    if (!mark || request->epoch > mark->epoch ||
        (request->epoch == mark->epoch && request->sequence > mark->sequence))
        return false;
    note_set(note, "token (%lld, %lld) is not newer than (%lld, %lld): shard %.*s on machine %.*s",
             (long long)request->epoch, (long long)request->sequence, (long long)mark->epoch,
             (long long)mark->sequence, STR_ARG(request->shard), STR_ARG(request->machine_id));
    return true;
}

/* Records the token of a request that passes the fence. */
static bool book_pass_fence(struct book *book, const struct book_request *request,
                            struct book_answer *ret_answer, struct note *note)
{
    const struct book_entry *e = map_get(&book->by_id, request->machine_id);
    const struct fence *mark = e ? fences_find(&e->fences, request->shard) : NULL;
    struct book_change change = {.kind = CHANGE_FENCE,
                                 .id = request->machine_id,
                                 .epoch = request->epoch,
                                 .sequence = request->sequence};
    enum err err;

    if (request->shard.len == 0) return true;
    if (request_is_fenced(request, map_get(&book->shards, request->shard), mark, note)) {
        *ret_answer = answer_of(BOOK_FENCED, GRPC_FAILED_PRECONDITION);
        return false;
    }
    if (e && !mark && e->fences.count >= BOOK_FENCES_PER_MACHINE_MAX &&
        e->state != MACHINE_SPECULATIVE) { /* a delayed call of its owner must stay fenced */
        note_set(note, "%.*s: too many shards have commanded it", STR_ARG(request->machine_id));
        *ret_answer = answer_refused(ERR_FULL, note);
        return false;
    }
    err = pool_take(&book->pool, request->shard, 0, &change.shard);
    if (!err) err = book_apply(book, &change);
    pool_drop(&book->pool, change.shard);
    if (err) *ret_answer = answer_refused(err, note);
    return !err;
}

/* --- deciding about a request --- */

static enum err book_check_backend(struct book *book, const struct book_request *request,
                                   const struct book_entry *e, struct backend *backend,
                                   struct note *note)
{
    struct backend_operation operation;
    struct arena arena;
    enum err err;

    if (request->kind == OPERATION_CONFIGURE && book->options.keeps_blobs &&
        book->blob_bytes + request->blob.len > BOOK_BLOBS_MAX)
        return note_fail(note, ERR_FULL, "too many bootstrap blobs are under way");
    if (!backend || !backend->ops->check) return ERR_OK;
    arena_init(&arena, OFFER_ARENA_MAX);
    err = entry_read(book, e, &arena, &operation);
    if (!err) err = backend->ops->check(backend, request->kind, &operation.machine, note);
    arena_deinit(&arena);
    assert(err != ERR_PRECONDITION && err != ERR_FENCED);
    return err;
}

/* Prepares the machine's record for a move to `state`, with a new revision. */
static void change_move(const struct book *book, const struct book_entry *e,
                        enum machine_state state, struct change_of *ret_all)
{
    struct book_change *change = &ret_all->change;

    change_of(e, ret_all);
    change->revision = book->revision + 1;
    if (state != e->state) {
        change->blob = change->error = STR_EMPTY;
        change->grace_ms = 0;
    }
    change->state = state;
    if (state == MACHINE_FAILED) change->host = entry_host(e, ret_all->room);
    if (!state_has_host(state)) change->host = STR_EMPTY;
    if (!state_keeps_binding(state)) change->binding = NULL;
}

static enum err book_accept(struct book *book, const struct book_request *request,
                            struct book_entry *e)
{
    struct change_of all;
    struct pool_item *binding = NULL;
    struct buf bytes;
    enum err err = ERR_OK;

    buf_init(&bytes, BINDING_BYTES_MAX);
    change_move(book, e, operation_moves[request->kind].passing, &all);
    all.change.operations[request->kind] = book->operation + 1;
    if (request->kind == OPERATION_DRAIN) all.change.grace_ms = request->grace_ms;
    if (request->kind == OPERATION_CONFIGURE) {
        if (book->options.keeps_blobs) all.change.blob = request->blob;
        err = binding_write(request, &bytes);
        if (!err) err = pool_take(&book->pool, buf_peek(&bytes), 0, &binding);
    }
    if (binding) all.change.binding = binding;
    if (!err) err = book_apply(book, &all.change);
    pool_drop(&book->pool, binding);
    buf_deinit(&bytes);
    return err;
}

/* A shard returns a Failed machine by Delete. */
static bool operation_may_begin(enum operation_kind kind, enum machine_state state)
{
    return state == operation_moves[kind].from ||
           (kind == OPERATION_DELETE && state == MACHINE_FAILED);
}

static struct book_answer book_judge(struct book *book, const struct book_request *request,
                                     struct book_entry *e, struct backend *backend,
                                     struct note *note)
{
    const struct operation_move *move = &operation_moves[request->kind];
    uint64_t before = e->operations[request->kind];
    char name[MACHINE_NAME_CAP];
    enum err err = ERR_OK;

    if (before && (e->state == move->passing || e->state == move->final))
        return (struct book_answer){BOOK_REPEATED, GRPC_OK, entry_ticket(e, before)};
    if (!operation_may_begin(request->kind, e->state)) {
        note_set(note, "%s of a machine that is %s", move->name,
                 machine_state_name(e->state, name));
        return answer_of(BOOK_WRONG_STATE, GRPC_INTERNAL);
    }
    if (request->kind != OPERATION_DELETE)
        err = book_check_backend(book, request, e, backend, note);
    if (err) return answer_of(BOOK_REFUSED, err_grpc_status(err));
    err = book_accept(book, request, e);
    if (err) return answer_refused(err, note);
    return (struct book_answer){BOOK_ACCEPTED, GRPC_OK,
                                entry_ticket(e, e->operations[request->kind])};
}

struct book_answer book_ask(struct book *book, const struct book_request *request,
                            struct backend *backend, struct buf *into, struct note *note)
{
    struct book_answer said = {0};
    struct pack pack = {into, ERR_OK};
    char name[OPERATION_NAME_CAP];
    size_t before = into->len;
    struct book_entry *e;

    assert(book->loaded);
    e = book_find(book, request->machine_id);
    if (e && request->kind == OPERATION_DELETE) {
        enum err err = book_check_backend(book, request, e, backend, note);

        if (err) return answer_of(BOOK_REFUSED, err_grpc_status(err));
    }
    if (request_check(request, note)) return answer_of(BOOK_INVALID, GRPC_INVALID_ARGUMENT);
    if (!book_pass_fence(book, request, &said, note)) return said;
    if (!e) {
        note_set(note, "no machine %.*s", STR_ARG(request->machine_id));
        return answer_of(BOOK_NOT_FOUND, GRPC_NOT_FOUND);
    }
    said = book_judge(book, request, e, backend, note);
    if (said.status != GRPC_OK) return said;
    snprintf(name, sizeof name, "op-%llu", (unsigned long long)said.operation.number);
    pack_text(&pack, ACK_OPERATION, str_from(name));
    if (!pack.err) pack.err = entry_write(book, e, ACK_MACHINE, into);
    if (pack.err) { /* the status must not mean "not applied", because the request was accepted */
        into->len = before;
        note_set(note, "%s", err_text(pack.err));
        said.status = GRPC_UNKNOWN;
    }
    return said;
}

/* --- operations --- */

/* NULL: the operation is over. */
static struct book_entry *book_find_operation(const struct book *book,
                                              struct operation_ticket ticket)
{
    struct book_entry *e = ticket.place < book->slots ? book_slot(book, ticket.place) : NULL;

    return e && ticket.number && entry_under_way(e) == ticket.number ? e : NULL;
}

bool book_operation(struct book *book, struct operation_ticket ticket, struct arena *arena,
                    struct backend_operation *ret_operation, enum err *ret_err)
{
    const struct book_entry *e = book_find_operation(book, ticket);
    struct backend_operation operation = {.ticket = ticket, .blob = STR_EMPTY};

    *ret_err = ERR_OK;
    if (!e) return false;
    *ret_err = entry_read(book, e, arena, &operation);
    if (*ret_err) return false;
    operation.kind = operation_passing(e->state);
    if (operation.kind != OPERATION_CONFIGURE) operation.metadata_count = 0;
    operation.grace_ms = e->texts ? e->texts->grace_ms : 0;
    operation.blob = entry_blob(e);
    *ret_operation = operation;
    return true;
}

/* A text for last_error: UTF-8 in one line, bounded, never empty. */
static struct str error_clean(struct str error, char room[ERROR_TEXT_MAX])
{
    size_t len = utf8_clip(error, ERROR_TEXT_MAX).len;

    if (len == 0) return STR("failed without a word");
    memcpy(room, error.at, len);
    if (!str_is_utf8(str_of(room, len)))
        for (size_t i = 0; i < len; i++)
            if (room[i] & 0x80) room[i] = '?';
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)room[i] < 0x20 || room[i] == 0x7f) room[i] = ' ';
    return str_of(room, len);
}

bool book_end(struct book *book, struct operation_ticket ticket, const struct operation_end *end,
              enum err *ret_err)
{
    const struct book_entry *e = book_find_operation(book, ticket);
    bool named = !end->failed && end->host.len > 0;
    char room[ERROR_TEXT_MAX];
    enum operation_kind kind;
    struct change_of all;
    struct note note;

    *ret_err = ERR_OK;
    if (!e) return false;
    kind = operation_passing(e->state);
    named = named && kind == OPERATION_CREATE;
    if (end->failed) {
        change_move(book, e, MACHINE_FAILED, &all);
        all.change.error = error_clean(end->error, room);
    } else if (named && id_check("host", end->host, ID_MAX, &note)) {
        change_move(book, e, MACHINE_FAILED, &all);
        all.change.error = STR("create: the host has a name that cannot be reported");
    } else {
        change_move(book, e, operation_moves[kind].final, &all);
        if (named) all.change.host = end->host;
    }
    *ret_err = book_apply(book, &all.change);
    return true;
}

/* --- sightings by the backend --- */

static enum err book_see_offer(struct book *book, struct book_entry *e, struct str id,
                               const struct offer *offer, struct note *note)
{
    struct change_of all = {.change = {.kind = CHANGE_MACHINE,
                                       .id = id,
                                       .revision = book->revision + 1,
                                       .state = MACHINE_SPECULATIVE}};
    struct pool_item *item = NULL;
    struct buf bytes;
    enum err err;

    buf_init(&bytes, OFFER_BYTES_MAX);
    err = offer_write(offer, &bytes);
    /* A known offer was checked before. */
    if (!err && !map_get(&book->pool.items, buf_peek(&bytes))) err = offer_check(offer, note);
    if (!err) err = pool_take(&book->pool, buf_peek(&bytes), 0, &item);
    buf_deinit(&bytes);
    if (err) return err == ERR_TOO_LARGE || err == ERR_PARSE ? ERR_INVALID : err;
    if (e) change_move(book, e, e->state, &all);
    all.change.offer = item;
    if (!e || e->offer != item) err = book_apply(book, &all.change);
    pool_drop(&book->pool, item);
    return err;
}

enum err book_see(struct book *book, enum sighting what, struct str id, const struct offer *offer,
                  struct str why, struct note *note)
{
    struct book_entry *e = book_find(book, id);
    enum machine_state state = what == SEEN_FAILED ? MACHINE_FAILED : MACHINE_SPECULATIVE;
    const struct book_change removed = {
        .kind = CHANGE_REMOVED, .id = id, .revision = book->revision + 1};
    char room[ERROR_TEXT_MAX];
    struct change_of all;
    enum err err;

    assert(book->loaded);
    if (what == SEEN_OFFERED) {
        err = e ? ERR_OK : id_check("id", id, ID_MAX, note);
        return err ? ERR_INVALID : book_see_offer(book, e, id, offer, note);
    }
    if (!e) return ERR_OK;
    if (what == SEEN_REMOVED) return book_apply(book, &removed);
    if (e->state == state) return ERR_OK;
    change_move(book, e, state, &all);
    if (what == SEEN_FAILED) all.change.error = error_clean(why, room);
    return book_apply(book, &all.change);
}

enum err book_each(struct book *book, book_each_fn *each, void *context)
{
    struct map_entry *at;
    struct arena arena;
    size_t cursor = 0;
    enum err err = ERR_OK;

    arena_init(&arena, OFFER_ARENA_MAX);
    while (!err && (at = map_next(&book->by_id, &cursor)) != NULL) {
        const struct book_entry *e = at->value;
        struct backend_operation operation;

        /* unknown ids have the lowest state */
        if (e->state <= MACHINE_SPECULATIVE) continue;
        arena_reset(&arena);
        err = entry_read(book, e, &arena, &operation);
        if (!err) err = each(context, &operation.machine, entry_ticket(e, entry_under_way(e)));
    }
    arena_deinit(&arena);
    return err;
}

/* --- Get --- */

enum err book_get(struct book *book, struct str id, struct buf *into)
{
    const struct book_entry *e = book_find(book, id);

    if (id.len == 0) return ERR_INVALID;
    return e ? entry_write(book, e, 0, into) : ERR_NOT_FOUND;
}
