/* SPDX-License-Identifier: Apache-2.0 */
/* ctl/inspect.h: a provider that keeps the contract passes, and each fact fails for a provider that
 * breaks it in one place. The provider is a model that replaces the calls of ctl/provider_probe.h.
 * */
#include <stdio.h>

#include "canned.h"
#include "ctl/inspect.h"

enum { MACHINES = 3, POLLS_ON_THE_WAY = 2 };
static const char *const ids[MACHINES] = {"m-0", "m-1", "m-2"};

static enum fact flaw; /* the fact that the model breaks; FACT_COUNT: none */
static bool flawed(enum fact which)
{
    return flaw == which;
}

struct model_machine {
    enum machine_state state, final;
    int polls_left; /* until it is `final` */
    bool host;
    char cluster[SEEN_TEXT_CAP];
    uint64_t metadata, metadata_count;
    int64_t epoch, sequence; /* the mark */
    enum provider_verb verb; /* of the last operation */
    unsigned operation;
    unsigned revision;
};
static struct model_machine model[MACHINES];
static unsigned operations, revisions;
static bool interrupted, unreachable, no_delete;
static int interrupt_in; /* calls; 0: never */

static void model_reset(void)
{
    memset(model, 0, sizeof model);
    for (size_t i = 0; i < MACHINES; i++) {
        model[i].state = model[i].final = i < 2 ? MACHINE_SPECULATIVE : MACHINE_IDLE;
        model[i].host = i == 2;
        model[i].verb = PROVIDER_GET;
        model[i].revision = 1;
    }
    operations = 0;
    revisions = 1;
    flaw = FACT_COUNT;
    interrupted = unreachable = no_delete = false;
    interrupt_in = 0;
}

/* -- the model's answers -- */

static void model_see(size_t at, struct machine_seen *ret)
{
    const struct model_machine *m = &model[at];

    *ret = (struct machine_seen){.state = m->state,
                                 .host = m->host,
                                 .price = 0.1 * (double)(at + 1),
                                 .metadata = m->metadata,
                                 .metadata_count = m->metadata_count};
    snprintf(ret->id, sizeof ret->id, "%s", ids[at]);
    snprintf(ret->type, sizeof ret->type, "small");
    snprintf(ret->cluster, sizeof ret->cluster, "%s", m->cluster);
    if (flawed(FACT_RECORDS) && m->state == MACHINE_CREATING)
        note_set(&ret->fault, "host: missing");
}

static void model_refuse(struct probe_answer *ret, enum provider_end end, enum grpc_status status)
{
    ret->end = end;
    ret->status = status;
    note_set(&ret->text, "%s", "no");
}

static void model_arrive(struct model_machine *m)
{
    m->state = m->final;
    if (!flawed(FACT_REVISION)) m->revision = ++revisions;
    if (m->verb == PROVIDER_CREATE) m->host = true;
    if (m->verb == PROVIDER_DELETE) m->host = flawed(FACT_DELETE);
    if (m->verb == PROVIDER_DRAIN && !flawed(FACT_UNBOUND)) {
        m->cluster[0] = '\0';
        m->metadata = m->metadata_count = 0;
        m->metadata = metadata_hash(NULL, 0);
    }
}

static void model_get(size_t at, struct probe_answer *ret)
{
    struct model_machine *m = &model[at];

    if (m->state != m->final && m->polls_left-- == 0) model_arrive(m);
    ret->end = PROVIDER_DONE;
    ret->status = GRPC_OK;
    model_see(at, &ret->machine);
    if (flawed(FACT_GET)) ret->machine.price += 1;
    if (flawed(FACT_WAY) && m->state == MACHINE_CREATING) ret->machine.state = MACHINE_DRAINING;
    if (flawed(FACT_CREATE) && m->state == MACHINE_IDLE && m->verb == PROVIDER_CREATE)
        ret->machine.state = MACHINE_FAILED;
    if (flawed(FACT_CONFIGURE) && m->state == MACHINE_CONFIGURED)
        ret->machine.state = MACHINE_FAILED;
    if (flawed(FACT_DRAIN) && m->state == MACHINE_IDLE && m->verb == PROVIDER_DRAIN)
        ret->machine.state = MACHINE_FAILED;
    if (flawed(FACT_DRAINING) && m->state == MACHINE_DRAINING) ret->machine.cluster[0] = '\0';
}

static const struct {
    enum machine_state from, passing, final;
} moves[] = {
    [PROVIDER_CREATE] = {MACHINE_SPECULATIVE, MACHINE_CREATING, MACHINE_IDLE},
    [PROVIDER_CONFIGURE] = {MACHINE_IDLE, MACHINE_CONFIGURING, MACHINE_CONFIGURED},
    [PROVIDER_DRAIN] = {MACHINE_CONFIGURED, MACHINE_DRAINING, MACHINE_IDLE},
    [PROVIDER_DELETE] = {MACHINE_IDLE, MACHINE_DELETING, MACHINE_SPECULATIVE},
};

/* The fence: true when the call may go on. */
static bool model_fence(struct model_machine *m, const struct provider_token *t)
{
    bool same_epoch = t->epoch == m->epoch;
    bool newer = t->epoch > m->epoch || (same_epoch && t->sequence > m->sequence);

    if (t->shard.len == 0) return !flawed(FACT_NO_TOKEN);
    if (flawed(FACT_TWICE) && same_epoch && t->sequence == m->sequence) return true;
    if (flawed(FACT_OLD_NUMBER) && same_epoch && t->sequence < m->sequence) return true;
    if (flawed(FACT_OLD_EPOCH) && t->epoch < m->epoch) return true;
    if (flawed(FACT_NEW_EPOCH) && m->epoch && t->epoch > m->epoch && t->sequence <= m->sequence)
        return false;
    if (flawed(FACT_PER_MACHINE) && m == &model[1]) newer = false;
    if (flawed(FACT_DEPOSED) && t->sequence == 999) return true;
    if (!newer) return false;
    m->epoch = t->epoch;
    m->sequence = t->sequence;
    return true;
}

static void model_change(size_t at, const struct provider_request *request,
                         struct probe_answer *ret)
{
    struct model_machine *m = &model[at];
    enum machine_state from = m->state;
    struct model_machine before = *m;
    bool repeat = m->verb == request->verb &&
                  (m->state == moves[m->verb].passing || m->state == moves[m->verb].final);

    if (!model_fence(m, request->token)) {
        model_refuse(ret, PROVIDER_FENCED, GRPC_FAILED_PRECONDITION);
        return;
    }
    if (no_delete && request->verb == PROVIDER_DELETE) {
        model_refuse(ret, PROVIDER_NOT_SUPPORTED, GRPC_UNIMPLEMENTED);
        return;
    }
    if (!repeat && from != moves[request->verb].from) {
        if (flawed(FACT_RECORDED)) *m = before;
        if ((flawed(FACT_SPECULATIVE) && from == MACHINE_SPECULATIVE) ||
            (flawed(FACT_CONFIGURED) && from == MACHINE_CONFIGURED))
            model_refuse(ret, PROVIDER_FENCED, GRPC_FAILED_PRECONDITION);
        else
            model_refuse(ret, PROVIDER_REFUSED, GRPC_FAILED_PRECONDITION);
        return;
    }
    if (!repeat) {
        m->verb = request->verb;
        m->state = moves[request->verb].passing;
        m->final = moves[request->verb].final;
        m->polls_left = POLLS_ON_THE_WAY;
        m->operation =
            flawed(FACT_NEW_LIFE) && request->verb == PROVIDER_CONFIGURE ? 77 : ++operations;
        if (!flawed(FACT_REVISION)) m->revision = ++revisions;
    }
    if (!repeat && request->verb == PROVIDER_CONFIGURE) {
        snprintf(m->cluster, sizeof m->cluster, "%.*s", STR_ARG(request->cluster));
        m->metadata = metadata_hash(request->metadata, request->metadata_count);
        if (flawed(FACT_BOUND)) m->metadata++;
        m->metadata_count = request->metadata_count;
    }
    ret->end = PROVIDER_DONE;
    ret->status = GRPC_OK;
    snprintf(ret->operation, sizeof ret->operation, "op-%u",
             repeat && flawed(FACT_REPEAT) ? ++operations : m->operation);
    model_see(flawed(FACT_ACK) ? (at + 1) % MACHINES : at, &ret->machine);
}

static size_t model_find(struct str id)
{
    for (size_t i = 0; i < MACHINES; i++)
        if (str_equal(id, str_from(ids[i]))) return i;
    return MACHINES;
}

/* -- replaces ctl/provider_probe.c -- */

enum err probe_open(const struct probe_options *options, struct probe **ret_probe,
                    struct note *note)
{
    (void)options, (void)note;
    *ret_probe = NULL;
    return ERR_OK;
}

void probe_close(struct probe *probe)
{
    (void)probe;
}

bool probe_interrupted(const struct probe *probe)
{
    (void)probe;
    return interrupted;
}

void probe_forget_interrupt(struct probe *probe)
{
    (void)probe;
    interrupted = false;
}

void probe_pause(struct probe *probe, uint64_t ms)
{
    (void)probe, (void)ms;
}

uint64_t metadata_hash(const struct label *metadata, size_t count)
{
    uint64_t hash = count;

    for (size_t i = 0; i < count; i++)
        hash = str_hash(metadata[i].value, str_hash(metadata[i].key, hash));
    return hash;
}

void probe_call(struct probe *probe, const struct provider_request *request,
                struct probe_answer *ret)
{
    size_t at = model_find(request->machine);

    (void)probe;
    *ret = (struct probe_answer){.end = PROVIDER_UNSENT, .status = GRPC_UNAVAILABLE};
    if (interrupt_in && --interrupt_in == 0) interrupted = true;
    if (request->machine.len == 0 && !flawed(FACT_NO_ID))
        model_refuse(ret, PROVIDER_REFUSED, GRPC_INVALID_ARGUMENT);
    else if (at == MACHINES &&
             flawed(request->verb == PROVIDER_GET ? FACT_GET_UNKNOWN : FACT_UNKNOWN))
        model_refuse(ret, PROVIDER_REFUSED, GRPC_INTERNAL);
    else if (at == MACHINES)
        model_refuse(ret, PROVIDER_NOT_FOUND, GRPC_NOT_FOUND);
    else if (request->verb == PROVIDER_GET)
        model_get(at, ret);
    else
        model_change(at, request, ret);
}

void probe_listing_init(struct probe_listing *listing)
{
    *listing = (struct probe_listing){.revision = STR_EMPTY};
    arena_init(&listing->memory, 1 << 16);
}

void probe_listing_deinit(struct probe_listing *listing)
{
    arena_deinit(&listing->memory);
}

static bool model_listed(size_t at, const struct provider_fetch_request *request, unsigned since)
{
    bool wanted = request->state_count == 0;

    for (size_t i = 0; i < request->state_count; i++)
        wanted |= request->states[i] == (uint32_t)model[at].state;
    if (flawed(FACT_LIST_STATES) && request->state_count && request->states[0] == MACHINE_IDLE)
        wanted = true;
    return wanted && model[at].revision > since;
}

void probe_list(struct probe *probe, const struct provider_fetch_request *request,
                struct probe_listing *listing)
{
    size_t from = request->page_token.len ? (size_t)(request->page_token.at[0] - '0') : 0;
    size_t most = request->page_size ? request->page_size : MACHINES, given = 0, at = from;
    unsigned since = 0;
    char text[32];

    (void)probe;
    listing->end = (struct probe_answer){.end = PROVIDER_UNSENT, .status = GRPC_UNAVAILABLE};
    note_set(&listing->end.text, "%s", "refused");
    if (unreachable) return;
    if (request->state_count && request->states[0] >= MACHINE_STATE_COUNT &&
        !flawed(FACT_LIST_ODD)) {
        model_refuse(&listing->end, PROVIDER_REFUSED, GRPC_INVALID_ARGUMENT);
        return;
    }
    if (request->max_results && !flawed(FACT_LIST_MAX)) most = request->max_results;
    if (request->cursor.len && request->cursor.at[0] == 'r')
        since = (unsigned)request->cursor.at[1];
    if (request->cursor.len && request->cursor.at[0] != 'r' && flawed(FACT_LIST_CURSOR))
        since = 255;
    listing->end = (struct probe_answer){.end = PROVIDER_DONE, .status = GRPC_OK};
    if (flawed(FACT_READING) && request->max_results && model[0].epoch)
        model_refuse(&listing->end, PROVIDER_REFUSED, GRPC_INTERNAL);
    for (; at < MACHINES && given < most; at++) {
        struct machine_seen machine;
        if (!model_listed(at, request, since)) continue;
        given++;
        model_see(at, &machine);
        listing->machines++;
        listing->states[machine.state]++;
        if (flawed(FACT_LIST) && listing->faults++ == 0) note_set(&listing->fault, "%s", "odd");
        if (flawed(FACT_LIST_PAGES) && request->page_token.len) listing->repeated++;
        if (str_equal(str_from(ids[at]), listing->watched)) listing->seen = machine;
        if (listing->each) listing->each(listing->context, &machine);
    }
    listing->pages++;
    listing->tombstones = true;
    listing->more = request->page_size && at < MACHINES;
    snprintf(text, sizeof text, "%zu", at);
    listing->next_page = str_of(arena_dup(&listing->memory, str_from(text)), 1);
    text[0] = 'r';
    text[1] = (char)revisions;
    listing->revision = str_of(arena_dup(&listing->memory, str_of(text, 2)), 2);
}

/* -- the tests -- */

static struct canned canned;
static struct provider_facts facts;

/* `words`: of the command. Runs all facts, as if the options named them. */
static enum err verify(const char *const *words, bool dry_run)
{
    canned_open(&canned, words);
    facts.memory = &canned.ctl.memory;
    facts_init(&facts, 100);
    return provider_verify_facts(&canned.ctl, &facts, "p:7770", dry_run);
}

static void defaults(void)
{
    model_reset();
    facts = (struct provider_facts){
        .shard = "verify-1", .cluster = "muster-verify", .blob = STR("blob"), .wait_ms = 600000};
}

static void end(void)
{
    probe_listing_deinit(&facts.listing);
    canned_close(&canned);
}

static enum fact_result result_of(enum fact fact)
{
    return facts.entries[fact].result;
}

TEST(a_provider_that_keeps_the_contract_passes)
{
    defaults();
    CHECK_OK("it does", verify(CANNED_WORDS(NULL), false));
    for (enum fact fact = 0; fact < FACT_COUNT; fact++)
        if (fact != FACT_READY) CHECK_I64(facts.entries[fact].rule, result_of(fact), FACT_PASS);
    CHECK_I64("nobody can see that", result_of(FACT_READY), FACT_SKIPPED);
    CHECK_TEXT("the first line names the machine under test", canned_warned(),
               "works on m-0 (small, 0.1 $/h, Speculative): creates, configures and drains, and "
               "puts it back\n"
               "works on m-1 (small, 0.2 $/h, Speculative): creates, and puts it back\n");
    CHECK_HAS("a table", canned_printed(&canned), "FACT  RESULT   RULE ");
    CHECK_HAS("a sum", canned.ctl.out.data, "\n36 passed, 0 failed, 1 skipped\n");
    for (size_t i = 0; i < 2; i++) CHECK_I64("as it was", model[i].state, MACHINE_SPECULATIVE);
    CHECK_I64("never touched", model[2].epoch, 0);
    end();
}

/* One flaw makes its fact fail, and the command stops there. */
TEST(each_fact_fails_for_a_provider_that_breaks_it)
{
    for (enum fact fact = 0; fact < FACT_COUNT; fact++) {
        char why[128];

        if (fact == FACT_READY || fact == FACT_NO_GRACE || fact == FACT_PUT_BACK) continue;
        defaults();
        flaw = fact;
        CHECK_ERR(facts.entries[fact].id, verify(CANNED_WORDS(NULL), false), ERR_UNSUPPORTED);
        snprintf(why, sizeof why, "%s %s: %s", facts.entries[fact].id, facts.entries[fact].rule,
                 facts.entries[fact].seen);
        CHECK_I64(why, result_of(fact), FACT_FAIL);
        CHECK_HAS("the end", canned.ctl.note.text, "of 37 facts do not hold");
        end();
    }
}

TEST(every_failure_leaves_the_machines_restored)
{
    for (enum fact fact = 0; fact < FACT_COUNT; fact++) {
        /* After these failures the provider reports Failed or takes no more calls. */
        if (fact == FACT_CREATE || fact == FACT_CONFIGURE || fact == FACT_DRAIN ||
            fact == FACT_NEW_EPOCH)
            continue;
        defaults();
        flaw = fact;
        (void)verify(CANNED_WORDS(NULL), false);
        for (size_t i = 0; i < MACHINES; i++)
            CHECK_I64(facts.entries[fact].id, model[i].state,
                      i < 2 ? MACHINE_SPECULATIVE : MACHINE_IDLE);
        end();
    }
}

TEST(a_machine_that_never_arrives)
{
    defaults();
    facts.wait_ms = 0;
    CHECK_ERR("late", verify(CANNED_WORDS(NULL), false), ERR_UNSUPPORTED);
    CHECK_TEXT("how long", facts.entries[FACT_CREATE].seen, "still Creating after 0 s (--wait)");
    CHECK_HAS("the facts that were not tried", facts.entries[FACT_DRAIN].seen,
              "Create of m-0 did not end well");
    CHECK_HAS("and where it is", facts.entries[FACT_PUT_BACK].seen, ", and was Speculative");
    end();
}

TEST(nobody_answers)
{
    defaults();
    unreachable = true;
    CHECK_ERR("nobody", verify(CANNED_WORDS(NULL), false), ERR_UNAVAILABLE);
    CHECK_TEXT("where", canned.ctl.note.text, "no provider answers at p:7770: refused");
    CHECK_SIZE("printed", canned.ctl.out.len, 0);
    end();
}

TEST(a_dry_run_touches_nothing)
{
    defaults();
    CHECK_OK("it reads", verify(CANNED_WORDS(NULL), true));
    CHECK_HAS("the planned steps", canned_warned(), "would work on m-0");
    CHECK_I64("a fact that reads", result_of(FACT_LIST), FACT_PASS);
    CHECK_TEXT("one that changes", facts.entries[FACT_CREATE].seen, "--dry-run");
    CHECK_I64("no machine has a mark", model[0].epoch, 0);
    end();
}

TEST(without_a_spare_machine_only_reading_is_tried)
{
    defaults();
    for (size_t i = 0; i < MACHINES; i++) model[i].state = model[i].final = MACHINE_CONFIGURED;
    CHECK_ERR("not all", verify(CANNED_WORDS(NULL), false), ERR_PRECONDITION);
    CHECK_TEXT("why", canned.ctl.note.text, "not all was tried: no machine is Speculative or Idle");
    end();
    defaults();
    facts.type = "large";
    CHECK_ERR("not all", verify(CANNED_WORDS(NULL), false), ERR_PRECONDITION);
    CHECK_HAS("why", canned.ctl.note.text, "no machine of this type is Speculative or Idle");
    end();
}

TEST(machines_that_were_asked_for)
{
    static const struct str idle[] = {{"m-2", 3}}, absent[] = {{"m-9", 3}};

    defaults();
    facts.ids = idle;
    facts.id_count = 1;
    CHECK_OK("an Idle one will do", verify(CANNED_WORDS("--json"), false));
    CHECK_I64("and is not deleted", result_of(FACT_DELETE), FACT_SKIPPED);
    CHECK_I64("as it was", model[2].state, MACHINE_IDLE);
    CHECK_I64("only this one", model[0].epoch, 0);
    CHECK_HAS("for programs", canned_printed(&canned),
              "\"machines\":[{\"id\":\"m-2\",\"type\":\"small\",\"before\":\"Idle\",\"after\":"
              "\"Idle\",\"touched\":true}],\"facts\":[{\"id\":\"B7\",\"result\":\"PASS\"");
    end();
    defaults();
    facts.ids = absent;
    facts.id_count = 1;
    CHECK_ERR("not there", verify(CANNED_WORDS(NULL), false), ERR_NOT_FOUND);
    CHECK_HAS("which", canned.ctl.note.text, "m-9: NOT_FOUND");
    end();
}

TEST(an_interrupt_ends_the_trial_and_puts_back)
{
    for (int calls = 12; calls < 60; calls += 7) {
        defaults();
        interrupt_in = calls;
        (void)verify(CANNED_WORDS(NULL), false);
        CHECK_TEXT("it stopped", facts.stopped, "interrupted");
        for (size_t i = 0; i < 2; i++) CHECK_I64("as it was", model[i].state, MACHINE_SPECULATIVE);
        end();
    }
}

TEST(a_machine_of_another_cluster_is_left_alone)
{
    defaults();
    snprintf(model[0].cluster, sizeof model[0].cluster, "prod");
    CHECK_OK("the next ones will do", verify(CANNED_WORDS(NULL), false));
    CHECK_I64("never touched", model[0].epoch, 0);
    end();
}

TEST(a_provider_that_deletes_nothing_is_fine)
{
    defaults();
    no_delete = true;
    CHECK_OK("it keeps the contract", verify(CANNED_WORDS(NULL), false));
    CHECK_I64("not judged", result_of(FACT_DELETE), FACT_SKIPPED);
    CHECK_TEXT("where it is", facts.entries[FACT_PUT_BACK].seen,
               "m-1 stays Idle: this provider deletes nothing");
    end();
}

TEST(a_result_has_a_name)
{
    CHECK_TEXT("not tried", fact_result_name(FACT_SKIPPED), "SKIPPED");
    CHECK_TEXT("it holds", fact_result_name(FACT_PASS), "PASS");
    CHECK_TEXT("it does not", fact_result_name(FACT_FAIL), "FAIL");
}
