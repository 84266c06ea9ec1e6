/* SPDX-License-Identifier: Apache-2.0 */
/* Writes machines and roll-ups as lines of JSON that document_read.c reads. */
#include "model/metadata.h"
#include "shard/plan/document.h"

static enum err write_amount(void *line, struct str name, struct str quantity)
{
    ndjson_string(line, name, quantity);
    return ERR_OK;
}

static void write_sum(struct ndjson *line, struct str key, const struct dimensions *dimensions,
                      const struct resource_sum *sum)
{
    ndjson_open_object(line, key);
    (void)resource_sum_each(dimensions, sum, write_amount, line); /* `line` keeps the first error */
    ndjson_close_object(line);
}

static void write_resources(struct ndjson *line, struct str key,
                            const struct dimensions *dimensions, const struct resources *resources)
{
    struct resource_sum sum;

    if (!resources->mask) return;
    resource_sum_clear(&sum);
    resource_sum_add(&sum, resources);
    write_sum(line, key, dimensions, &sum);
}

static void write_text(struct ndjson *line, struct str key, struct str text)
{
    if (text.len) ndjson_string(line, key, text);
}

static void write_pairs(struct ndjson *line, struct str key, const struct label *pairs,
                        size_t count)
{
    if (!count) return;
    ndjson_open_object(line, key);
    for (size_t i = 0; i < count; i++) ndjson_string(line, pairs[i].key, pairs[i].value);
    ndjson_close_object(line);
}

enum err document_write_machine(const struct document_machine *machine, struct arena *arena,
                                const struct dimensions *dimensions, struct buf *out)
{
    const struct machine *m = &machine->machine;
    struct machine_metadata metadata = {m->stamp, m->destination, m->promised};
    struct label pairs[METADATA_MAX];
    char name[MACHINE_NAME_CAP];
    struct ndjson line;
    size_t count;
    enum err err = metadata_encode(arena, &metadata, pairs, &count);

    if (err) return err;
    ndjson_begin(&line, out, NDJSON_LINE);
    ndjson_string(&line, STR("id"), m->id);
    ndjson_c_string(&line, STR("state"), machine_state_name(m->state, name));
    write_text(&line, STR("cluster"), m->cluster);
    write_text(&line, STR("instance_type"), m->attributes.instance_type);
    write_text(&line, STR("zone"), m->attributes.zone);
    if (m->capacity_type)
        ndjson_c_string(&line, STR("capacity_type"), capacity_type_name(m->capacity_type, name));
    ndjson_double(&line, STR("price_per_hour"), m->price_per_hour);
    ndjson_double(&line, STR("interruption_probability"), m->interruption_probability);
    write_resources(&line, STR("resources"), dimensions, &m->resources);
    write_resources(&line, STR("allocatable"), dimensions, &m->allocatable);
    write_pairs(&line, STR("labels"), m->attributes.labels, m->attributes.label_count);
    write_text(&line, STR("last_error"), m->last_error);
    if (m->host_ref.len || m->host_provider.len) {
        ndjson_open_object(&line, STR("host"));
        ndjson_string(&line, STR("provider"), m->host_provider);
        ndjson_string(&line, STR("ref"), m->host_ref);
        ndjson_close_object(&line);
    }
    if (m->stamp.fingerprint.len || m->destination.len || m->promised.cluster.len)
        write_pairs(&line, STR("shard_metadata"), pairs, count);
    if (machine->idle_ms) ndjson_double(&line, STR("idle_seconds"), (double)machine->idle_ms / 1e3);
    return ndjson_end(&line);
}

static void write_profile(struct ndjson *line, const struct profile *profile)
{
    ndjson_i64(line, STR("priority"), profile->priority);
    ndjson_u64(line, STR("interruption_penalty_bucket"), profile->interruption_bucket);
    ndjson_u64(line, STR("reclamation_penalty_bucket"), profile->reclamation_bucket);
    ndjson_open_array(line, STR("requirements"));
    for (size_t i = 0; i < profile->requirement_count; i++) {
        const struct requirement *r = &profile->requirements[i];

        ndjson_open_object(line, NDJSON_ITEM);
        ndjson_string(line, STR("key"), r->key);
        ndjson_c_string(line, STR("operator"), operator_name(r->op));
        ndjson_open_array(line, STR("values"));
        for (size_t v = 0; v < r->value_count; v++) ndjson_string(line, NDJSON_ITEM, r->values[v]);
        ndjson_close_array(line);
        ndjson_close_object(line);
    }
    ndjson_close_array(line);
    ndjson_open_array(line, STR("spread"));
    for (size_t i = 0; i < profile->spread_count; i++) {
        const struct spread *s = &profile->spreads[i];

        ndjson_open_object(line, NDJSON_ITEM);
        ndjson_string(line, STR("topology_key"), s->key);
        ndjson_i64(line, STR("max_skew"), s->max_skew);
        ndjson_c_string(line, STR("when_unsatisfiable"),
                        s->when == SPREAD_DO_NOT_SCHEDULE ? "DoNotSchedule" : "ScheduleAnyway");
        ndjson_close_object(line);
    }
    ndjson_close_array(line);
}

enum err document_write_cluster(const struct document_cluster *cluster,
                                const struct dimensions *dimensions, struct buf *out)
{
    struct ndjson line;

    ndjson_begin(&line, out, NDJSON_LINE);
    ndjson_string(&line, STR("cluster_id"), cluster->cluster);
    ndjson_open_array(&line, STR("needs"));
    for (size_t i = 0; i < cluster->need_count; i++) {
        const struct need *need = &cluster->needs[i];

        ndjson_open_object(&line, NDJSON_ITEM);
        write_profile(&line, &need->profile);
        write_text(&line, STR("group"), need->group);
        if (need->arrival_unix_ns)
            ndjson_i64(&line, STR("arrival_unix_nanos"), need->arrival_unix_ns);
        write_sum(&line, STR("aggregate_resources"), dimensions, &need->aggregate);
        write_resources(&line, STR("min_unit"), dimensions, &need->min_unit);
        ndjson_close_object(&line);
    }
    ndjson_close_array(&line);
    return ndjson_end(&line);
}
