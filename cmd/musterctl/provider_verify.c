/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl provider verify: does a provider keep the contract? */
#include <inttypes.h>
#include <stdio.h>

#include "common/program.h"
#include "common/tables.h"
#include "io/clock.h"
#include "io/fs.h"
#include "musterctl/commands.h"
#include "musterctl/ctl.h"
#include "musterctl/provider_facts.h"
#include "text/ndjson.h"

enum { BLOB_MAX = 16 << 20, SHARD_CAP = 40 };

struct verification {
    struct ctl *ctl;
    struct facts facts;
    const char *address;
    char shard[SHARD_CAP];
    struct buf blob;
    size_t counts[3]; /* by enum fact_result */
    bool dry_run;
};

/* -- before -- */

static enum err settle(struct verification *v)
{
    const struct conf *conf = v->ctl->conf;
    struct option_value ids = conf_list(conf, "id");
    const char *blob = conf_text(conf, "blob"), *shard = conf_text(conf, "shard");

    if (ids.item_count > SPARES_MAX) {
        note_set(&v->ctl->note, "--id: two machines at most");
        return ERR_INVALID;
    }
    v->address = conf_argument(conf, 0);
    v->dry_run = conf_bool(conf, "dry-run");
    snprintf(v->shard, sizeof v->shard, "verify-%016" PRIx64, entropy_u64(entropy_real()));
    v->facts = (struct facts){
        .memory = &v->ctl->memory,
        .shard = shard ? shard : v->shard,
        .shard_given = shard != NULL,
        .cluster = conf_text(conf, "cluster"),
        .wait_ms = conf_number(conf, "wait"),
        .ids = ids.items,
        .id_count = ids.item_count,
        .type = conf_text(conf, "machine-type"),
    };
    /* Newer than what an earlier run under the same --shard left behind. */
    facts_init(&v->facts, (int64_t)clock_wall(clock_real()).ms);
    if (!blob) return ERR_OK;
    enum err err = fs_read_whole(fs_real(), blob, BLOB_MAX, &v->blob);
    if (err) note_set(&v->ctl->note, "--blob %s: %s", blob, err_text(err));
    v->facts.blob = buf_peek(&v->blob);
    return err;
}

/* Before anything is done, and where a pipe does not swallow it. */
static void announce(struct verification *v)
{
    struct facts *facts = &v->facts;
    struct buf text;

    buf_init(&text, PROGRAM_TEXT_MAX);
    for (size_t i = 0; i < facts->spare_count; i++) {
        const struct spare *spare = &facts->spares[i];
        bool created = spare->before == MACHINE_SPECULATIVE, first = i == 0;
        (void)buf_appendf(&text, "%s %s (%s, %g $/h, %s): %s%s%s, and puts it back\n",
                          v->dry_run ? "would work on" : "works on", spare->id, spare->type,
                          spare->price, created ? "Speculative" : "Idle", created ? "creates" : "",
                          created && first ? ", " : "",
                          first || !created ? "configures and drains" : "");
    }
    program_say_problems(v->ctl->call, buf_peek(&text));
    buf_deinit(&text);
}

/* -- after -- */

static enum err print_json(struct verification *v)
{
    struct ndjson json;

    ndjson_begin(&json, &v->ctl->out, NDJSON_LINE);
    ndjson_c_string(&json, STR("address"), v->address);
    ndjson_u64(&json, STR("passed"), v->counts[FACT_PASS]);
    ndjson_u64(&json, STR("failed"), v->counts[FACT_FAIL]);
    ndjson_u64(&json, STR("skipped"), v->counts[FACT_SKIPPED]);
    ndjson_open_array(&json, STR("machines"));
    for (size_t i = 0; i < v->facts.spare_count; i++) {
        const struct spare *spare = &v->facts.spares[i];
        char name[MACHINE_NAME_CAP];
        ndjson_open_object(&json, NDJSON_ITEM);
        ndjson_c_string(&json, STR("id"), spare->id);
        ndjson_c_string(&json, STR("type"), spare->type);
        ndjson_c_string(&json, STR("before"), machine_state_name(spare->before, name));
        ndjson_c_string(&json, STR("after"), spare->after[0] ? spare->after : NULL);
        ndjson_bool(&json, STR("touched"), spare->taken);
        ndjson_close_object(&json);
    }
    ndjson_close_array(&json);
    ndjson_open_array(&json, STR("facts"));
    for (size_t i = 0; i < FACT_COUNT; i++) {
        const struct fact_entry *entry = &v->facts.entries[i];
        ndjson_open_object(&json, NDJSON_ITEM);
        ndjson_c_string(&json, STR("id"), entry->id);
        ndjson_c_string(&json, STR("result"), fact_result_name(entry->result));
        ndjson_c_string(&json, STR("rule"), entry->rule);
        ndjson_c_string(&json, STR("seen"), entry->seen);
        ndjson_close_object(&json);
    }
    ndjson_close_array(&json);
    return ndjson_end(&json);
}

static enum err print(struct verification *v)
{
    static const char *const columns[] = {"FACT", "RESULT", "RULE", "SEEN", NULL};
    struct table table;
    enum err err;

    for (size_t i = 0; i < FACT_COUNT; i++) v->counts[v->facts.entries[i].result]++;
    if (v->ctl->json) return print_json(v);
    table_init(&table, columns, &v->ctl->memory);
    for (size_t i = 0; i < FACT_COUNT; i++) {
        const struct fact_entry *entry = &v->facts.entries[i];
        table_text(&table, entry->id);
        table_text(&table, fact_result_name(entry->result));
        table_text(&table, entry->rule);
        table_text(&table, entry->seen);
    }
    err = table_print(&table, &v->ctl->out);
    if (!err)
        err = ctl_line(v->ctl, "%zu passed, %zu failed, %zu skipped", v->counts[FACT_PASS],
                       v->counts[FACT_FAIL], v->counts[FACT_SKIPPED]);
    return err;
}

static enum err verdict(struct verification *v)
{
    struct note *note = &v->ctl->note;

    if (v->counts[FACT_FAIL] > 0) {
        note_set(note, "%zu of %d facts do not hold", v->counts[FACT_FAIL], FACT_COUNT);
        return ERR_UNSUPPORTED;
    }
    if (v->facts.stopped && !v->dry_run) {
        note_set(note, "not all was tried: %s", v->facts.stopped);
        return ERR_PRECONDITION;
    }
    return ERR_OK;
}

static enum err try_facts(struct verification *v)
{
    struct facts *facts = &v->facts;
    struct note *note = &v->ctl->note;
    enum err err = facts_read(facts, note);

    if (err == ERR_UNAVAILABLE) note_prefix(note, "no provider answers at %s", v->address);
    if (err) return err;
    announce(v);
    if (v->dry_run) facts->stopped = "--dry-run";
    facts_change(facts);
    facts_put_back(facts);
    err = print(v);
    return err ? err : verdict(v);
}

static enum err verify(struct ctl *ctl)
{
    struct verification v = {.ctl = ctl};
    struct probe_options options = {.timeout_ms = conf_number(ctl->conf, "timeout")};
    enum err err;

    buf_init(&v.blob, BLOB_MAX);
    err = settle(&v);
    options.address = v.address;
    options.shard = v.facts.shard;
    if (!err) err = remote_tls_open(ctl->conf, &options.tls, &ctl->note);
    if (!err) err = probe_open(&options, &v.facts.probe, &ctl->note);
    if (!err) err = try_facts(&v);
    probe_close(v.facts.probe);
    tls_context_unref(options.tls);
    buf_deinit(&v.blob);
    return err;
}

static int run_verify(void *context, const struct command_call *call)
{
    return ctl_run_offline(context, call, verify);
}

static const struct command_example verify_examples[] = {
    {"musterctl provider verify 127.0.0.1:7770", "a provider on this machine"},
    {"musterctl provider verify --dry-run p.example:7770", "what would it work on?"},
    {"musterctl provider verify --machine-type m5.large --wait 15m p.example:7770",
     "a cloud's, with time to create one"},
    {NULL, NULL},
};
static const struct command verify_command = {
    .name = "verify",
    .summary = "does a provider keep the contract?",
    .about =
        "Tries the whole contract between shard and provider on a provider that runs, and prints "
        "each fact with what was seen; a fact that does not hold is 1.\n"
        "It works on two machines at most, and says first on which: they must be Speculative or "
        "Idle. The first is created, configured, drained, configured and drained again, and "
        "deleted; the second is created and deleted. An Idle one is configured and drained only. "
        "At the end, after an interrupt too, they are as they were; what cannot be put back is "
        "named. With nothing to work on only the reading facts are tried, and that is 4.",
    .options = &provider_verify_table,
    .arguments = "ADDRESS",
    .arguments_min = 1,
    .arguments_max = 1,
    .examples = verify_examples,
    .exits = BIT(1) | BIT(2) | BIT(4) | BIT(5) | BIT(6),
    .run = run_verify,
};
static const struct command *const provider_children[] = {&verify_command, NULL};
const struct command provider_command = {
    .name = "provider",
    .summary = "tries capacity providers",
    .about = "Talks to a capacity provider itself, not to a coordinator.",
    .children = provider_children,
};
