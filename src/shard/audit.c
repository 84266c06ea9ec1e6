/* SPDX-License-Identifier: Apache-2.0 */
/* The audit log: one line of JSON for every action that was executed, suppressed or only reported.
 * Lines go to the sink, and the newest lines stay in memory for people to read. Loop's thread.
 *
 *   {"time":"...","level":"INFO","msg":"action","shard":"s","epoch":3,"cycle":7,"kind":"Reclaim",
 *    "machine":"m-1","cluster":"a","reason":"phase3.excess","grace_seconds":600,
 *    "outcome":"success"}    with "error" at the end if the action failed
 *
 * A line of an operator's order has "msg":"order", "by", and "key" and "value" instead of "machine"
 * if the order names a label. */
#include "shard/shard_internal.h"
#include "text/ndjson.h"
#include "text/rfc3339.h"

enum {
    LINE_BYTES_MAX = 32 << 10,
    KEPT_BYTES_MAX = 4 << 10, /* longer lines are not kept in memory */
};

void audit_open(struct audit *audit)
{
    buf_init(&audit->line, LINE_BYTES_MAX);
    for (size_t i = 0; i < AUDIT_KEPT; i++) buf_init(&audit->kept[i], KEPT_BYTES_MAX);
}

void audit_close(struct audit *audit)
{
    buf_deinit(&audit->line);
    for (size_t i = 0; i < AUDIT_KEPT; i++) buf_deinit(&audit->kept[i]);
}

static void audit_keep(struct audit *audit, struct str line)
{
    struct buf *place = &audit->kept[audit->written % AUDIT_KEPT];

    buf_clear(place);
    if (!buf_append(place, line)) audit->written++;
}

size_t audit_kept(const struct audit *audit)
{
    return audit->written < AUDIT_KEPT ? audit->written : AUDIT_KEPT;
}

struct str audit_line(const struct audit *audit, size_t index)
{
    size_t oldest = audit->written - audit_kept(audit);

    return buf_peek(&audit->kept[(oldest + index) % AUDIT_KEPT]);
}

/* Opens a line with the fields that all lines have. */
static void audit_begin(struct shard *shard, struct ndjson *line, const char *msg)
{
    char time[RFC3339_CAP];

    wall_text(clock_wall(shard->io->clock), time);
    buf_clear(&shard->audit.line);
    ndjson_begin(line, &shard->audit.line, NDJSON_LINE);
    ndjson_c_string(line, STR("time"), time);
    ndjson_c_string(line, STR("level"), "INFO");
    ndjson_c_string(line, STR("msg"), msg);
    ndjson_c_string(line, STR("shard"), shard->id);
    ndjson_u64(line, STR("epoch"), shard->options.epoch);
}

static void audit_end(struct shard *shard, struct ndjson *line)
{
    struct audit *audit = &shard->audit;
    struct str text;

    if (ndjson_end(line)) return;
    text = str_of(audit->line.data, audit->line.len - 1);
    audit_keep(audit, text);
    /* If the sink cannot write the line, the sink counts the loss and makes the process not
     * ready. */
    if (shard->options.audit) (void)events_write(shard->options.audit, EVENT_KEEP, text);
}

void audit_order(struct shard *shard, const struct cordon_entry *entry, uint32_t machines,
                 enum err err)
{
    static const char *const kinds[CORDON_COUNT] = {"Uncordon", "Cordon", "Drain"};
    struct ndjson line;

    audit_begin(shard, &line, "order");
    ndjson_c_string(&line, STR("kind"), kinds[entry->cordon]);
    if (entry->key.len) ndjson_string(&line, STR("key"), entry->key);
    ndjson_string(&line, entry->key.len ? STR("value") : STR("machine"), entry->value);
    ndjson_string(&line, STR("by"), entry->by);
    ndjson_string(&line, STR("reason"), entry->reason);
    ndjson_u64(&line, STR("machines"), machines);
    ndjson_c_string(&line, STR("outcome"), err ? "error" : "success");
    if (err) ndjson_c_string(&line, STR("error"), err_text(err));
    audit_end(shard, &line);
}

void audit_write(struct shard *shard, const struct effect *effect)
{
    struct ndjson line;

    audit_begin(shard, &line, "action");
    ndjson_u64(&line, STR("cycle"), effect->audit.cycle);
    ndjson_c_string(&line, STR("kind"), audit_kind_name(effect->audit.kind));
    ndjson_string(&line, STR("machine"), effect->machine);
    ndjson_string(&line, STR("cluster"), effect->cluster);
    ndjson_c_string(&line, STR("reason"), effect->audit.reason);
    ndjson_double(&line, STR("grace_seconds"), (double)effect->audit.grace_ms / 1000);
    ndjson_c_string(&line, STR("outcome"), action_outcome_name(effect->audit.outcome));
    if (effect->audit.error.len) ndjson_string(&line, STR("error"), effect->audit.error);
    audit_end(shard, &line);
}
