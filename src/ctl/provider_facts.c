/* SPDX-License-Identifier: Apache-2.0 */
/* Tests each fact at its point in a machine's life. A fact that failed once has failed. Every call
 * has a fencing token newer than all tokens before it. One thread. */
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
    PROVIDER_FACTS_PAGES_MAX = 100000,
    UNKNOWN_STATE = 99,
    DRAIN_GRACE_SECONDS = 5,
    DOUBTS_MAX = 3,
    EPOCHS_PER_ROUND = 4, /* a run uses three epochs around its own */
};
/* STR cannot be used in a constant, because its expansion has no braces. */
#define PAIR(key, value)                                                                           \
    {                                                                                              \
        {"" key, sizeof(key) - 1},                                                                 \
        {                                                                                          \
            "" value, sizeof(value) - 1                                                            \
        }                                                                                          \
    }
/* Sorted by key, as the provider returns the pairs. */
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

struct binding {
    const struct label *metadata;
    size_t count;
};
static const struct binding first_binding = {first_metadata, ARRAY_LEN(first_metadata)};
static const struct binding second_binding = {second_metadata, ARRAY_LEN(second_metadata)};

/* The machine states of each change (docs/spec/wire.md, section 8.1). */
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

void facts_init(struct provider_facts *f, int64_t epoch)
{
    static const struct fact_entry entries[] = {
#define X(name, id, rule) [FACT_##name] = {id, rule, FACT_SKIPPED, NULL},
        FACT_MAP(X)
#undef X
    };

    memcpy(f->entries, entries, sizeof entries);
    f->epoch = epoch;
    f->entries[FACT_READY].seen = "only the provider's own cluster could show it";
}

const char *fact_result_name(enum fact_result result)
{
    static const char *const names[] = {"SKIPPED", "PASS", "FAIL"};
    return names[result];
}

__attribute__((format(printf, 2, 3))) static const char *facts_text(struct provider_facts *f,
                                                                    const char *format, ...)
{
    char line[2 * NOTE_CAP + 2 * SEEN_TEXT_CAP];
    const char *kept;
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    kept = arena_dup(f->memory, str_from(line));
    return kept ? kept : "(out of memory)";
}

/* Judges one test of a fact, and returns whether the test passed. One failure decides the fact. */
#define facts_holds(f, fact, held, ...) facts_judge(f, fact, held, facts_text(f, __VA_ARGS__))
static bool facts_judge(struct provider_facts *f, enum fact fact, bool held, const char *seen)
{
    struct fact_entry *entry = &f->entries[fact];

    if (entry->result == FACT_FAIL) return held;
    entry->result = held ? FACT_PASS : FACT_FAIL;
    entry->seen = seen;
    return held;
}

static void facts_skip(struct provider_facts *f, enum fact fact, const char *why)
{
    if (f->entries[fact].result == FACT_SKIPPED) f->entries[fact].seen = why;
}

static void facts_stop(struct provider_facts *f, const char *why)
{
    if (!f->stopped) f->stopped = why;
}

static bool facts_goes_on(struct provider_facts *f)
{
    if (probe_interrupted(f->probe)) facts_stop(f, "interrupted");
    return !f->stopped;
}

static const char *facts_state_text(struct provider_facts *f, enum machine_state state)
{
    char name[MACHINE_NAME_CAP];
    return facts_text(f, "%s", machine_state_name(state, name));
}

static const char *facts_said(struct provider_facts *f, const struct probe_answer *answer)
{
    if (answer->end == PROVIDER_DONE)
        return facts_text(f, "OK, %s%s%s", facts_state_text(f, answer->machine.state),
                          answer->operation[0] ? ", " : "", answer->operation);
    if (answer->status == GRPC_OK) return facts_text(f, "%s", answer->text.text);
    return facts_text(f, "%s%s%s", grpc_status_name(answer->status),
                      answer->text.text[0] ? ": " : "", answer->text.text);
}

/* -- asking -- */

static void facts_get(struct provider_facts *f, const char *id, struct probe_answer *ret_answer)
{
    const struct provider_token none = {.shard = STR_EMPTY};
    const struct provider_request request = {
        .verb = PROVIDER_GET, .machine = str_from(id), .token = &none};

    probe_call(f->probe, &request, ret_answer);
}

struct change {
    enum provider_verb verb;
    const struct binding *binding; /* for CONFIGURE; NULL: the first binding */
    uint64_t grace_seconds;
};

static void facts_change_as(struct provider_facts *f, const char *id, struct change change,
                            const struct provider_token *token, struct probe_answer *ret_answer)
{
    const struct binding *binding = change.binding ? change.binding : &first_binding;
    const struct provider_request request = {
        .verb = change.verb,
        .machine = str_from(id),
        .cluster = str_from(f->cluster),
        .blob = f->blob,
        .metadata = binding->metadata,
        .metadata_count = binding->count,
        .grace_seconds = change.grace_seconds,
        .token = token,
    };

    probe_call(f->probe, &request, ret_answer);
}

/* Requests a change of a spare machine with the given token. The machine is marked as taken if the
 * change may have happened. */
static void facts_touch_as(struct provider_facts *f, struct spare *spare, struct change change,
                           const struct provider_token *token, struct probe_answer *ret_answer)
{
    facts_change_as(f, spare->id, change, token, ret_answer);
    if (ret_answer->end == PROVIDER_DONE || ret_answer->end == PROVIDER_UNKNOWN)
        spare->taken = true;
}

static struct provider_token facts_token_of(const struct provider_facts *f, int64_t epoch,
                                            int64_t sequence)
{
    return (struct provider_token){str_from(f->shard), epoch, sequence};
}

static struct provider_token facts_next_token(struct provider_facts *f)
{
    return facts_token_of(f, f->epoch, ++f->sequence);
}

static void facts_touch(struct provider_facts *f, struct spare *spare, struct change change,
                        struct probe_answer *ret_answer)
{
    struct provider_token token = facts_next_token(f);
    facts_touch_as(f, spare, change, &token, ret_answer);
}

/* True for an error other than the fencing error. */
static bool facts_is_refusal(const struct probe_answer *answer)
{
    return answer->end != PROVIDER_DONE && answer->end != PROVIDER_FENCED &&
           answer->end != PROVIDER_UNSENT && answer->status != GRPC_OK &&
           answer->status != GRPC_DEADLINE_EXCEEDED;
}

static bool facts_fenced(struct provider_facts *f, enum fact fact, struct spare *spare,
                         struct change change, struct provider_token token)
{
    struct probe_answer answer;

    facts_touch_as(f, spare, change, &token, &answer);
    return facts_holds(f, fact, answer.end == PROVIDER_FENCED, "%s", facts_said(f, &answer));
}

/* -- reading: List -- */

/* Prefers a Speculative machine, which nobody else uses; then the cheaper machine. */
static bool facts_better(const struct machine_seen *a, const struct spare *b)
{
    if (a->state != b->before) return a->state == MACHINE_SPECULATIVE;
    if (a->price != b->price) return a->price < b->price;
    return strcmp(a->id, b->id) < 0;
}

static bool facts_wanted(const struct provider_facts *f, const struct machine_seen *machine)
{
    if (machine->state != MACHINE_SPECULATIVE && machine->state != MACHINE_IDLE) return false;
    if (machine->cluster[0] || machine->fault.text[0]) return false;
    if (f->type && strcmp(machine->type, f->type) != 0) return false;
    for (size_t i = 0; i < f->id_count; i++)
        if (str_equal(f->ids[i], str_from(machine->id))) return true;
    return f->id_count == 0;
}

static void facts_consider(void *context, const struct machine_seen *machine)
{
    struct provider_facts *f = context;
    size_t at = f->spare_count;

    if (!facts_wanted(f, machine)) return;
    while (at > 0 && facts_better(machine, &f->spares[at - 1])) at--;
    if (at == SPARES_MAX) return;
    if (f->spare_count < SPARES_MAX) f->spare_count++;
    memmove(&f->spares[at + 1], &f->spares[at], (f->spare_count - at - 1) * sizeof *f->spares);
    f->spares[at] = (struct spare){.price = machine->price, .before = machine->state};
    snprintf(f->spares[at].id, SEEN_TEXT_CAP, "%s", machine->id);
    snprintf(f->spares[at].type, SEEN_TEXT_CAP, "%s", machine->type);
}

#define FETCH(...) (&(const struct provider_fetch_request){__VA_ARGS__})
/* Calls List once. The result is valid until the next call. `watched` may be NULL. */
static struct probe_listing *facts_list(struct provider_facts *f, const char *watched,
                                        const struct provider_fetch_request *request)
{
    probe_listing_deinit(&f->listing);
    probe_listing_init(&f->listing);
    f->listing.watched = str_from(watched);
    probe_list(f->probe, request, &f->listing);
    return &f->listing;
}

static bool facts_listed(const struct probe_listing *listing)
{
    return listing->end.end == PROVIDER_DONE;
}

static const char *facts_list_said(struct provider_facts *f, const struct probe_listing *listing)
{
    if (!facts_listed(listing)) return facts_said(f, &listing->end);
    return facts_text(f, "%" PRIu64 " machines", listing->machines);
}

static enum err facts_read_all(struct provider_facts *f, struct note *note)
{
    struct probe_listing *listing = &f->listing;

    probe_listing_init(listing);
    listing->each = facts_consider;
    listing->context = f;
    probe_list(f->probe, FETCH(0), listing);
    f->machines = listing->machines;
    facts_holds(f, FACT_LIST, facts_listed(listing) && listing->faults == 0, "%s%s%s",
                facts_list_said(f, listing), listing->faults ? "; " : "", listing->fault.text);
    if (!facts_listed(listing)) facts_stop(f, "List cannot be read");
    if (listing->end.end != PROVIDER_UNSENT) return ERR_OK;
    return note_fail(note, ERR_UNAVAILABLE, "%s", listing->end.text.text);
}

static void facts_read_filtered(struct provider_facts *f)
{
    const struct probe_listing *listing = facts_list(f, NULL, FETCH(.max_results = 1));

    facts_holds(f, FACT_LIST_MAX, facts_listed(listing) && listing->machines <= 1, "%s",
                facts_list_said(f, listing));
    for (uint32_t state = MACHINE_SPECULATIVE; state < MACHINE_STATE_COUNT; state++) {
        listing = facts_list(f, NULL, FETCH(.states = &state, .state_count = 1));
        if (!facts_listed(listing) || listing->machines > 0)
            facts_holds(f, FACT_LIST_STATES,
                        facts_listed(listing) && listing->states[state] == listing->machines,
                        "%s asked for: %s, %" PRIu64 " of them are", facts_state_text(f, state),
                        facts_list_said(f, listing), listing->states[state]);
    }
}

static void facts_read_odd(struct provider_facts *f)
{
    const uint32_t none = MACHINE_UNSPECIFIED, odd = UNKNOWN_STATE;
    const struct probe_listing *listing =
        facts_list(f, NULL, FETCH(.states = &none, .state_count = 1));

    facts_holds(f, FACT_LIST_ODD, facts_listed(listing) && listing->machines == 0, "state 0: %s",
                facts_list_said(f, listing));
    listing = facts_list(f, NULL, FETCH(.states = &odd, .state_count = 1));
    facts_holds(f, FACT_LIST_ODD, listing->end.status == GRPC_INVALID_ARGUMENT, "state %d: %s",
                UNKNOWN_STATE, facts_list_said(f, listing));
    listing = facts_list(f, NULL, FETCH(.cursor = STR("\xff what")));
    /* Machines may change meanwhile, so the number may differ. */
    facts_holds(f, FACT_LIST_CURSOR, facts_listed(listing) && listing->machines >= f->machines / 2,
                "%s of %" PRIu64, facts_list_said(f, listing), f->machines);
}

static void facts_read_pages(struct provider_facts *f)
{
    uint32_t size = (uint32_t)min_u64(PAGE_SIZE_MAX, f->machines / 3 + 1);
    struct probe_listing *listing = facts_list(f, NULL, FETCH(.page_size = size));

    while (facts_listed(listing) && listing->more && listing->pages < PROVIDER_FACTS_PAGES_MAX)
        probe_list(f->probe, FETCH(.page_size = size, .page_token = listing->next_page), listing);
    if (listing->pages == 1 && !listing->more && facts_listed(listing))
        facts_skip(f, FACT_LIST_PAGES, "it answers everything in one, which is fine");
    else
        facts_holds(f, FACT_LIST_PAGES,
                    facts_listed(listing) && !listing->more && listing->repeated == 0 &&
                        listing->machines >= f->machines / 2,
                    "%s in %u pages of %u, %" PRIu64 " twice", facts_list_said(f, listing),
                    listing->pages, size, listing->repeated);
}

/* -- reading: the rest -- */

static void facts_read_unknown(struct provider_facts *f)
{
    struct probe_answer answer;

    facts_get(f, "", &answer);
    facts_holds(f, FACT_NO_ID, answer.status == GRPC_INVALID_ARGUMENT, "Get: %s",
                facts_said(f, &answer));
    facts_get(f, unknown_machine, &answer);
    facts_holds(f, FACT_GET_UNKNOWN, answer.end == PROVIDER_NOT_FOUND, "%s",
                facts_said(f, &answer));
    for (enum provider_verb verb = PROVIDER_CREATE; verb <= PROVIDER_DELETE; verb++) {
        const struct change change = {.verb = verb};
        struct provider_token token = facts_next_token(f);
        facts_change_as(f, "", change, &token, &answer);
        facts_holds(f, FACT_NO_ID, answer.status == GRPC_INVALID_ARGUMENT, "%s: %s",
                    moves[verb].name, facts_said(f, &answer));
        token = facts_next_token(f);
        facts_change_as(f, unknown_machine, change, &token, &answer);
        facts_holds(f, FACT_UNKNOWN,
                    answer.end == PROVIDER_NOT_FOUND ||
                        (verb == PROVIDER_DELETE && answer.end == PROVIDER_NOT_SUPPORTED),
                    "%s: %s", moves[verb].name, facts_said(f, &answer));
    }
}

static bool facts_same(const struct machine_seen *a, const struct machine_seen *b)
{
    return a->state == b->state && a->host == b->host && a->price == b->price &&
           a->metadata == b->metadata && strcmp(a->id, b->id) == 0 &&
           strcmp(a->type, b->type) == 0 && strcmp(a->cluster, b->cluster) == 0;
}

static void facts_read_one(struct provider_facts *f)
{
    const char *id = f->spares[0].id;
    const struct machine_seen *seen = &facts_list(f, id, FETCH(0))->seen;
    struct probe_answer answer;

    facts_get(f, id, &answer);
    facts_holds(f, FACT_GET,
                answer.end == PROVIDER_DONE && seen->id[0] && facts_same(&answer.machine, seen),
                "%s: List says %s, Get %s", id,
                seen->id[0] ? facts_state_text(f, seen->state) : "nothing", facts_said(f, &answer));
}

static enum err facts_explain_missing(struct provider_facts *f, struct note *note)
{
    for (size_t i = 0; i < f->id_count; i++) {
        struct probe_answer answer;
        bool chosen = false;
        for (size_t j = 0; j < f->spare_count; j++)
            chosen |= str_equal(f->ids[i], str_from(f->spares[j].id));
        if (chosen) continue;
        facts_get(f, f->ids[i].at, &answer);
        note_set(note, "%s: %s; only machines that are Speculative or Idle%s are worked on",
                 f->ids[i].at, facts_said(f, &answer), f->type ? ", of the type" : "");
        return answer.end == PROVIDER_NOT_FOUND ? ERR_NOT_FOUND : ERR_PRECONDITION;
    }
    return ERR_OK;
}

enum err facts_read(struct provider_facts *f, struct note *note)
{
    enum err err = facts_read_all(f, note);

    if (err) return err;
    err = facts_explain_missing(f, note);
    if (err) return err;
    if (facts_goes_on(f)) facts_read_filtered(f);
    if (facts_goes_on(f)) facts_read_odd(f);
    if (facts_goes_on(f)) facts_read_pages(f);
    if (facts_goes_on(f)) facts_read_unknown(f);
    if (facts_goes_on(f) && f->spare_count > 0) facts_read_one(f);
    if (f->spare_count == 0)
        facts_stop(f, f->type ? "no machine of this type is Speculative or Idle"
                              : "no machine is Speculative or Idle");
    return ERR_OK;
}

static bool facts_is_bound(const struct provider_facts *f, const struct machine_seen *machine,
                           const struct binding *binding)
{
    return strcmp(machine->cluster, f->cluster) == 0 &&
           machine->metadata == metadata_hash(binding->metadata, binding->count);
}

static const char *facts_bound_text(struct provider_facts *f, const struct machine_seen *machine)
{
    return facts_text(f, "%s, cluster '%s', %zu of metadata", facts_state_text(f, machine->state),
                      machine->cluster, machine->metadata_count);
}

/* False: the machine belongs to another cluster, and must not be changed again. */
static bool facts_still_ours(struct provider_facts *f, struct spare *spare,
                             const struct machine_seen *machine)
{
    if (!machine->cluster[0] || strcmp(machine->cluster, f->cluster) == 0) return true;
    spare->lost = true;
    facts_stop(f, facts_text(f, "%s is of cluster %s now: somebody else works on it", spare->id,
                             machine->cluster));
    return false;
}

/* Tests that a repeated call is accepted. *ret_judged is false if the machine failed or somebody
 * else acquired it meanwhile. */
static bool facts_is_taken(struct provider_facts *f, struct spare *spare,
                           const struct probe_answer *answer, bool *ret_judged)
{
    struct probe_answer now;

    *ret_judged = true;
    if (answer->end == PROVIDER_DONE) return true;
    if (answer->end == PROVIDER_FENCED) return false;
    facts_get(f, spare->id, &now);
    *ret_judged = now.end != PROVIDER_DONE ||
                  (now.machine.state != MACHINE_FAILED && facts_still_ours(f, spare, &now.machine));
    return false;
}

/* Checks all fields of a machine in transition but its state. */
static void facts_judge_on_the_way(struct provider_facts *f, const struct change *change,
                                   const struct machine_seen *machine)
{
    const struct binding *binding = change->binding ? change->binding : &first_binding;

    facts_holds(f, FACT_RECORDS, !machine->fault.text[0], "%s%s%s",
                facts_state_text(f, machine->state), machine->fault.text[0] ? ": " : "",
                machine->fault.text);
    if (machine->state == MACHINE_CONFIGURING)
        facts_holds(f, FACT_BOUND, facts_is_bound(f, machine, binding), "%s",
                    facts_bound_text(f, machine));
    if (machine->state == MACHINE_DRAINING)
        facts_holds(f, FACT_DRAINING, facts_is_bound(f, machine, binding), "%s",
                    facts_bound_text(f, machine));
}

/* The state's place in the transition: 0, 1 or 2; -1: none. */
static int facts_place_of(const struct move *move, enum machine_state state)
{
    return state == move->final ? 2 : state == move->passing ? 1 : state == move->from ? 0 : -1;
}

/* Waits for the change's final state, and judges the fact `ends` by it. */
static bool facts_reach(struct provider_facts *f, struct spare *spare, struct change change,
                        enum fact ends, struct machine_seen *ret_machine)
{
    const struct move *move = &moves[change.verb];
    mono_time deadline = mono_after(clock_mono(clock_real()), f->wait_ms);
    uint64_t pause_ms = POLL_FIRST_MS;
    int place = 0;

    while (facts_goes_on(f)) {
        struct probe_answer answer;
        facts_get(f, spare->id, &answer);
        if (answer.end != PROVIDER_DONE) {
            facts_holds(f, ends, false, "Get: %s", facts_said(f, &answer));
            break;
        }
        const struct machine_seen *machine = &answer.machine;
        if (!facts_still_ours(f, spare, machine)) return false;
        facts_judge_on_the_way(f, &change, machine);
        *ret_machine = *machine;
        if (machine->state == MACHINE_FAILED) {
            facts_holds(f, ends, false, "Failed: %s", machine->last_error.text);
            break;
        }
        int now = facts_place_of(move, machine->state);
        if (!facts_holds(f, FACT_WAY, now >= place, "%s: %s%s", move->name,
                         facts_state_text(f, machine->state),
                         now >= 0 && now < place ? " again" : ""))
            break;
        place = now;
        if (place == 2)
            return facts_holds(f, ends, true, "%s", facts_state_text(f, machine->state));
        if (mono_due(deadline, clock_mono(clock_real()))) {
            facts_holds(f, ends, false, "still %s after %" PRIu64 " s (--wait)",
                        facts_state_text(f, machine->state),
                        (uint64_t)(f->wait_ms / MS_PER_SECOND));
            break;
        }
        probe_pause(f->probe, pause_ms);
        pause_ms = min_u64(2 * pause_ms, POLL_MAX_MS);
    }
    facts_stop(f, facts_text(f, "%s of %s did not end well", move->name, spare->id));
    return false;
}

/* -- changes -- */

/* A call in a wrong state must be refused, but not as fenced, and must change nothing. */
static void facts_wrong_state(struct provider_facts *f, enum fact fact, struct spare *spare,
                              enum provider_verb verb)
{
    struct probe_answer answer;
    enum machine_state state;

    if (!facts_goes_on(f)) return;
    facts_get(f, spare->id, &answer); /* again, because others may change the machine */
    state = answer.machine.state;
    if (answer.end != PROVIDER_DONE || !facts_still_ours(f, spare, &answer.machine)) return;
    if (state != MACHINE_SPECULATIVE && state != MACHINE_CONFIGURED) {
        facts_skip(f, fact,
                   facts_text(f, "%s was %s by then", spare->id, facts_state_text(f, state)));
        return;
    }
    facts_touch(f, spare, (struct change){.verb = verb}, &answer);
    facts_holds(f, fact, facts_is_refusal(&answer), "%s: %s", moves[verb].name,
                facts_said(f, &answer));
    if (answer.end == PROVIDER_DONE)
        facts_stop(f, facts_text(f, "%s took %s in the wrong state", spare->id, moves[verb].name));
}

/* Requests a first change, or repeats the request. False: the provider refused. */
static bool facts_accepted(struct provider_facts *f, struct spare *spare, struct change change,
                           struct probe_answer *ret_answer)
{
    const struct move *move = &moves[change.verb];
    const struct machine_seen *machine = &ret_answer->machine;

    facts_touch(f, spare, change, ret_answer);
    if (!facts_holds(f, FACT_ACK, ret_answer->end == PROVIDER_DONE, "%s: %s", move->name,
                     facts_said(f, ret_answer))) {
        facts_stop(f, facts_text(f, "%s of %s was not taken", move->name, spare->id));
        return false;
    }
    if (!facts_still_ours(f, spare, machine)) return false;
    facts_holds(f, FACT_ACK,
                strcmp(machine->id, spare->id) == 0 && facts_place_of(move, machine->state) > 0,
                "%s: %s is %s", move->name, machine->id, facts_said(f, ret_answer));
    facts_judge_on_the_way(f, &change, machine);
    return true;
}

static void facts_repeated(struct provider_facts *f, struct spare *spare, struct change change,
                           const char *operation)
{
    struct probe_answer answer;
    bool taken, judged;

    if (!facts_goes_on(f)) return;
    facts_touch(f, spare, change, &answer);
    taken = facts_is_taken(f, spare, &answer, &judged);
    if (judged)
        facts_holds(f, FACT_REPEAT, taken && strcmp(answer.operation, operation) == 0,
                    "%s: %s, then %s", moves[change.verb].name, operation, facts_said(f, &answer));
}

/* Makes a change and waits for its end; repeats the request in transition and at the end. */
static bool facts_carry_out(struct provider_facts *f, struct spare *spare, struct change change,
                            enum fact ends, struct probe_answer *ret_answer,
                            struct machine_seen *ret_machine)
{
    if (!facts_goes_on(f) || !facts_accepted(f, spare, change, ret_answer)) return false;
    facts_repeated(f, spare, change, ret_answer->operation);
    if (!facts_reach(f, spare, change, ends, ret_machine)) return false;
    facts_repeated(f, spare, change, ret_answer->operation);
    return facts_goes_on(f);
}

static struct change facts_first_change(const struct spare *spare)
{
    return (struct change){.verb = spare->before == MACHINE_SPECULATIVE ? PROVIDER_CREATE
                                                                        : PROVIDER_CONFIGURE};
}

static void facts_begin_round(struct provider_facts *f)
{
    f->epoch += EPOCHS_PER_ROUND;
    f->sequence = 0;
}

static void facts_before_it_is_created(struct provider_facts *f, struct spare *spare)
{
    if (spare->before != MACHINE_SPECULATIVE) {
        facts_skip(f, FACT_SPECULATIVE, "no machine was Speculative");
        facts_skip(f, FACT_RECORDED, "no machine was Speculative");
        facts_skip(f, FACT_CREATE, "no machine was Speculative");
        facts_skip(f, FACT_DELETE, "an Idle machine is not deleted");
        return;
    }
    facts_begin_round(f);
    facts_wrong_state(f, FACT_SPECULATIVE, spare, PROVIDER_CONFIGURE);
    facts_wrong_state(f, FACT_SPECULATIVE, spare, PROVIDER_DRAIN);
    if (!facts_goes_on(f)) return;
    facts_fenced(f, FACT_RECORDED, spare, facts_first_change(spare),
                 facts_token_of(f, f->epoch, f->sequence));
}

static void facts_fence_the_other(struct provider_facts *f, int64_t epoch)
{
    struct spare *other = &f->spares[1];
    struct provider_token token = facts_token_of(f, epoch, 3);
    struct change change = facts_first_change(other);
    struct probe_answer answer;

    if (f->spare_count < 2) {
        facts_skip(f, FACT_PER_MACHINE, "only one machine was Speculative or Idle");
        return;
    }
    facts_touch_as(f, other, change, &token, &answer);
    if (!facts_holds(f, FACT_PER_MACHINE, answer.end == PROVIDER_DONE,
                     "%s, the first call there: %s", other->id, facts_said(f, &answer)))
        return;
    if (!facts_still_ours(f, other, &answer.machine)) return;
    facts_fenced(f, FACT_PER_MACHINE, other, change, token);
    facts_fenced(f, FACT_PER_MACHINE, other, change, facts_token_of(f, epoch - 1, 999));
}

/* Sends tokens of three epochs around the first change. The newest epoch stays in force. */
static void facts_try_tokens(struct provider_facts *f, struct spare *spare, const char *operation)
{
    const struct change change = facts_first_change(spare);
    const int64_t epoch = f->epoch;
    struct provider_token token = facts_token_of(f, epoch + 1, 1), none = {.shard = STR_EMPTY};
    const struct probe_listing *listing;
    struct probe_answer answer;

    facts_fenced(f, FACT_TWICE, spare, change, facts_token_of(f, epoch, 5));
    facts_fenced(f, FACT_OLD_NUMBER, spare, change, facts_token_of(f, epoch, 4));
    facts_fenced(f, FACT_OLD_EPOCH, spare, change, facts_token_of(f, epoch - 1, 99));
    facts_get(f, spare->id, &answer);
    facts_holds(f, FACT_READING, answer.end == PROVIDER_DONE, "Get: %s", facts_said(f, &answer));
    listing = facts_list(f, NULL, FETCH(.max_results = 1));
    facts_holds(f, FACT_READING, facts_listed(listing), "List: %s", facts_list_said(f, listing));
    facts_fence_the_other(f, epoch);
    facts_touch_as(f, spare, change, &token, &answer);
    bool judged, taken = facts_is_taken(f, spare, &answer, &judged);
    if (judged) {
        facts_holds(f, FACT_NEW_EPOCH, taken, "%s", facts_said(f, &answer));
        facts_holds(f, FACT_REPEAT, taken && strcmp(answer.operation, operation) == 0,
                    "%s, then %s", operation, facts_said(f, &answer));
    }
    if (f->shard_given) {
        facts_skip(f, FACT_NO_TOKEN, "--shard: every call shows who it is");
    } else {
        facts_touch_as(f, spare, change, &none, &answer);
        taken = facts_is_taken(f, spare, &answer, &judged);
        if (judged) facts_holds(f, FACT_NO_TOKEN, taken, "%s", facts_said(f, &answer));
    }
    f->epoch = epoch + 1;
    f->sequence = 1;
}

/* `before`: revision of the List before the change. `was`: the machine's state in that List. */
static void facts_judge_revision(struct provider_facts *f, const struct spare *spare,
                                 struct str before, enum machine_state was)
{
    const struct probe_listing *listing;
    bool same;

    if (before.len == 0) {
        facts_skip(f, FACT_REVISION, "it gives no revisions; every List is a full one");
        return;
    }
    if (was != spare->before) {
        /* An accepted call of an old epoch changed the machine before that List. */
        facts_skip(f, FACT_REVISION, "it had changed already, by a call that must be refused");
        return;
    }
    listing = facts_list(f, spare->id, FETCH(.cursor = before));
    same = str_equal(listing->revision, before);
    facts_holds(f, FACT_REVISION, facts_listed(listing) && !same && listing->seen.id[0],
                "%s since %.*s%s%s%s", facts_list_said(f, listing), (int)min_size(before.len, 40),
                before.at, same ? ", the same revision" : "",
                listing->seen.id[0] ? "" : ", without the one that changed",
                listing->tombstones ? "" : "; it says nothing of removed ones");
}

/* Calls as the deposed shard, with an older epoch: must be refused and change nothing. */
static void facts_try_deposed(struct provider_facts *f, struct spare *spare,
                              const struct machine_seen *was)
{
    const struct change change = {.verb = was->state == MACHINE_IDLE ? PROVIDER_CONFIGURE
                                                                     : PROVIDER_DRAIN};
    struct probe_answer answer;

    if (!facts_goes_on(f)) return;
    if (!facts_fenced(f, FACT_DEPOSED, spare, change, facts_token_of(f, f->epoch - 1, 999))) {
        facts_stop(f, "a deposed shard was obeyed");
        return;
    }
    facts_get(f, spare->id, &answer);
    facts_holds(f, FACT_DEPOSED, answer.end == PROVIDER_DONE && facts_same(&answer.machine, was),
                "fenced; %s", facts_bound_text(f, &answer.machine));
}

static bool facts_first_step(struct provider_facts *f, struct spare *spare)
{
    const struct change change = facts_first_change(spare);
    struct probe_answer answer;
    struct machine_seen machine;
    /* A full List, because a filtered List may have no revision. */
    const struct probe_listing *listing = facts_list(f, spare->id, FETCH(0));
    const enum machine_state was = listing->seen.state;
    const char *copy = arena_dup(f->memory, listing->revision);
    const struct str before = copy ? str_of(copy, listing->revision.len) : STR_EMPTY;

    facts_begin_round(f);
    f->sequence = 4; /* so that the first change has sequence number 5 */
    if (facts_accepted(f, spare, change, &answer)) {
        facts_try_tokens(f, spare, answer.operation);
        if (facts_reach(f, spare, change,
                        change.verb == PROVIDER_CREATE ? FACT_CREATE : FACT_CONFIGURE, &machine)) {
            facts_repeated(f, spare, change, answer.operation);
            facts_judge_revision(f, spare, before, was);
            facts_try_deposed(f, spare, &machine);
        }
    }
    return facts_goes_on(f);
}

/* Checks the binding in the answer, by Get (in facts_reach) and by List. */
static void facts_judge_bound(struct provider_facts *f, const struct spare *spare, enum fact fact,
                              const struct binding *binding)
{
    const uint32_t configured = MACHINE_CONFIGURED;
    const struct machine_seen *seen;
    struct probe_answer answer;

    facts_get(f, spare->id, &answer);
    facts_holds(f, fact, answer.end == PROVIDER_DONE && facts_is_bound(f, &answer.machine, binding),
                "Get: %s", facts_bound_text(f, &answer.machine));
    seen = &facts_list(f, spare->id, FETCH(.states = &configured, .state_count = 1))->seen;
    facts_holds(f, fact, seen->id[0] && facts_is_bound(f, seen, binding), "List: %s",
                seen->id[0] ? facts_bound_text(f, seen) : "it is not there");
}

static bool facts_drain(struct provider_facts *f, struct spare *spare, struct change change,
                        enum fact ends)
{
    struct probe_answer answer;
    struct machine_seen machine;

    if (!facts_carry_out(f, spare, change, ends, &answer, &machine)) return false;
    facts_holds(f, FACT_UNBOUND, !machine.cluster[0] && machine.metadata_count == 0, "%s",
                facts_bound_text(f, &machine));
    facts_skip(f, FACT_DRAINING, "it was drained before anybody could look");
    return true;
}

/* Drains without a grace period. The contract allows that a drain fails. */
static bool facts_drain_at_once(struct provider_facts *f, struct spare *spare)
{
    const struct change change = {.verb = PROVIDER_DRAIN, .binding = &second_binding};
    struct fact_entry *entry = &f->entries[FACT_NO_GRACE];
    struct probe_answer answer;

    if (facts_drain(f, spare, change, FACT_NO_GRACE)) return true;
    facts_get(f, spare->id, &answer);
    if (answer.end == PROVIDER_DONE && answer.machine.state == MACHINE_FAILED &&
        answer.machine.last_error.text[0])
        entry->result = FACT_PASS;
    return false;
}

static bool facts_second_binding_holds(struct provider_facts *f, struct spare *spare,
                                       const char *before)
{
    const struct change change = {.verb = PROVIDER_CONFIGURE, .binding = &second_binding};
    struct probe_answer answer;
    struct machine_seen machine;

    if (!facts_carry_out(f, spare, change, FACT_CONFIGURE, &answer, &machine)) return false;
    facts_holds(f, FACT_NEW_LIFE, strcmp(answer.operation, before) != 0, "%s, then %s", before,
                answer.operation);
    facts_judge_bound(f, spare, FACT_NEW_LIFE, &second_binding);
    return facts_goes_on(f);
}

static void facts_delete_it(struct provider_facts *f, struct spare *spare)
{
    const struct change change = {.verb = PROVIDER_DELETE};
    struct probe_answer answer;
    struct machine_seen machine;

    if (spare->before != MACHINE_SPECULATIVE || !facts_goes_on(f)) return;
    facts_touch(f, spare, change, &answer);
    if (answer.end == PROVIDER_NOT_SUPPORTED) {
        f->no_delete = true;
        facts_skip(f, FACT_DELETE, "UNIMPLEMENTED: machines here stay, which is fine");
        return;
    }
    if (!facts_holds(f, FACT_DELETE, answer.end == PROVIDER_DONE, "%s", facts_said(f, &answer)))
        return;
    facts_repeated(f, spare, change, answer.operation);
    if (!facts_reach(f, spare, change, FACT_DELETE, &machine)) return;
    facts_holds(f, FACT_DELETE, !machine.host, "Speculative%s",
                machine.host ? ", with a host" : "");
    facts_repeated(f, spare, change, answer.operation);
}

void facts_change(struct provider_facts *f)
{
    const struct change drain_first = {.verb = PROVIDER_DRAIN,
                                       .grace_seconds = DRAIN_GRACE_SECONDS};
    const struct change configure = {.verb = PROVIDER_CONFIGURE};
    struct spare *spare = &f->spares[0];
    struct probe_answer answer;
    struct machine_seen machine;

    if (!facts_goes_on(f)) return;
    facts_before_it_is_created(f, spare);
    if (!facts_goes_on(f) || !facts_first_step(f, spare)) return;
    if (spare->before == MACHINE_SPECULATIVE &&
        !facts_carry_out(f, spare, configure, FACT_CONFIGURE, &answer, &machine))
        return;
    if (spare->before == MACHINE_IDLE) facts_touch(f, spare, configure, &answer);
    facts_judge_bound(f, spare, FACT_BOUND, &first_binding);
    facts_wrong_state(f, FACT_CONFIGURED, spare, PROVIDER_DELETE);
    facts_wrong_state(f, FACT_CONFIGURED, spare, PROVIDER_CREATE);
    if (!facts_drain(f, spare, drain_first, FACT_DRAIN)) return;
    if (!facts_second_binding_holds(f, spare, answer.operation)) return;
    if (!facts_drain_at_once(f, spare)) return;
    facts_delete_it(f, spare);
}

/* -- putting back -- */

/* Makes one step back towards the machine's first state. False: no step is left. After too many
 * unreadable answers (`doubts`) the steps end. */
static bool facts_step_back(struct provider_facts *f, struct spare *spare,
                            const struct machine_seen *machine, struct probe_answer *ret_answer,
                            uint32_t *doubts)
{
    struct change change = {.verb = PROVIDER_DRAIN, .grace_seconds = DRAIN_GRACE_SECONDS};

    if (machine->state == MACHINE_IDLE && spare->before == MACHINE_SPECULATIVE && !f->no_delete)
        change.verb = PROVIDER_DELETE;
    else if (machine->state != MACHINE_CONFIGURED) /* wait for the end of a transition */
        return !machine_state_stable(machine->state) && machine->state != MACHINE_FAILED;
    facts_touch(f, spare, change, ret_answer);
    return ret_answer->end == PROVIDER_DONE ||
           (ret_answer->end == PROVIDER_UNKNOWN && ++*doubts <= DOUBTS_MAX);
}

static bool facts_put_back_one(struct provider_facts *f, struct spare *spare)
{
    mono_time deadline = mono_after(clock_mono(clock_real()), 2 * f->wait_ms);
    uint64_t pause_ms = POLL_FIRST_MS;
    struct probe_answer answer, step = {0};
    uint32_t doubts = 0;

    for (;;) {
        facts_get(f, spare->id, &answer);
        if (answer.end != PROVIDER_DONE || !facts_still_ours(f, spare, &answer.machine)) break;
        if (answer.machine.state == spare->before) break;
        if (probe_interrupted(f->probe)) break; /* the second time */
        if (mono_due(deadline, clock_mono(clock_real()))) break;
        if (!facts_step_back(f, spare, &answer.machine, &step, &doubts)) break;
        probe_pause(f->probe, pause_ms);
        pause_ms = min_u64(2 * pause_ms, POLL_MAX_MS);
    }
    snprintf(spare->after, sizeof spare->after, "%s",
             answer.end == PROVIDER_DONE ? facts_state_text(f, answer.machine.state) : "unknown");
    bool back = answer.end == PROVIDER_DONE && answer.machine.state == spare->before;
    if (back || spare->lost) return back;
    const char *why =
        facts_said(f, step.end == PROVIDER_DONE || !step.text.text[0] ? &answer : &step);
    if (f->no_delete && answer.machine.state == MACHINE_IDLE)
        facts_skip(f, FACT_PUT_BACK,
                   facts_text(f, "%s stays Idle: this provider deletes nothing", spare->id));
    else if (answer.machine.state == MACHINE_FAILED &&
             f->entries[FACT_NO_GRACE].result == FACT_PASS)
        facts_skip(
            f, FACT_PUT_BACK,
            facts_text(f, "%s Failed in a Drain without grace, which is allowed", spare->id));
    else
        facts_holds(f, FACT_PUT_BACK, false, "%s is %s, and was %s: %s", spare->id, spare->after,
                    facts_state_text(f, spare->before), why);
    return false;
}

void facts_put_back(struct provider_facts *f)
{
    bool all = true;
    size_t taken = 0;

    probe_forget_interrupt(f->probe);
    f->epoch += EPOCHS_PER_ROUND; /* newer than all epochs so far */
    for (size_t i = 0; i < f->spare_count; i++) {
        if (!f->spares[i].taken || f->spares[i].lost) continue;
        taken++;
        all &= facts_put_back_one(f, &f->spares[i]);
    }
    if (taken == 0)
        facts_skip(f, FACT_PUT_BACK, "none was touched");
    else if (all)
        facts_holds(f, FACT_PUT_BACK, true, "%zu, %s", taken, f->spares[0].after);
    for (enum fact fact = 0; fact < FACT_COUNT; fact++)
        if (!f->entries[fact].seen) f->entries[fact].seen = f->stopped ? f->stopped : "not reached";
}
