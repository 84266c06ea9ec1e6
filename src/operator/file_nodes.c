/* SPDX-License-Identifier: Apache-2.0 */
/* Writes nodes.json, the machines and hints as the shard reported them, shortly after a change.
 * Runs on the loop's thread; another thread writes the file. */
#include <stdlib.h>

#include "operator/file_internal.h"
#include "text/ndjson.h"

enum {
    NODES_BYTES_MAX = 256 << 20,
    NODES_MODE = 0644,
};

static void nodes_write_pairs(struct ndjson *w, struct str key, const struct label *pairs,
                              size_t count)
{
    ndjson_open_object(w, key);
    for (size_t i = 0; i < count; i++) ndjson_string(w, pairs[i].key, pairs[i].value);
    ndjson_close_object(w);
}

static void nodes_write_node(struct ndjson *w, const struct cluster_node *node)
{
    char name[MACHINE_NAME_CAP];

    ndjson_open_object(w, NDJSON_ITEM);
    ndjson_string(w, STR("machine"), node->machine_id);
    ndjson_c_string(w, STR("phase"), node_phase_name(node->phase));
    ndjson_c_string(w, STR("state"), machine_state_name(node->state, name));
    ndjson_string(w, STR("provider_id"), node->provider_id);
    if (node->node_name.len) ndjson_string(w, STR("node_name"), node->node_name);
    if (node->last_error.len) ndjson_string(w, STR("error"), node->last_error);
    nodes_write_pairs(w, STR("labels"), node->labels, node->label_count);
    nodes_write_pairs(w, STR("resources"), node->resources, node->resource_count);
    ndjson_close_object(w);
}

static void nodes_write_hint(struct ndjson *w, const struct received_hint *hint)
{
    static const char *const words[] = {"", "NONE", "LOW", "MEDIUM", "HIGH"};
    size_t word = hint->confidence < ARRAY_LEN(words) ? hint->confidence : 0;

    ndjson_open_object(w, NDJSON_ITEM);
    ndjson_string(w, STR("key"), hint->key);
    ndjson_u64(w, STR("count"), hint->count);
    ndjson_c_string(w, STR("confidence"), words[word]);
    ndjson_double(w, STR("cost_per_hour"), hint->cost_per_hour);
    ndjson_close_object(w);
}

static enum err nodes_write(struct file_source *f, struct buf *out)
{
    const struct map_entry *hint;
    const struct cluster_node *node;
    struct ndjson w;
    size_t cursor = 0;

    ndjson_begin(&w, out, NDJSON_LINE);
    ndjson_string(&w, STR("cluster"), f->around->cluster);
    ndjson_u64(&w, STR("written_unix_ms"), clock_wall(f->io->clock).ms);
    ndjson_open_array(&w, STR("nodes"));
    while ((node = nodes_next(f->around->nodes, &cursor))) nodes_write_node(&w, node);
    ndjson_close_array(&w);
    ndjson_open_array(&w, STR("available"));
    for (cursor = 0; (hint = map_next(&f->hints, &cursor)) != NULL;)
        nodes_write_hint(&w, hint->value);
    ndjson_close_array(&w);
    return ndjson_end(&w);
}

static void file_nodes_on_settled(struct timer *timer)
{
    struct file_source *f = CONTAINER_OF(timer, struct file_source, settle);
    enum err err = nodes_write(f, side_file_room(f->nodes));

    if (err)
        LOG_ERROR(f->around->log, "nodes.json could not be written", log_err("err", err));
    else
        side_file_write(f->nodes, 0);
}

/* Schedules a write of nodes.json. Before the shard has reported all machines, the file of the
 * previous process stays. */
void file_nodes_whole(struct demand_source *source)
{
    struct file_source *f = CONTAINER_OF(source, struct file_source, source);

    if (f->whole && !timer_running(&f->settle)) timer_start_in(&f->settle, FILE_SETTLE_MS);
}

/* The shard reports all machines before it acknowledges a roll-up, so all machines are known. */
void file_taken(struct demand_source *source, uint64_t)
{
    struct file_source *f = CONTAINER_OF(source, struct file_source, source);

    if (f->whole) return;
    f->whole = true;
    file_nodes_whole(source);
}

void file_node_changed(struct demand_source *source, struct str)
{
    file_nodes_whole(source);
}

/* A full table drops its oldest hint. */
void file_available(struct demand_source *source, const struct available *given)
{
    struct file_source *f = CONTAINER_OF(source, struct file_source, source);
    struct received_hint *hint;
    size_t cursor = 0;

    free(map_remove(&f->hints, given->key));
    if (map_count(&f->hints) == HINTS_MAX)
        free(map_remove(&f->hints, map_next(&f->hints, &cursor)->key));
    hint = map_make(&f->hints, given->key, sizeof *hint);
    if (!hint) return; /* without memory the hint is dropped */
    *hint = (struct received_hint){.key = str_of(hint + 1, given->key.len),
                                   .count = given->count,
                                   .confidence = given->confidence,
                                   .cost_per_hour = given->cost_per_hour};
    file_nodes_whole(source);
}

static void file_nodes_on_trouble(void *owner, enum err err, const char *why)
{
    struct file_source *f = owner;

    LOG_ERROR(f->around->log, "nodes.json could not be written", log_err("err", err),
              log_text("why", why));
}

enum err file_nodes_open(struct file_source *f, struct note *note)
{
    struct side_file_options options = {
        .io = f->io,
        .thread = "nodes",
        .directory = f->around->state_dir,
        .path = "nodes.json",
        .bytes_max = NODES_BYTES_MAX,
        .mode = NODES_MODE,
        .on_trouble = file_nodes_on_trouble,
        .owner = f,
    };
    enum err err = timer_init(&f->settle, f->io->loop, file_nodes_on_settled);

    return err ? err : side_file_open(&options, &f->nodes, note);
}

void file_nodes_close(struct file_source *f)
{
    timer_deinit(&f->settle);
    side_file_close(f->nodes);
    f->nodes = NULL;
    map_free(&f->hints);
}
