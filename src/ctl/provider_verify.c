/* SPDX-License-Identifier: Apache-2.0 */
/* Verifies a provider: chooses the machines to test, and prints the observed facts and the result.
 * One thread. */
#include "ctl/inspect.h"

#include <inttypes.h>
#include <stdio.h>

#include "io/clock.h"
#include "io/fs.h"

enum { BLOB_MAX = 16 << 20, SHARD_CAP = 40, ANNOUNCEMENT_MAX = 64 * 1024 };

/* Prints on stderr what will be changed, before any change, so that a pipe does not hide it. */
static void verify_announce(struct ctl *ctl, const struct provider_facts *facts, bool dry_run)
{
    struct buf text;

    buf_init(&text, ANNOUNCEMENT_MAX);
    for (size_t i = 0; i < facts->spare_count; i++) {
        const struct spare *spare = &facts->spares[i];
        bool created = spare->before == MACHINE_SPECULATIVE, first = i == 0;
        (void)buf_appendf(&text, "%s %s (%s, %g $/h, %s): %s%s%s, and puts it back\n",
                          dry_run ? "would work on" : "works on", spare->id, spare->type,
                          spare->price, created ? "Speculative" : "Idle", created ? "creates" : "",
                          created && first ? ", " : "",
                          first || !created ? "configures and drains" : "");
    }
    ctl->warn(ctl->call, buf_peek(&text));
    buf_deinit(&text);
}

static void verify_json(struct ctl *ctl, const struct provider_facts *facts, const char *address,
                        const size_t counts[FACT_RESULTS])
{
    struct ndjson *json = ctl_json_begin(ctl);

    ndjson_c_string(json, STR("address"), address);
    ndjson_u64(json, STR("passed"), counts[FACT_PASS]);
    ndjson_u64(json, STR("failed"), counts[FACT_FAIL]);
    ndjson_u64(json, STR("skipped"), counts[FACT_SKIPPED]);
    ndjson_open_array(json, STR("machines"));
    for (size_t i = 0; i < facts->spare_count; i++) {
        const struct spare *spare = &facts->spares[i];
        char name[MACHINE_NAME_CAP];
        ndjson_open_object(json, NDJSON_ITEM);
        ndjson_c_string(json, STR("id"), spare->id);
        ndjson_c_string(json, STR("type"), spare->type);
        ndjson_c_string(json, STR("before"), machine_state_name(spare->before, name));
        ndjson_c_string(json, STR("after"), spare->after[0] ? spare->after : NULL);
        ndjson_bool(json, STR("touched"), spare->taken);
        ndjson_close_object(json);
    }
    ndjson_close_array(json);
    ndjson_open_array(json, STR("facts"));
    for (size_t i = 0; i < FACT_COUNT; i++) {
        const struct fact_entry *entry = &facts->entries[i];
        ndjson_open_object(json, NDJSON_ITEM);
        ndjson_c_string(json, STR("id"), entry->id);
        ndjson_c_string(json, STR("result"), fact_result_name(entry->result));
        ndjson_c_string(json, STR("rule"), entry->rule);
        ndjson_c_string(json, STR("seen"), entry->seen);
        ndjson_close_object(json);
    }
    ndjson_close_array(json);
    ctl_json_end(ctl);
}

static void verify_table(struct ctl *ctl, const struct provider_facts *facts,
                         const size_t counts[FACT_RESULTS])
{
    struct text_table table;

    table_init(&table, TABLE_COLUMNS("FACT", "RESULT", "RULE", "SEEN"), &ctl->memory);
    for (size_t i = 0; i < FACT_COUNT; i++) {
        const struct fact_entry *entry = &facts->entries[i];
        table_text(&table, entry->id);
        table_text(&table, fact_result_name(entry->result));
        table_text(&table, entry->rule);
        table_text(&table, entry->seen);
    }
    ctl_print_table(ctl, &table);
    ctl_line(ctl, "%zu passed, %zu failed, %zu skipped", counts[FACT_PASS], counts[FACT_FAIL],
             counts[FACT_SKIPPED]);
}

enum err provider_verify_facts(struct ctl *ctl, struct provider_facts *facts, const char *address,
                               bool dry_run)
{
    size_t counts[FACT_RESULTS] = {0};
    enum err err = facts_read(facts, &ctl->note);

    if (err == ERR_UNAVAILABLE) note_prefix(&ctl->note, "no provider answers at %s", address);
    if (err) return err;
    verify_announce(ctl, facts, dry_run);
    if (dry_run) facts->stopped = "--dry-run";
    facts_change(facts);
    facts_put_back(facts);
    for (size_t i = 0; i < FACT_COUNT; i++) counts[facts->entries[i].result]++;
    if (ctl->json)
        verify_json(ctl, facts, address, counts);
    else
        verify_table(ctl, facts, counts);
    if (counts[FACT_FAIL] > 0)
        return ctl_fail(ctl, ERR_UNSUPPORTED, "%zu of %d facts do not hold", counts[FACT_FAIL],
                        FACT_COUNT);
    if (facts->stopped && !dry_run)
        return ctl_fail(ctl, ERR_PRECONDITION, "not all was tried: %s", facts->stopped);
    return ERR_OK;
}

/* -- the command -- */

static enum err verify_settle(struct ctl *ctl, struct provider_facts *facts, struct buf *blob)
{
    const struct conf *conf = ctl->conf;
    struct option_value ids = conf_list(conf, "id");
    const char *file = conf_text(conf, "blob"), *shard = conf_text(conf, "shard");
    char *drawn = arena_alloc(&ctl->memory, SHARD_CAP);
    enum err err = ERR_OK;

    if (ids.item_count > SPARES_MAX)
        return ctl_fail(ctl, ERR_INVALID, "--id: two machines at most");
    if (!drawn) return ERR_NOMEM;
    snprintf(drawn, SHARD_CAP, "verify-%016" PRIx64, entropy_u64(entropy_real()));
    *facts = (struct provider_facts){
        .memory = &ctl->memory,
        .shard = shard ? shard : drawn,
        .shard_given = shard != NULL,
        .cluster = conf_text(conf, "cluster"),
        .wait_ms = conf_number(conf, "wait"),
        .ids = ids.items,
        .id_count = ids.item_count,
        .type = conf_text(conf, "machine-type"),
    };
    /* The epoch is the time, and so newer than that of an earlier run with the same --shard. */
    facts_init(facts, (int64_t)clock_wall(clock_real()).ms);
    if (file) err = fs_read_whole(fs_real(), file, BLOB_MAX, blob);
    if (err) return ctl_fail(ctl, err, "--blob %s: %s", file, err_text(err));
    facts->blob = buf_peek(blob);
    return ERR_OK;
}

enum err provider_verify(struct ctl *ctl)
{
    struct probe_options options = {.address = conf_argument(ctl->conf, 0),
                                    .timeout_ms = conf_number(ctl->conf, "timeout"),
                                    .dial_timeout_ms = remote_dial_ms(ctl->conf, 1)};
    struct provider_facts facts = {.probe = NULL};
    struct buf blob;
    enum err err;

    buf_init(&blob, BLOB_MAX);
    err = verify_settle(ctl, &facts, &blob);
    options.shard = facts.shard;
    if (!err) err = remote_tls_open(ctl->conf, &options.tls, &ctl->note);
    if (!err) err = probe_open(&options, &facts.probe, &ctl->note);
    if (!err)
        err = provider_verify_facts(ctl, &facts, options.address, conf_bool(ctl->conf, "dry-run"));
    probe_listing_deinit(&facts.listing);
    probe_close(facts.probe);
    tls_context_unref(options.tls);
    buf_deinit(&blob);
    return err;
}
