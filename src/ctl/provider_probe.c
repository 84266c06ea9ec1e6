/* SPDX-License-Identifier: Apache-2.0 */
/* Blocking calls over provider/client.h: turn the loop until the answer is there. One thread. */
#include "ctl/provider_probe.h"

#include <stdio.h>
#include <stdlib.h>

#include "ctl/remote.h"
#include "io/real.h"
#include "io/signals.h"
#include "provider/list.h"

enum {
    LIST_SLOWER = 4, /* a List may take this many call time-outs */
    IDS_MAX = 16 * 1000 * 1000,
};
static const size_t listing_max = (size_t)4 << 30;

struct probe {
    struct real_io *real;
    struct provider *provider;
    struct signals *signals;
    struct dimensions dimensions;
    struct machine_reader *reader;
    struct timer timer;
    bool woken, closed, interrupted;
};

/* -- life -- */

static void probe_on_signal(void *owner, int)
{
    struct probe *probe = owner;

    probe->interrupted = true;
    probe->woken = true;
}

static void probe_on_timer(struct timer *timer)
{
    CONTAINER_OF(timer, struct probe, timer)->woken = true;
}

static enum err probe_open_parts(struct probe *probe, const struct probe_options *options,
                                 struct note *note)
{
    static const int numbers[] = {SIGINT, SIGTERM, 0};
    enum err err = real_io_open(&probe->real);
    struct io *io = err ? NULL : real_io_io(probe->real);

    if (!err) err = signals_open(io->loop, numbers, probe_on_signal, probe, &probe->signals);
    if (!err) err = timer_init(&probe->timer, io->loop, probe_on_timer);
    if (!err) err = machine_reader_open(&probe->dimensions, &probe->reader);
    if (err) return err;
    const struct provider_options client = {
        .io = io,
        .address = options->address,
        .shard_id = options->shard,
        .epoch = 1, /* unused: every call has its own epoch */
        .tls = options->tls,
        .connections_max = 1,
        .timeout_ms = options->timeout_ms,
        .list_timeout_ms = options->timeout_ms * LIST_SLOWER,
        .dial_timeout_ms = options->dial_timeout_ms,
        .backoff_first_ms = REMOTE_BACKOFF_FIRST_MS,
        .backoff_max_ms = REMOTE_BACKOFF_MAX_MS,
    };
    return provider_open(&client, &probe->provider, note);
}

enum err probe_open(const struct probe_options *options, struct probe **ret_probe,
                    struct note *note)
{
    struct probe *probe = calloc(1, sizeof *probe);
    enum err err;

    if (!probe) return ERR_NOMEM;
    dimensions_init(&probe->dimensions);
    err = probe_open_parts(probe, options, note);
    if (err)
        probe_close(probe);
    else
        *ret_probe = probe;
    return err;
}

static void probe_on_closed(void *owner)
{
    ((struct probe *)owner)->closed = true;
}

void probe_close(struct probe *probe)
{
    if (!probe) return;
    if (probe->provider) {
        provider_close(probe->provider, probe_on_closed, probe);
        while (!probe->closed) real_io_turn(probe->real, true);
    }
    machine_reader_close(probe->reader);
    dimensions_deinit(&probe->dimensions);
    timer_deinit(&probe->timer);
    signals_close(probe->signals);
    real_io_close(probe->real);
    free(probe);
}

bool probe_interrupted(const struct probe *probe)
{
    return probe->interrupted;
}

void probe_forget_interrupt(struct probe *probe)
{
    probe->interrupted = false;
}

void probe_pause(struct probe *probe, uint64_t ms)
{
    probe->woken = probe->interrupted;
    timer_start_in(&probe->timer, ms);
    while (!probe->woken) real_io_turn(probe->real, true);
    timer_stop(&probe->timer);
}

/* -- what was seen -- */

uint64_t metadata_hash(const struct label *metadata, size_t count)
{
    uint64_t hash = count;

    for (size_t i = 0; i < count; i++)
        hash = str_hash(metadata[i].value, str_hash(metadata[i].key, hash));
    return hash;
}

static void probe_put_text(char into[SEEN_TEXT_CAP], struct str text)
{
    snprintf(into, SEEN_TEXT_CAP, "%.*s", (int)min_size(text.len, SEEN_TEXT_CAP - 1), text.at);
}

static void probe_put_note(struct note *note, struct str text)
{
    note_set(note, "%.*s", (int)min_size(text.len, NOTE_CAP), text.at);
}

static void probe_see(const struct machine_record *record, struct machine_seen *ret)
{
    const struct machine *m = &record->machine;

    *ret =
        (struct machine_seen){.state = m->state,
                              .host = m->host_provider.len > 0 || m->host_ref.len > 0,
                              .price = m->price_per_hour,
                              .metadata_count = record->metadata_count,
                              .metadata = metadata_hash(record->metadata, record->metadata_count)};
    probe_put_text(ret->id, m->id);
    probe_put_text(ret->type, m->attributes.instance_type);
    probe_put_text(ret->cluster, m->cluster);
    probe_put_note(&ret->last_error, m->last_error);
    if (machine_check(m, NULL, &ret->fault) == ERR_OK && m->attributes.instance_type.len == 0)
        note_set(&ret->fault, "instance_type: empty");
}

/* -- calls -- */

struct asking {
    struct probe *probe;
    struct probe_answer *answer;
    bool reads, over;
};

static void probe_take_answer(struct probe_answer *into, const struct provider_answer *answer)
{
    into->end = answer->end;
    into->status = answer->status;
    probe_put_note(&into->text, answer->text);
}

static void probe_on_answer(void *context, const struct provider_answer *answer)
{
    struct asking *asking = context;
    struct probe_answer *into = asking->answer;
    struct machine_reader *reader = asking->probe->reader;
    struct machine_record record;
    struct str operation = STR_EMPTY;
    struct note why = {""};
    enum err err;

    asking->over = true;
    probe_take_answer(into, answer);
    if (answer->end != PROVIDER_DONE) return;
    err = asking->reads ? machine_read(reader, answer->bytes, &record, &why)
                        : machine_read_ack(reader, answer->bytes, &operation, &record, &why);
    if (err) {
        into->end = PROVIDER_UNKNOWN;
        note_set(&into->text, "said OK, and no shard can read it: %s",
                 why.text[0] ? why.text : err_text(err));
        return;
    }
    probe_put_text(into->operation, operation);
    probe_see(&record, &into->machine);
}

void probe_call(struct probe *probe, const struct provider_request *request,
                struct probe_answer *ret_answer)
{
    struct asking asking = {
        .probe = probe, .answer = ret_answer, .reads = request->verb == PROVIDER_GET};
    enum err err;

    *ret_answer = (struct probe_answer){.end = PROVIDER_UNSENT, .status = GRPC_UNAVAILABLE};
    err = provider_call(probe->provider, request, probe_on_answer, &asking);
    if (err) {
        note_set(&ret_answer->text, "not asked: %s", err_text(err));
        return;
    }
    while (!asking.over) real_io_turn(probe->real, true);
}

/* -- List -- */

struct walk {
    struct probe_listing *listing;
    struct provider_list *list;
    bool over;
    enum err err;
    struct note why;
};

void probe_listing_init(struct probe_listing *listing)
{
    *listing = (struct probe_listing){.revision = STR_EMPTY};
    arena_init(&listing->memory, listing_max);
    map_init(&listing->ids, IDS_MAX, 0);
}

void probe_listing_deinit(struct probe_listing *listing)
{
    map_deinit(&listing->ids);
    arena_deinit(&listing->memory);
}

static void probe_note_fault(struct probe_listing *listing, struct str id, const char *why)
{
    if (listing->faults++ == 0) note_set(&listing->fault, "%.*s: %s", STR_ARG(id), why);
}

static enum err probe_on_machine(void *context, const struct machine_record *record)
{
    struct walk *walk = context;
    struct probe_listing *listing = walk->listing;
    struct machine_seen machine;
    char *id = arena_dup(&listing->memory, record->machine.id);
    enum err err = id ? map_put(&listing->ids, str_from(id), id) : ERR_NOMEM;

    if (err && err != ERR_EXISTS) return err;
    probe_see(record, &machine);
    if (err == ERR_EXISTS && listing->repeated++ == 0)
        probe_note_fault(listing, record->machine.id, "listed more than once");
    listing->machines++;
    listing->states[machine.state]++;
    if (machine.fault.text[0]) probe_note_fault(listing, record->machine.id, machine.fault.text);
    if (str_equal(record->machine.id, listing->watched)) listing->seen = machine;
    if (listing->each) listing->each(listing->context, &machine);
    return ERR_OK;
}

static void probe_on_refused(void *context, struct str id, const char *why)
{
    struct walk *walk = context;

    probe_note_fault(walk->listing, id.len > 0 ? id : STR("a record without an id"), why);
}

static void probe_on_removed(void *, struct str) {}

static void probe_on_chunk(void *context, struct provider_chunk *own_chunk)
{
    struct walk *walk = context;

    if (!walk->err) walk->err = provider_list_feed(walk->list, own_chunk->bytes, &walk->why);
    provider_chunk_done(own_chunk);
}

static void probe_on_end(void *context, const struct provider_answer *answer)
{
    struct walk *walk = context;

    walk->over = true;
    probe_take_answer(&walk->listing->end, answer);
}

static struct str probe_keep(struct probe_listing *listing, struct str bytes)
{
    char *copy = arena_dup(&listing->memory, bytes);
    return copy ? str_of(copy, bytes.len) : STR_EMPTY;
}

static enum err probe_take_end(struct walk *walk)
{
    struct probe_listing *listing = walk->listing;
    struct provider_list_end end;
    enum err err = provider_list_finish(walk->list, &end, &walk->why);

    if (err) return err;
    listing->pages++;
    listing->tombstones = end.tombstones;
    listing->more = end.more;
    listing->revision = probe_keep(listing, end.revision);
    listing->next_page = probe_keep(listing, end.next_page);
    return ERR_OK;
}

void probe_list(struct probe *probe, const struct provider_fetch_request *request,
                struct probe_listing *listing)
{
    static const struct provider_list_events records = {probe_on_machine, probe_on_refused,
                                                        probe_on_removed};
    static const struct provider_fetch_events events = {probe_on_chunk, probe_on_end};
    struct walk walk = {.listing = listing};
    struct provider_fetch *fetch;

    listing->end = (struct probe_answer){.end = PROVIDER_UNSENT, .status = GRPC_UNAVAILABLE};
    walk.err = provider_list_open(probe->reader, &records, &walk, &walk.list);
    if (!walk.err)
        walk.err = provider_fetch_start(probe->provider, request, &events, &walk, &fetch);
    if (walk.err) {
        note_set(&listing->end.text, "not asked: %s", err_text(walk.err));
    } else {
        while (!walk.over) real_io_turn(probe->real, true);
        if (listing->end.end == PROVIDER_DONE && !walk.err) walk.err = probe_take_end(&walk);
        if (listing->end.end == PROVIDER_DONE && walk.err) {
            listing->end.end = PROVIDER_UNKNOWN;
            note_set(&listing->end.text, "said OK, and no shard can read it: %s",
                     walk.why.text[0] ? walk.why.text : err_text(walk.err));
        }
    }
    provider_list_close(walk.list);
}
