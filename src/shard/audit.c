/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/audit.h"

#include <stdlib.h>

#include "text/ndjson.h"
#include "text/rfc3339.h"

enum {
    LINE_BYTES_MAX = 32 << 10,
    KEPT_BYTES_MAX = 4 << 10, /* a longer one is not kept */
};

struct audit {
    struct audit_options options;
    struct buf line;
    struct buf kept[AUDIT_KEPT]; /* a ring */
    size_t written;
};

const char *audit_kind_name(enum action_kind kind)
{
    static const char *const names[] = {
        [ACTION_BOOTSTRAP] = "Bootstrap", [ACTION_PROVISION] = "Provision",
        [ACTION_PREEMPT] = "Preempt",     [ACTION_RECLAIM] = "Reclaim",
        [ACTION_DELETE] = "Delete",
    };
    return names[kind];
}

enum err audit_open(const struct audit_options *options, struct audit **ret_audit)
{
    struct audit *audit = calloc(1, sizeof *audit);

    if (!audit) return ERR_NOMEM;
    audit->options = *options;
    buf_init(&audit->line, LINE_BYTES_MAX);
    for (size_t i = 0; i < AUDIT_KEPT; i++) buf_init(&audit->kept[i], KEPT_BYTES_MAX);
    *ret_audit = audit;
    return ERR_OK;
}

void audit_close(struct audit *audit)
{
    if (!audit) return;
    buf_deinit(&audit->line);
    for (size_t i = 0; i < AUDIT_KEPT; i++) buf_deinit(&audit->kept[i]);
    free(audit);
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

bool audit_write(struct audit *audit, const struct effect *effect)
{
    char time[RFC3339_CAP];
    struct ndjson line;
    struct str text;

    wall_text(clock_wall(audit->options.clock), time);
    buf_clear(&audit->line);
    ndjson_begin(&line, &audit->line, NDJSON_LINE);
    ndjson_c_string(&line, STR("time"), time);
    ndjson_c_string(&line, STR("level"), "INFO");
    ndjson_c_string(&line, STR("msg"), "action");
    ndjson_c_string(&line, STR("shard"), audit->options.shard_id);
    ndjson_u64(&line, STR("epoch"), audit->options.epoch);
    ndjson_u64(&line, STR("cycle"), effect->audit.cycle);
    ndjson_c_string(&line, STR("kind"), audit_kind_name(effect->audit.kind));
    ndjson_string(&line, STR("machine"), effect->machine);
    ndjson_string(&line, STR("cluster"), effect->cluster);
    ndjson_c_string(&line, STR("reason"), effect->audit.reason);
    ndjson_double(&line, STR("grace_seconds"), (double)effect->audit.grace_ms / 1000);
    ndjson_c_string(&line, STR("outcome"), action_outcome_name(effect->audit.outcome));
    if (effect->audit.error.len) ndjson_string(&line, STR("error"), effect->audit.error);
    if (ndjson_end(&line)) return false;
    text = str_of(audit->line.data, audit->line.len - 1);
    audit_keep(audit, text);
    return !audit->options.events || !events_write(audit->options.events, EVENT_KEEP, text);
}
