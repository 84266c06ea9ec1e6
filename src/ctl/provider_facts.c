/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/provider_facts.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "io/clock.h"
#include "wire/grpc.h"

enum {
    POLL_FIRST_MS = 10,
    POLL_MAX_MS = 1000,
    PAGE_SIZE_MAX = 1000,
    PAGES_MAX = 100000,
    UNKNOWN_STATE = 99,
    DRAIN_GRACE_SECONDS = 5,
    DOUBTS_MAX = 3,
    EPOCHS_PER_ROUND = 4, /* a round uses epochs from one below its own to one above */
};
/* A constant needs braces, which STR does not have. */
#define PAIR(key, value)                                                                           \
    {                                                                                              \
        {"" key, sizeof(key) - 1},                                                                 \
        {                                                                                          \
            "" value, sizeof(value) - 1                                                            \
        }                                                                                          \
    }
/* Sorted by key: as they are read back. */
static const struct label first_metadata[] = {
    PAIR("assigned-group", "topology.bigfleet/rack\0gang-7"),
    PAIR("assigned-priority", "900000"),
    PAIR("x-conformance/definitely-unknown",
         "\xcf\x80\xce\xb1\xce\xbd\xcf\x84\xce\xb1 \xcf\x81\xce\xb5\xce\xb9  \t|0xDEADBEEF"),
    PAIR("x-conformance/empty-value", ""),
    PAIR("x-conformance/opaque", "echo-me"),
};
static const struct label second_metadata[] = {PAIR("x-conformance/second", "2")};
static const char unknown_machine[] = "muster-verify-no-such-machine";

struct binding { /* what a Configure said */
    const struct label *metadata;
    size_t count;
};
static const struct binding first_binding = {first_metadata, ARRAY_LEN(first_metadata)};
static const struct binding second_binding = {second_metadata, ARRAY_LEN(second_metadata)};

/* What each change does: wire.md 8.1. */
static const struct move {
    const char *name;
    enum machine_state from, passing, final;
} moves[] = {
    [PROVIDER_CREATE] = {"Create", MACHINE_SPECULATIVE, MACHINE_CREATING, MACHINE_IDLE},
    [PROVIDER_CONFIGURE] = {"Configure", MACHINE_IDLE, MACHINE_CONFIGURING, MACHINE_CONFIGURED},
    [PROVIDER_DRAIN] = {"Drain", MACHINE_CONFIGURED, MACHINE_DRAINING, MACHINE_IDLE},
    [PROVIDER_DELETE] = {"Delete", MACHINE_IDLE, MACHINE_DELETING, MACHINE_SPECULATIVE},
};

/* -- findings -- */

void facts_init(struct facts *facts, int64_t epoch)
{
    static const struct fact_entry entries[] = {
#define X(name, id, rule) [FACT_##name] = {id, rule, FACT_SKIPPED, NULL},
        FACT_MAP(X)
#undef X
    };

    memcpy(facts->entries, entries, sizeof entries);
    facts->epoch = epoch;
    facts->entries[FACT_READY].seen = "only the provider's own cluster could tell";
}

const char *fact_result_name(enum fact_result result)
{
    static const char *const names[] = {"SKIPPED", "PASS", "FAIL"};
    return names[result];
}

static const char *text(struct facts *facts, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static const char *text_of(struct facts *facts, const char *format, va_list args)
{
    char line[2 * NOTE_CAP + 2 * SEEN_TEXT_CAP];
    const char *kept;

    vsnprintf(line, sizeof line, format, args);
    kept = arena_dup(facts->memory, str_from(line));
    return kept ? kept : "(out of memory)";
}

static const char *text(struct facts *facts, const char *format, ...)
{
    va_list args;
    const char *kept;

    va_start(args, format);
    kept = text_of(facts, format, args);
    va_end(args);
    return kept;
}

/* A fact may be looked at often; once it failed, it has. Says whether it held this time. */
static bool holds(struct facts *facts, enum fact fact, bool held, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static bool holds(struct facts *facts, enum fact fact, bool held, const char *format, ...)
{
    struct fact_entry *entry = &facts->entries[fact];
    va_list args;

    if (entry->result == FACT_FAIL) return held;
    entry->result = held ? FACT_PASS : FACT_FAIL;
    va_start(args, format);
    entry->seen = text_of(facts, format, args);
    va_end(args);
    return held;
}

static void skip(struct facts *facts, enum fact fact, const char *why)
{
    if (facts->entries[fact].result == FACT_SKIPPED) facts->entries[fact].seen = why;
}

static void stop(struct facts *facts, const char *why)
{
    if (!facts->stopped) facts->stopped = why;
}

static bool goes_on(struct facts *facts)
{
    if (probe_interrupted(facts->probe)) stop(facts, "interrupted");
    return !facts->stopped;
}

static const char *state_text(struct facts *facts, enum machine_state state)
{
    char name[MACHINE_NAME_CAP];
    return text(facts, "%s", machine_state_name(state, name));
}

/* An answer in one line. */
static const char *said(struct facts *facts, const struct probe_answer *answer)
{
    if (answer->end == PROVIDER_DONE)
        return text(facts, "OK, %s%s%s", state_text(facts, answer->machine.state),
                    answer->operation[0] ? ", " : "", answer->operation);
    if (answer->status == GRPC_OK) return text(facts, "%s", answer->text.text);
    return text(facts, "%s%s%s", grpc_status_name(answer->status), answer->text.text[0] ? ": " : "",
                answer->text.text);
}

/* -- asking -- */

static void get(struct facts *facts, const char *id, struct probe_answer *ret_answer)
{
    const struct provider_token none = {.shard = STR_EMPTY}; /* an empty id is a question, too */
    const struct provider_request request = {
        .verb = PROVIDER_GET, .machine = str_from(id), .token = &none};

    probe_call(facts->probe, &request, ret_answer);
}

struct change {
    enum provider_verb verb;
    const struct binding *binding; /* CONFIGURE; NULL: the first one */
    uint64_t grace_seconds;
};

static void change_as(struct facts *facts, const char *id, struct change change,
                      const struct provider_token *token, struct probe_answer *ret_answer)
{
    const struct binding *binding = change.binding ? change.binding : &first_binding;
    const struct provider_request request = {
        .verb = change.verb,
        .machine = str_from(id),
        .cluster = str_from(facts->cluster),
        .blob = facts->blob,
        .metadata = binding->metadata,
        .metadata_count = binding->count,
        .grace_seconds = change.grace_seconds,
        .token = token,
    };

    probe_call(facts->probe, &request, ret_answer);
}

/* The same of a machine of ours. */
static void touch_as(struct facts *facts, struct spare *spare, struct change change,
                     const struct provider_token *token, struct probe_answer *ret_answer)
{
    change_as(facts, spare->id, change, token, ret_answer);
    if (ret_answer->end == PROVIDER_DONE || ret_answer->end == PROVIDER_UNKNOWN)
        spare->taken = true;
}

static struct provider_token token_of(const struct facts *facts, int64_t epoch, int64_t sequence)
{
    return (struct provider_token){str_from(facts->shard), epoch, sequence};
}

static struct provider_token next_token(struct facts *facts)
{
    return token_of(facts, facts->epoch, ++facts->sequence);
}

static void touch(struct facts *facts, struct spare *spare, struct change change,
                  struct probe_answer *ret_answer)
{
    struct provider_token token = next_token(facts);
    touch_as(facts, spare, change, &token, ret_answer);
}

/* An error, and not the one that is reserved. */
static bool is_refusal(const struct probe_answer *answer)
{
    return answer->end != PROVIDER_DONE && answer->end != PROVIDER_FENCED &&
           answer->end != PROVIDER_UNSENT && answer->status != GRPC_OK &&
           answer->status != GRPC_DEADLINE_EXCEEDED;
}

static bool fenced(struct facts *facts, enum fact fact, struct spare *spare, struct change change,
                   struct provider_token token)
{
    struct probe_answer answer;

    touch_as(facts, spare, change, &token, &answer);
    return holds(facts, fact, answer.end == PROVIDER_FENCED, "%s", said(facts, &answer));
}

/* -- reading: List -- */

static uint32_t spare_rank(enum machine_state state)
{
    return state == MACHINE_SPECULATIVE ? 0 : 1;
}

/* Speculative before Idle, because what is created is ours alone; then the cheap ones. */
static bool better(const struct machine_seen *a, const struct spare *b)
{
    if (spare_rank(a->state) != spare_rank(b->before))
        return spare_rank(a->state) < spare_rank(b->before);
    if (a->price != b->price) return a->price < b->price;
    return strcmp(a->id, b->id) < 0;
}

static bool wanted(const struct facts *facts, const struct machine_seen *machine)
{
    if (machine->state != MACHINE_SPECULATIVE && machine->state != MACHINE_IDLE) return false;
    if (machine->cluster[0] || machine->fault.text[0]) return false;
    if (facts->type && strcmp(machine->type, facts->type) != 0) return false;
    for (size_t i = 0; i < facts->id_count; i++)
        if (str_equal(facts->ids[i], str_from(machine->id))) return true;
    return facts->id_count == 0;
}

static void consider(void *context, const struct machine_seen *machine)
{
    struct facts *facts = context;
    size_t at = facts->spare_count;

    if (!wanted(facts, machine)) return;
    while (at > 0 && better(machine, &facts->spares[at - 1])) at--;
    if (at == SPARES_MAX) return;
    if (facts->spare_count < SPARES_MAX) facts->spare_count++;
    memmove(&facts->spares[at + 1], &facts->spares[at],
            (facts->spare_count - at - 1) * sizeof *facts->spares);
    facts->spares[at] = (struct spare){.price = machine->price, .before = machine->state};
    snprintf(facts->spares[at].id, SEEN_TEXT_CAP, "%s", machine->id);
    snprintf(facts->spares[at].type, SEEN_TEXT_CAP, "%s", machine->type);
}

static void ask_list(struct facts *facts, const struct provider_fetch_request *request,
                     struct probe_listing *listing)
{
    probe_listing_init(listing);
    probe_list(facts->probe, request, listing);
}

static const char *list_said(struct facts *facts, const struct probe_listing *listing)
{
    if (listing->end.end != PROVIDER_DONE) return said(facts, &listing->end);
    return text(facts, "%" PRIu64 " machines", listing->machines);
}

static enum err read_all(struct facts *facts, struct note *note)
{
    struct probe_listing listing;
    bool whole;

    probe_listing_init(&listing);
    listing.each = consider;
    listing.context = facts;
    probe_list(facts->probe, &(struct provider_fetch_request){0}, &listing);
    whole = listing.end.end == PROVIDER_DONE;
    facts->machines = listing.machines;
    holds(facts, FACT_LIST, whole && listing.faults == 0, "%s%s%s", list_said(facts, &listing),
          listing.faults ? "; " : "", listing.fault.text);
    if (listing.end.end == PROVIDER_UNSENT) note_set(note, "%s", listing.end.text.text);
    if (!whole) stop(facts, "List cannot be read");
    enum err err = listing.end.end == PROVIDER_UNSENT ? ERR_UNAVAILABLE : ERR_OK;
    probe_listing_deinit(&listing);
    return err;
}

static void read_filtered(struct facts *facts)
{
    struct probe_listing listing;

    ask_list(facts, &(struct provider_fetch_request){.max_results = 1}, &listing);
    holds(facts, FACT_LIST_MAX, listing.end.end == PROVIDER_DONE && listing.machines <= 1, "%s",
          list_said(facts, &listing));
    probe_listing_deinit(&listing);
    for (uint32_t state = MACHINE_SPECULATIVE; state < MACHINE_STATE_COUNT; state++) {
        ask_list(facts, &(struct provider_fetch_request){.states = &state, .state_count = 1},
                 &listing);
        if (listing.end.end != PROVIDER_DONE || listing.machines > 0)
            holds(facts, FACT_LIST_STATES,
                  listing.end.end == PROVIDER_DONE && listing.states[state] == listing.machines,
                  "%s asked for: %s, %" PRIu64 " of them are", state_text(facts, state),
                  list_said(facts, &listing), listing.states[state]);
        probe_listing_deinit(&listing);
    }
}

static void read_odd(struct facts *facts)
{
    const uint32_t none = MACHINE_UNSPECIFIED, odd = UNKNOWN_STATE;
    struct provider_fetch_request request = {.states = &none, .state_count = 1};
    struct probe_listing listing;

    ask_list(facts, &request, &listing);
    holds(facts, FACT_LIST_ODD, listing.end.end == PROVIDER_DONE && listing.machines == 0,
          "state 0: %s", list_said(facts, &listing));
    probe_listing_deinit(&listing);
    request.states = &odd;
    ask_list(facts, &request, &listing);
    holds(facts, FACT_LIST_ODD, listing.end.status == GRPC_INVALID_ARGUMENT, "state %d: %s",
          UNKNOWN_STATE, list_said(facts, &listing));
    probe_listing_deinit(&listing);
    ask_list(facts, &(struct provider_fetch_request){.cursor = STR("\xff what")}, &listing);
    /* Machines come and go meanwhile; an empty answer or a no is what breaks a shard. */
    holds(facts, FACT_LIST_CURSOR,
          listing.end.end == PROVIDER_DONE && listing.machines >= facts->machines / 2,
          "%s of %" PRIu64, list_said(facts, &listing), facts->machines);
    probe_listing_deinit(&listing);
}

static void read_pages(struct facts *facts)
{
    uint32_t size = (uint32_t)min_u64(PAGE_SIZE_MAX, facts->machines / 3 + 1);
    struct provider_fetch_request request = {.page_size = size};
    struct probe_listing listing;

    ask_list(facts, &request, &listing);
    while (listing.end.end == PROVIDER_DONE && listing.more && listing.pages < PAGES_MAX) {
        request.page_token = listing.next_page;
        probe_list(facts->probe, &request, &listing);
    }
    if (listing.pages == 1 && !listing.more && listing.end.end == PROVIDER_DONE)
        skip(facts, FACT_LIST_PAGES, "it answers everything in one, which is fine");
    else
        holds(facts, FACT_LIST_PAGES,
              listing.end.end == PROVIDER_DONE && !listing.more && listing.repeated == 0 &&
                  listing.machines >= facts->machines / 2,
              "%s in %u pages of %u, %" PRIu64 " twice", list_said(facts, &listing), listing.pages,
              size, listing.repeated);
    probe_listing_deinit(&listing);
}

/* -- reading: the rest -- */

static void read_unknown(struct facts *facts)
{
    struct probe_answer answer;

    get(facts, "", &answer);
    holds(facts, FACT_NO_ID, answer.status == GRPC_INVALID_ARGUMENT, "Get: %s",
          said(facts, &answer));
    get(facts, unknown_machine, &answer);
    holds(facts, FACT_GET_UNKNOWN, answer.end == PROVIDER_NOT_FOUND, "%s", said(facts, &answer));
    for (enum provider_verb verb = PROVIDER_CREATE; verb <= PROVIDER_DELETE; verb++) {
        const struct change change = {.verb = verb};
        struct provider_token token = next_token(facts);
        change_as(facts, "", change, &token, &answer);
        holds(facts, FACT_NO_ID, answer.status == GRPC_INVALID_ARGUMENT, "%s: %s", moves[verb].name,
              said(facts, &answer));
        token = next_token(facts);
        change_as(facts, unknown_machine, change, &token, &answer);
        holds(facts, FACT_UNKNOWN,
              answer.end == PROVIDER_NOT_FOUND ||
                  (verb == PROVIDER_DELETE && answer.end == PROVIDER_NOT_SUPPORTED),
              "%s: %s", moves[verb].name, said(facts, &answer));
    }
}

static bool same(const struct machine_seen *a, const struct machine_seen *b)
{
    return a->state == b->state && a->host == b->host && a->price == b->price &&
           a->metadata == b->metadata && strcmp(a->id, b->id) == 0 &&
           strcmp(a->type, b->type) == 0 && strcmp(a->cluster, b->cluster) == 0;
}

static void read_one(struct facts *facts)
{
    struct probe_answer answer;
    struct probe_listing listing;

    probe_listing_init(&listing);
    listing.watched = str_from(facts->spares[0].id);
    probe_list(facts->probe, &(struct provider_fetch_request){0}, &listing);
    get(facts, facts->spares[0].id, &answer);
    holds(facts, FACT_GET,
          answer.end == PROVIDER_DONE && listing.seen.id[0] && same(&answer.machine, &listing.seen),
          "%s: List says %s, Get %s", facts->spares[0].id,
          listing.seen.id[0] ? state_text(facts, listing.seen.state) : "nothing",
          said(facts, &answer));
    probe_listing_deinit(&listing);
}

/* Ids that were asked for and are not spare. */
static enum err explain_missing(struct facts *facts, struct note *note)
{
    for (size_t i = 0; i < facts->id_count; i++) {
        struct probe_answer answer;
        bool chosen = false;
        for (size_t j = 0; j < facts->spare_count; j++)
            chosen |= str_equal(facts->ids[i], str_from(facts->spares[j].id));
        if (chosen) continue;
        get(facts, facts->ids[i].at, &answer);
        note_set(note, "%s: %s; only machines that are Speculative or Idle%s are worked on",
                 facts->ids[i].at, said(facts, &answer), facts->type ? ", of the type" : "");
        return answer.end == PROVIDER_NOT_FOUND ? ERR_NOT_FOUND : ERR_PRECONDITION;
    }
    return ERR_OK;
}

enum err facts_read(struct facts *facts, struct note *note)
{
    enum err err = read_all(facts, note);

    if (err) return err;
    err = explain_missing(facts, note);
    if (err) return err;
    if (goes_on(facts)) read_filtered(facts);
    if (goes_on(facts)) read_odd(facts);
    if (goes_on(facts)) read_pages(facts);
    if (goes_on(facts)) read_unknown(facts);
    if (goes_on(facts) && facts->spare_count > 0) read_one(facts);
    if (facts->spare_count == 0)
        stop(facts, facts->type ? "no machine of this type is Speculative or Idle"
                                : "no machine is Speculative or Idle");
    return ERR_OK;
}

/* -- waiting for a machine -- */

static bool is_bound(const struct facts *facts, const struct machine_seen *machine,
                     const struct binding *binding)
{
    return strcmp(machine->cluster, facts->cluster) == 0 &&
           machine->metadata == metadata_hash(binding->metadata, binding->count);
}

static const char *bound_text(struct facts *facts, const struct machine_seen *machine)
{
    return text(facts, "%s, cluster '%s', %zu of metadata", state_text(facts, machine->state),
                machine->cluster, machine->metadata_count);
}

/* Somebody else's cluster: hands off. */
static bool still_ours(struct facts *facts, struct spare *spare, const struct machine_seen *machine)
{
    if (!machine->cluster[0] || strcmp(machine->cluster, facts->cluster) == 0) return true;
    spare->lost = true;
    stop(facts, text(facts, "%s is of cluster %s now: somebody else works on it", spare->id,
                     machine->cluster));
    return false;
}

/* A repeat is taken, unless the machine broke or somebody else got it meanwhile: then nothing is
 * said about the rule. */
static bool is_taken(struct facts *facts, struct spare *spare, const struct probe_answer *answer,
                     bool *ret_judged)
{
    struct probe_answer now;

    *ret_judged = true;
    if (answer->end == PROVIDER_DONE) return true;
    if (answer->end == PROVIDER_FENCED) return false;
    get(facts, spare->id, &now);
    *ret_judged = now.end != PROVIDER_DONE ||
                  (now.machine.state != MACHINE_FAILED && still_ours(facts, spare, &now.machine));
    return false;
}

/* What one look at a machine on its way shows beside its state. */
static void judge_on_the_way(struct facts *facts, const struct change *change,
                             const struct machine_seen *machine)
{
    const struct binding *binding = change->binding ? change->binding : &first_binding;

    holds(facts, FACT_RECORDS, !machine->fault.text[0], "%s%s%s", state_text(facts, machine->state),
          machine->fault.text[0] ? ": " : "", machine->fault.text);
    if (machine->state == MACHINE_CONFIGURING)
        holds(facts, FACT_BOUND, is_bound(facts, machine, binding), "%s",
              bound_text(facts, machine));
    if (machine->state == MACHINE_DRAINING)
        holds(facts, FACT_DRAINING, is_bound(facts, machine, binding), "%s",
              bound_text(facts, machine));
}

/* How far it is on its way; -1: it is not on it. */
static int place_of(const struct move *move, enum machine_state state)
{
    return state == move->final ? 2 : state == move->passing ? 1 : state == move->from ? 0 : -1;
}

/* Follows a machine to where a change takes it. `ends` is the fact that it gets there. */
static bool reach(struct facts *facts, struct spare *spare, struct change change, enum fact ends,
                  struct machine_seen *ret_machine)
{
    const struct move *move = &moves[change.verb];
    mono_time deadline = mono_after(clock_mono(clock_real()), facts->wait_ms);
    uint64_t pause_ms = POLL_FIRST_MS;
    int place = 0;

    while (goes_on(facts)) {
        struct probe_answer answer;
        get(facts, spare->id, &answer);
        if (answer.end != PROVIDER_DONE) {
            holds(facts, ends, false, "Get: %s", said(facts, &answer));
            break;
        }
        const struct machine_seen *machine = &answer.machine;
        if (!still_ours(facts, spare, machine)) return false;
        judge_on_the_way(facts, &change, machine);
        *ret_machine = *machine;
        if (machine->state == MACHINE_FAILED) {
            holds(facts, ends, false, "Failed: %s", machine->last_error.text);
            break;
        }
        int now = place_of(move, machine->state);
        if (!holds(facts, FACT_WAY, now >= place, "%s: %s%s", move->name,
                   state_text(facts, machine->state), now >= 0 && now < place ? " again" : ""))
            break;
        place = now;
        if (place == 2) return holds(facts, ends, true, "%s", state_text(facts, machine->state));
        if (mono_due(deadline, clock_mono(clock_real()))) {
            holds(facts, ends, false, "still %s after %" PRIu64 " s (--wait)",
                  state_text(facts, machine->state), (uint64_t)(facts->wait_ms / MS_PER_SECOND));
            break;
        }
        probe_pause(facts->probe, pause_ms);
        pause_ms = min_u64(2 * pause_ms, POLL_MAX_MS);
    }
    stop(facts, text(facts, "%s of %s did not end well", move->name, spare->id));
    return false;
}

/* -- changes -- */

/* Refused in this state, and not by the fence's code; whoever takes it has changed the machine. */
static void wrong_state(struct facts *facts, enum fact fact, struct spare *spare,
                        enum provider_verb verb)
{
    struct probe_answer answer;
    enum machine_state state;

    if (!goes_on(facts)) return;
    get(facts, spare->id, &answer); /* right before: nobody else may have moved it */
    state = answer.machine.state;
    if (answer.end != PROVIDER_DONE || !still_ours(facts, spare, &answer.machine)) return;
    if (state != MACHINE_SPECULATIVE && state != MACHINE_CONFIGURED) {
        skip(facts, fact, text(facts, "%s was %s by then", spare->id, state_text(facts, state)));
        return;
    }
    touch(facts, spare, (struct change){.verb = verb}, &answer);
    holds(facts, fact, is_refusal(&answer), "%s: %s", moves[verb].name, said(facts, &answer));
    if (answer.end == PROVIDER_DONE)
        stop(facts, text(facts, "%s took %s in the wrong state", spare->id, moves[verb].name));
}

/* The first change of a machine, or a repeat that must be the same. False: it was not taken. */
static bool accepted(struct facts *facts, struct spare *spare, struct change change,
                     struct probe_answer *ret_answer)
{
    const struct move *move = &moves[change.verb];
    const struct machine_seen *machine = &ret_answer->machine;

    touch(facts, spare, change, ret_answer);
    if (!holds(facts, FACT_ACK, ret_answer->end == PROVIDER_DONE, "%s: %s", move->name,
               said(facts, ret_answer))) {
        stop(facts, text(facts, "%s of %s was not taken", move->name, spare->id));
        return false;
    }
    if (!still_ours(facts, spare, machine)) return false;
    holds(facts, FACT_ACK,
          strcmp(machine->id, spare->id) == 0 && place_of(move, machine->state) > 0, "%s: %s is %s",
          move->name, machine->id, said(facts, ret_answer));
    judge_on_the_way(facts, &change, machine);
    return true;
}

static void repeated(struct facts *facts, struct spare *spare, struct change change,
                     const char *operation)
{
    struct probe_answer answer;
    bool taken, judged;

    if (!goes_on(facts)) return;
    touch(facts, spare, change, &answer);
    taken = is_taken(facts, spare, &answer, &judged);
    if (judged)
        holds(facts, FACT_REPEAT, taken && strcmp(answer.operation, operation) == 0,
              "%s: %s, then %s", moves[change.verb].name, operation, said(facts, &answer));
}

/* A change to its end, asked for again under way and when it is done. */
static bool carry_out(struct facts *facts, struct spare *spare, struct change change,
                      enum fact ends, struct probe_answer *ret_answer,
                      struct machine_seen *ret_machine)
{
    if (!goes_on(facts) || !accepted(facts, spare, change, ret_answer)) return false;
    repeated(facts, spare, change, ret_answer->operation);
    if (!reach(facts, spare, change, ends, ret_machine)) return false;
    repeated(facts, spare, change, ret_answer->operation);
    return goes_on(facts);
}

static struct change first_change(const struct spare *spare)
{
    return (struct change){.verb = spare->before == MACHINE_SPECULATIVE ? PROVIDER_CREATE
                                                                        : PROVIDER_CONFIGURE};
}

static void begin_round(struct facts *facts)
{
    facts->epoch += EPOCHS_PER_ROUND;
    facts->sequence = 0;
}

/* -- the life of a machine -- */

static void before_it_is_created(struct facts *facts, struct spare *spare)
{
    if (spare->before != MACHINE_SPECULATIVE) {
        skip(facts, FACT_SPECULATIVE, "no machine was Speculative");
        skip(facts, FACT_RECORDED, "no machine was Speculative");
        skip(facts, FACT_CREATE, "no machine was Speculative");
        skip(facts, FACT_DELETE, "an Idle machine is not deleted");
        return;
    }
    begin_round(facts);
    wrong_state(facts, FACT_SPECULATIVE, spare, PROVIDER_CONFIGURE);
    wrong_state(facts, FACT_SPECULATIVE, spare, PROVIDER_DRAIN);
    if (!goes_on(facts)) return;
    fenced(facts, FACT_RECORDED, spare, first_change(spare),
           token_of(facts, facts->epoch, facts->sequence));
}

static void fence_the_other(struct facts *facts, int64_t epoch)
{
    struct spare *other = &facts->spares[1];
    struct provider_token token = token_of(facts, epoch, 3);
    struct change change = first_change(other);
    struct probe_answer answer;

    if (facts->spare_count < 2) {
        skip(facts, FACT_PER_MACHINE, "only one machine was Speculative or Idle");
        return;
    }
    touch_as(facts, other, change, &token, &answer);
    if (!holds(facts, FACT_PER_MACHINE, answer.end == PROVIDER_DONE, "%s, the first call there: %s",
               other->id, said(facts, &answer)))
        return;
    if (!still_ours(facts, other, &answer.machine)) return;
    fenced(facts, FACT_PER_MACHINE, other, change, token);
    fenced(facts, FACT_PER_MACHINE, other, change, token_of(facts, epoch - 1, 999));
}

/* Tokens of three epochs around the first change; the machine's mark ends in the newest. */
static void try_tokens(struct facts *facts, struct spare *spare, const char *operation)
{
    const struct change change = first_change(spare);
    const int64_t epoch = facts->epoch;
    struct provider_token token = token_of(facts, epoch + 1, 1), none = {.shard = STR_EMPTY};
    struct probe_answer answer;
    struct probe_listing listing;

    fenced(facts, FACT_TWICE, spare, change, token_of(facts, epoch, 5));
    fenced(facts, FACT_OLD_NUMBER, spare, change, token_of(facts, epoch, 4));
    fenced(facts, FACT_OLD_EPOCH, spare, change, token_of(facts, epoch - 1, 99));
    get(facts, spare->id, &answer);
    holds(facts, FACT_READING, answer.end == PROVIDER_DONE, "Get: %s", said(facts, &answer));
    ask_list(facts, &(struct provider_fetch_request){.max_results = 1}, &listing);
    holds(facts, FACT_READING, listing.end.end == PROVIDER_DONE, "List: %s",
          list_said(facts, &listing));
    probe_listing_deinit(&listing);
    fence_the_other(facts, epoch);
    touch_as(facts, spare, change, &token, &answer);
    bool judged, taken = is_taken(facts, spare, &answer, &judged);
    if (judged) {
        holds(facts, FACT_NEW_EPOCH, taken, "%s", said(facts, &answer));
        holds(facts, FACT_REPEAT, taken && strcmp(answer.operation, operation) == 0, "%s, then %s",
              operation, said(facts, &answer));
    }
    if (facts->shard_given) {
        skip(facts, FACT_NO_TOKEN, "--shard: every call shows who it is");
    } else {
        touch_as(facts, spare, change, &none, &answer);
        taken = is_taken(facts, spare, &answer, &judged);
        if (judged) holds(facts, FACT_NO_TOKEN, taken, "%s", said(facts, &answer));
    }
    facts->epoch = epoch + 1;
    facts->sequence = 1;
}

/* `first`: the List before the change, with the machine as it was then. */
static void judge_revision(struct facts *facts, const struct spare *spare,
                           const struct probe_listing *first)
{
    const struct str before = first->revision;
    struct probe_listing listing;

    if (before.len == 0) {
        skip(facts, FACT_REVISION, "it gives no revisions; every List is a full one");
        return;
    }
    if (first->seen.state != spare->before) {
        /* Of a provider that fences nothing; the change, then, was older than that List. */
        skip(facts, FACT_REVISION, "it had changed already, by a call that must be refused");
        return;
    }
    probe_listing_init(&listing);
    listing.watched = str_from(spare->id);
    probe_list(facts->probe, &(struct provider_fetch_request){.cursor = before}, &listing);
    holds(facts, FACT_REVISION,
          listing.end.end == PROVIDER_DONE && !str_equal(listing.revision, before) &&
              listing.seen.id[0],
          "%s since %.*s%s%s%s", list_said(facts, &listing), (int)min_size(before.len, 40),
          before.at, str_equal(listing.revision, before) ? ", the same revision" : "",
          listing.seen.id[0] ? "" : ", without the one that changed",
          listing.tombstones ? "" : "; it says nothing of removed ones");
    probe_listing_deinit(&listing);
}

/* The one before, in our place. */
static void try_deposed(struct facts *facts, struct spare *spare, const struct machine_seen *was)
{
    const struct change change = {.verb = was->state == MACHINE_IDLE ? PROVIDER_CONFIGURE
                                                                     : PROVIDER_DRAIN};
    struct probe_answer answer;

    if (!goes_on(facts)) return;
    if (!fenced(facts, FACT_DEPOSED, spare, change, token_of(facts, facts->epoch - 1, 999))) {
        stop(facts, "a deposed shard was obeyed");
        return;
    }
    get(facts, spare->id, &answer);
    holds(facts, FACT_DEPOSED, answer.end == PROVIDER_DONE && same(&answer.machine, was),
          "fenced; %s", bound_text(facts, &answer.machine));
}

static bool first_step(struct facts *facts, struct spare *spare)
{
    const struct change change = first_change(spare);
    struct probe_answer answer;
    struct machine_seen machine;
    struct probe_listing listing;

    begin_round(facts);
    /* A whole one: a List that was cut need not have a revision. */
    probe_listing_init(&listing);
    listing.watched = str_from(spare->id);
    probe_list(facts->probe, &(struct provider_fetch_request){.max_results = 0}, &listing);
    facts->sequence = 4; /* so that the first change has number 5 */
    if (accepted(facts, spare, change, &answer)) {
        try_tokens(facts, spare, answer.operation);
        if (reach(facts, spare, change,
                  change.verb == PROVIDER_CREATE ? FACT_CREATE : FACT_CONFIGURE, &machine)) {
            repeated(facts, spare, change, answer.operation);
            judge_revision(facts, spare, &listing);
            try_deposed(facts, spare, &machine);
        }
    }
    probe_listing_deinit(&listing);
    return goes_on(facts);
}

/* In the answer, by Get (which `reach` looks at) and by List. */
static void judge_bound(struct facts *facts, const struct spare *spare, enum fact fact,
                        const struct binding *binding)
{
    const uint32_t configured = MACHINE_CONFIGURED;
    struct probe_answer answer;
    struct probe_listing listing;

    get(facts, spare->id, &answer);
    holds(facts, fact, answer.end == PROVIDER_DONE && is_bound(facts, &answer.machine, binding),
          "Get: %s", bound_text(facts, &answer.machine));
    probe_listing_init(&listing);
    listing.watched = str_from(spare->id);
    probe_list(facts->probe,
               &(struct provider_fetch_request){.states = &configured, .state_count = 1}, &listing);
    holds(facts, fact, listing.seen.id[0] && is_bound(facts, &listing.seen, binding), "List: %s",
          listing.seen.id[0] ? bound_text(facts, &listing.seen) : "it is not there");
    probe_listing_deinit(&listing);
}

static bool drain(struct facts *facts, struct spare *spare, struct change change, enum fact ends)
{
    struct probe_answer answer;
    struct machine_seen machine;

    if (!carry_out(facts, spare, change, ends, &answer, &machine)) return false;
    holds(facts, FACT_UNBOUND, !machine.cluster[0] && machine.metadata_count == 0, "%s",
          bound_text(facts, &machine));
    skip(facts, FACT_DRAINING, "it was drained before anybody could look");
    return true;
}

/* A failed drain is an end the contract knows. */
static bool drain_at_once(struct facts *facts, struct spare *spare)
{
    const struct change change = {.verb = PROVIDER_DRAIN, .binding = &second_binding};
    struct fact_entry *entry = &facts->entries[FACT_NO_GRACE];
    struct probe_answer answer;

    if (drain(facts, spare, change, FACT_NO_GRACE)) return true;
    get(facts, spare->id, &answer);
    if (answer.end == PROVIDER_DONE && answer.machine.state == MACHINE_FAILED &&
        answer.machine.last_error.text[0])
        entry->result = FACT_PASS;
    return false;
}

static bool second_binding_holds(struct facts *facts, struct spare *spare, const char *before)
{
    const struct change change = {.verb = PROVIDER_CONFIGURE, .binding = &second_binding};
    struct probe_answer answer;
    struct machine_seen machine;

    if (!carry_out(facts, spare, change, FACT_CONFIGURE, &answer, &machine)) return false;
    holds(facts, FACT_NEW_LIFE, strcmp(answer.operation, before) != 0, "%s, then %s", before,
          answer.operation);
    judge_bound(facts, spare, FACT_NEW_LIFE, &second_binding);
    return goes_on(facts);
}

static void delete_it(struct facts *facts, struct spare *spare)
{
    const struct change change = {.verb = PROVIDER_DELETE};
    struct probe_answer answer;
    struct machine_seen machine;

    if (spare->before != MACHINE_SPECULATIVE || !goes_on(facts)) return;
    touch(facts, spare, change, &answer);
    if (answer.end == PROVIDER_NOT_SUPPORTED) {
        facts->no_delete = true;
        skip(facts, FACT_DELETE, "UNIMPLEMENTED: machines here stay, which is fine");
        return;
    }
    if (!holds(facts, FACT_DELETE, answer.end == PROVIDER_DONE, "%s", said(facts, &answer))) return;
    repeated(facts, spare, change, answer.operation);
    if (!reach(facts, spare, change, FACT_DELETE, &machine)) return;
    holds(facts, FACT_DELETE, !machine.host, "Speculative%s", machine.host ? ", with a host" : "");
    repeated(facts, spare, change, answer.operation);
}

void facts_change(struct facts *facts)
{
    const struct change drain_first = {.verb = PROVIDER_DRAIN,
                                       .grace_seconds = DRAIN_GRACE_SECONDS};
    const struct change configure = {.verb = PROVIDER_CONFIGURE};
    struct spare *spare = &facts->spares[0];
    struct probe_answer answer;
    struct machine_seen machine;

    if (!goes_on(facts)) return;
    before_it_is_created(facts, spare);
    if (!goes_on(facts) || !first_step(facts, spare)) return;
    if (spare->before == MACHINE_SPECULATIVE &&
        !carry_out(facts, spare, configure, FACT_CONFIGURE, &answer, &machine))
        return;
    if (spare->before == MACHINE_IDLE) touch(facts, spare, configure, &answer);
    judge_bound(facts, spare, FACT_BOUND, &first_binding);
    wrong_state(facts, FACT_CONFIGURED, spare, PROVIDER_DELETE);
    wrong_state(facts, FACT_CONFIGURED, spare, PROVIDER_CREATE);
    if (!drain(facts, spare, drain_first, FACT_DRAIN)) return;
    if (!second_binding_holds(facts, spare, answer.operation)) return;
    if (!drain_at_once(facts, spare)) return;
    delete_it(facts, spare);
}

/* -- putting back -- */

/* One step nearer to where it was; false: there is none. An answer that cannot be read may be a
 * step all the same, a few times. */
static bool step_back(struct facts *facts, struct spare *spare, const struct machine_seen *machine,
                      struct probe_answer *ret_answer, uint32_t *doubts)
{
    struct change change = {.verb = PROVIDER_DRAIN, .grace_seconds = DRAIN_GRACE_SECONDS};

    if (machine->state == MACHINE_IDLE && spare->before == MACHINE_SPECULATIVE && !facts->no_delete)
        change.verb = PROVIDER_DELETE;
    else if (machine->state != MACHINE_CONFIGURED) /* on its way: wait */
        return !machine_state_stable(machine->state) && machine->state != MACHINE_FAILED;
    touch(facts, spare, change, ret_answer);
    return ret_answer->end == PROVIDER_DONE ||
           (ret_answer->end == PROVIDER_UNKNOWN && ++*doubts <= DOUBTS_MAX);
}

static bool put_back(struct facts *facts, struct spare *spare)
{
    mono_time deadline = mono_after(clock_mono(clock_real()), 2 * facts->wait_ms);
    uint64_t pause_ms = POLL_FIRST_MS;
    struct probe_answer answer, step = {0};
    uint32_t doubts = 0;

    for (;;) {
        get(facts, spare->id, &answer);
        if (answer.end != PROVIDER_DONE || !still_ours(facts, spare, &answer.machine)) break;
        if (answer.machine.state == spare->before) break;
        if (probe_interrupted(facts->probe)) break; /* the second time */
        if (mono_due(deadline, clock_mono(clock_real()))) break;
        if (!step_back(facts, spare, &answer.machine, &step, &doubts)) break;
        probe_pause(facts->probe, pause_ms);
        pause_ms = min_u64(2 * pause_ms, POLL_MAX_MS);
    }
    snprintf(spare->after, sizeof spare->after, "%s",
             answer.end == PROVIDER_DONE ? state_text(facts, answer.machine.state) : "unknown");
    bool back = answer.end == PROVIDER_DONE && answer.machine.state == spare->before;
    if (back || spare->lost) return back;
    const char *why =
        said(facts, step.end == PROVIDER_DONE || !step.text.text[0] ? &answer : &step);
    if (facts->no_delete && answer.machine.state == MACHINE_IDLE)
        skip(facts, FACT_PUT_BACK,
             text(facts, "%s stays Idle: this provider deletes nothing", spare->id));
    else if (answer.machine.state == MACHINE_FAILED &&
             facts->entries[FACT_NO_GRACE].result == FACT_PASS)
        skip(facts, FACT_PUT_BACK,
             text(facts, "%s Failed in a Drain without grace, which is allowed", spare->id));
    else
        holds(facts, FACT_PUT_BACK, false, "%s is %s, and was %s: %s", spare->id, spare->after,
              state_text(facts, spare->before), why);
    return false;
}

void facts_put_back(struct facts *facts)
{
    bool all = true;
    size_t taken = 0;

    probe_forget_interrupt(facts->probe);
    facts->epoch += EPOCHS_PER_ROUND; /* newer than anything tried */
    for (size_t i = 0; i < facts->spare_count; i++) {
        if (!facts->spares[i].taken || facts->spares[i].lost) continue;
        taken++;
        all &= put_back(facts, &facts->spares[i]);
    }
    if (taken == 0)
        skip(facts, FACT_PUT_BACK, "none was touched");
    else if (all)
        holds(facts, FACT_PUT_BACK, true, "%zu, %s", taken, facts->spares[0].after);
    for (enum fact fact = 0; fact < FACT_COUNT; fact++)
        if (!facts->entries[fact].seen)
            facts->entries[fact].seen = facts->stopped ? facts->stopped : "not reached";
}
