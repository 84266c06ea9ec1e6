/* SPDX-License-Identifier: Apache-2.0 */
/* The page /rests: up to RESTS_SHOWN machines in back-off, as JSON. Decide thread.
 *
 *   {"cycle":7,"resting":1,"all":true,"machines":[{"machine":"m-1","state":"Failed","cluster":"",
 *    "why":"refused","error":"create: ...","refusals":2,"asked":0,"left_seconds":41.5}],
 *    "pools":[{"instance_type":"m5.large","zone":"eu-1a","capacity_type":"Spot","refusals":2,
 *    "left_seconds":41.5,"error":"no stock"}]}
 *
 *   why        refused   the provider or an operator refused; the next try follows the back-off
 *              doubt     a call was not answered; the provider is asked for its outcome
 *              failed    the provider reports Failed; the machine is deleted
 *   resting    machines in back-off among those examined; `all`: every machine was examined
 *   pools      capacity pools that are sold out */
#include "shard/shard_internal.h"
#include "text/ndjson.h"
#include "text/utf8.h"

/* Bytes of the page: a thousand machines with error texts of 512 bytes always fit. */
enum { RESTS_SHOWN = 1000, ERROR_SHOWN = 512 };

const char *resting_why_name(enum resting_why why)
{
    static const char *const names[] = {
        [RESTING_REFUSED] = "refused", [RESTING_DOUBT] = "doubt", [RESTING_FAILED] = "failed"};

    return names[why];
}

static void write_machine(struct ndjson *json, const struct resting *r)
{
    char state[MACHINE_NAME_CAP];

    ndjson_open_object(json, NDJSON_ITEM);
    ndjson_string(json, STR("machine"), r->machine);
    ndjson_c_string(json, STR("state"), machine_state_name(r->state, state));
    ndjson_string(json, STR("cluster"), r->cluster);
    ndjson_c_string(json, STR("why"), resting_why_name(r->rest.why));
    ndjson_string(json, STR("error"), utf8_clip(r->error, ERROR_SHOWN));
    ndjson_u64(json, STR("refusals"), r->rest.refusals);
    ndjson_u64(json, STR("asked"), r->rest.asked);
    ndjson_double(json, STR("left_seconds"), (double)r->rest.left_ms / 1000);
    ndjson_close_object(json);
}

static void write_pool(struct ndjson *json, const struct sold_out_pool *p)
{
    char name[MACHINE_NAME_CAP];

    ndjson_open_object(json, NDJSON_ITEM);
    ndjson_string(json, STR("instance_type"), p->pool.instance_type);
    ndjson_string(json, STR("zone"), p->pool.zone);
    ndjson_c_string(json, STR("capacity_type"), capacity_type_name(p->pool.capacity_type, name));
    ndjson_u64(json, STR("refusals"), p->refusals);
    ndjson_double(json, STR("left_seconds"), (double)p->left_ms / 1000);
    ndjson_string(json, STR("error"), p->error);
    ndjson_close_object(json);
}

enum err rests_write(struct core *core, mono_time now, struct arena *arena, struct buf *into)
{
    struct sold_out_pool *pools;
    size_t pool_count;
    struct resting_view view;
    struct ndjson json;
    enum err err = core_resting(core, RESTS_SHOWN, now, arena, &view);

    if (!err) err = core_pools(core, now, (wall_time){0}, arena, &pools, &pool_count);
    if (err) return err;
    ndjson_begin(&json, into, NDJSON_LINE);
    ndjson_u64(&json, STR("cycle"), core_counts(core)->cycles);
    ndjson_u64(&json, STR("resting"), view.total);
    ndjson_bool(&json, STR("all"), view.all);
    ndjson_open_array(&json, STR("machines"));
    for (size_t i = 0; i < view.count; i++) write_machine(&json, &view.machines[i]);
    ndjson_close_array(&json);
    ndjson_open_array(&json, STR("pools"));
    for (size_t i = 0; i < pool_count; i++) write_pool(&json, &pools[i]);
    ndjson_close_array(&json);
    return ndjson_end(&json);
}
