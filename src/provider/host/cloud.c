/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/host/cloud.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/map.h"
#include "base/prng.h"
#include "io/fs.h"
#include "model/ids.h"
#include "provider/host/cloud_shelf.h"

enum {
    TICK_MS = 1000, /* single losses, and a look at the file */
    SHELVES_MAX = CATALOGUE_POOLS_MAX * CATALOGUE_ZONES_MAX * 4,
    ERRANDS_MAX = 8 << 20,
    MILLION = 1000000,
    RACK_TEXT_CAP = 160,
};
#define SECONDS_PER_HOUR 3600.0

struct cloud {
    struct backend backend;
    struct cloud_options options;
    struct log_source log;
    struct catalogue *catalogue;
    struct prng prng;
    struct map shelves;
    struct heap errands;
    struct timer errand_timer, tick;
    mono_time *waves; /* when each comes next */
    struct fs_info file;
};

static struct cloud *cloud_of(struct backend *backend)
{
    return CONTAINER_OF(backend, struct cloud, backend);
}

/* --- shelves and units --- */

static void unit_id(const struct cloud_pool *shelf, uint32_t unit, char id[ID_MAX + 1])
{
    snprintf(id, ID_MAX + 1, "%s-%06u", shelf->key, unit + 1);
}

static enum err add_shelf(struct cloud *cloud, struct str key, struct cloud_pool **ret_shelf)
{
    struct cloud_pool *shelf = calloc(1, sizeof *shelf);
    enum err err = ERR_NOMEM;

    if (shelf) shelf->key = str_dup(key);
    if (shelf && shelf->key) err = map_put(&cloud->shelves, str_from(shelf->key), shelf);
    if (!err) {
        *ret_shelf = shelf;
        return ERR_OK;
    }
    if (shelf) free(shelf->key);
    free(shelf);
    return err;
}

static enum err take_shelf(struct cloud *cloud, struct str key, struct cloud_pool **ret_shelf)
{
    *ret_shelf = map_get(&cloud->shelves, key);
    return *ret_shelf ? ERR_OK : add_shelf(cloud, key, ret_shelf);
}

/* "<shelf>-<number>". False: no id of ours. */
static bool read_id(struct str id, struct str *ret_key, uint32_t *ret_unit)
{
    size_t dash = id.len;
    uint64_t number;

    while (dash > 0 && id.at[dash - 1] != '-') dash--;
    if (dash == 0 || str_to_u64(str_tail(id, dash), &number) || number == 0 ||
        number > CATALOGUE_MACHINES_MAX)
        return false;
    *ret_key = str_of(id.at, dash - 1);
    *ret_unit = (uint32_t)number - 1;
    return true;
}

/* --- errands --- */

static void arm(struct cloud *cloud)
{
    const struct heap_node *first = heap_peek(&cloud->errands);

    if (first)
        timer_start(&cloud->errand_timer, (mono_time){first->due});
    else
        timer_stop(&cloud->errand_timer);
}

static void drop_errand(struct cloud *cloud, struct cloud_unit *unit)
{
    if (!unit->errand) return;
    if (unit->errand->operation.number && unit->errand->kind == OPERATION_CREATE)
        unit->errand->shelf->creating--;
    heap_remove(&cloud->errands, &unit->errand->node);
    free(unit->errand);
    unit->errand = NULL;
}

static enum err run_errand(struct cloud *cloud, struct cloud_event errand, uint64_t in_ms)
{
    struct cloud_unit *unit = &errand.shelf->units[errand.unit];
    struct cloud_event *e = malloc(sizeof *e);
    mono_time due = mono_after(loop_now(cloud->options.io->loop), in_ms);
    enum err err = e ? ERR_OK : ERR_NOMEM;

    drop_errand(cloud, unit);
    if (e) *e = errand;
    if (!err) err = heap_put(&cloud->errands, &e->node, due.ms);
    if (err) {
        free(e);
        return err;
    }
    unit->errand = e;
    if (e->operation.number && e->kind == OPERATION_CREATE) e->shelf->creating++;
    arm(cloud);
    return ERR_OK;
}

static void see(struct cloud *cloud, enum sighting what, const struct cloud_pool *shelf,
                uint32_t unit, const char *why)
{
    char id[ID_MAX + 1];
    struct note note;

    unit_id(shelf, unit, id);
    (void)cloud->backend.host->seen(cloud->backend.host, what, str_from(id), NULL, str_from(why),
                                    &note);
}

/* One that is no longer sold goes as soon as nobody has it. */
static void remove_if_unwanted(struct cloud *cloud, struct cloud_pool *shelf, uint32_t unit)
{
    struct cloud_unit *u = &shelf->units[unit];

    if (!u->known || unit < shelf->wanted || u->place || u->errand || u->failed) return;
    u->known = false;
    see(cloud, SEEN_REMOVED, shelf, unit, "");
}

static void begin_repair(struct cloud *cloud, struct cloud_pool *shelf, uint32_t unit)
{
    const struct cloud_event repair = {.shelf = shelf, .unit = unit};

    shelf->units[unit].failed = true;
    shelf_drop_host(shelf, unit);
    if (run_errand(cloud, repair, cloud->catalogue->repair_ms))
        LOG_WARN(&cloud->log, "a failed machine stays failed: no memory for its repair");
}

static void finish(struct cloud *cloud, const struct cloud_event *e)
{
    static const char *const excuses[OPERATION_KINDS] = {
        [OPERATION_CREATE] = "create: insufficient capacity (drawn by the catalogue)",
        [OPERATION_CONFIGURE] = "configure: the node never became ready (drawn by the catalogue)",
        [OPERATION_DRAIN] = "drain: pods did not leave in time (drawn by the catalogue)",
        [OPERATION_DELETE] = "delete: the host did not go away (drawn by the catalogue)",
    };
    const struct catalogue_pool *pool = e->shelf->pool;
    struct operation_end end = {.host = STR_EMPTY, .error = STR_EMPTY};

    end.failed = pool && prng_chance(&cloud->prng, pool->behaviour.fails[e->kind]);
    if (end.failed) end.error = str_from(excuses[e->kind]);
    if (!end.failed && e->kind == OPERATION_CREATE) shelf_add_host(e->shelf, e->unit);
    if (!end.failed && e->kind == OPERATION_DELETE) shelf_drop_host(e->shelf, e->unit);
    cloud->backend.host->done(cloud->backend.host, e->operation, &end);
    if (end.failed)
        begin_repair(cloud, e->shelf, e->unit);
    else
        remove_if_unwanted(cloud, e->shelf, e->unit);
}

static void on_errands(struct timer *timer)
{
    struct cloud *cloud = CONTAINER_OF(timer, struct cloud, errand_timer);
    uint64_t now = loop_now(cloud->options.io->loop).ms;
    struct heap_node *node;

    while ((node = heap_pop_due(&cloud->errands, now)) != NULL) {
        struct cloud_event *e = CONTAINER_OF(node, struct cloud_event, node);
        struct cloud_event done = *e;
        struct cloud_unit *unit = &e->shelf->units[e->unit];

        unit->errand = NULL;
        if (done.operation.number && done.kind == OPERATION_CREATE) done.shelf->creating--;
        free(e);
        if (done.operation.number) {
            finish(cloud, &done);
            continue;
        }
        unit->failed = false;
        see(cloud, SEEN_RECLAIMED, done.shelf, done.unit, "");
        remove_if_unwanted(cloud, done.shelf, done.unit);
    }
    arm(cloud);
}

/* --- losses --- */

static void lose(struct cloud *cloud, struct cloud_pool *shelf, enum sighting how, const char *why)
{
    uint32_t unit = shelf->units[prng_below(&cloud->prng, shelf->host_count)].listed;

    drop_errand(cloud, &shelf->units[unit]);
    shelf_drop_host(shelf, unit);
    see(cloud, how, shelf, unit, why);
    if (how == SEEN_FAILED) begin_repair(cloud, shelf, unit);
    if (how == SEEN_REMOVED) shelf->units[unit].known = false;
    if (how == SEEN_RECLAIMED) remove_if_unwanted(cloud, shelf, unit);
}

/* Each machine with its own chance per hour; a second's share of it. */
static void lose_singles(struct cloud *cloud)
{
    struct map_entry *at;
    size_t cursor = 0;

    while ((at = map_next(&cloud->shelves, &cursor)) != NULL) {
        struct cloud_pool *shelf = at->value;
        double expected, fraction;
        uint32_t count;

        if (!shelf->pool || shelf->host_count == 0) continue;
        expected = shelf->host_count * shelf->pool->offer.interruption_probability /
                   SECONDS_PER_HOUR * (TICK_MS / 1000.0);
        count = (uint32_t)expected;
        fraction = expected - count;
        count += prng_chance(&cloud->prng, (uint32_t)(fraction * MILLION));
        for (; count > 0 && shelf->host_count > 0; count--)
            lose(cloud, shelf, SEEN_FAILED, "interrupted: the provider took it back");
    }
}

static mono_time next_wave(struct cloud *cloud, const struct catalogue_wave *wave)
{
    uint64_t in = prng_between(&cloud->prng, wave->every_ms / 2, wave->every_ms * 3 / 2);
    return mono_after(loop_now(cloud->options.io->loop), in);
}

static void hit(struct cloud *cloud, const struct catalogue_wave *wave,
                const struct catalogue_pool *pool, struct str zone)
{
    char key[ID_MAX + 1];
    struct cloud_pool *shelf;
    uint64_t count;

    snprintf(key, sizeof key, "%.*s-%.*s", STR_ARG(pool->name), STR_ARG(zone));
    shelf = map_get(&cloud->shelves, str_from(key));
    if (!shelf) return;
    count = ((uint64_t)shelf->host_count * wave->fraction + MILLION / 2) / MILLION;
    if (count > 0)
        LOG_INFO(&cloud->log, "a wave takes machines back", log_str("pool", pool->name),
                 log_str("zone", zone), log_u64("machines", count));
    for (; count > 0 && shelf->host_count > 0; count--)
        lose(cloud, shelf, wave->how, "reclaimed: a wave took spot capacity back");
}

static void run_waves(struct cloud *cloud)
{
    const struct catalogue *c = cloud->catalogue;
    mono_time now = loop_now(cloud->options.io->loop);

    for (size_t i = 0; i < c->wave_count; i++) {
        const struct catalogue_wave *wave = &c->waves[i];

        if (!mono_due(cloud->waves[i], now)) continue;
        cloud->waves[i] = next_wave(cloud, wave);
        for (size_t p = 0; p < wave->pool_count; p++) {
            const struct catalogue_pool *pool = &c->pools[wave->pools[p]];
            size_t drawn = (size_t)prng_below(&cloud->prng, pool->zone_count);

            hit(cloud, wave, pool, wave->zone.len > 0 ? wave->zone : pool->zones[drawn]);
        }
    }
}

/* --- what is sold --- */

/* Machines [from, to) of a shelf, told to the host. */
static enum err offer_units(struct cloud *cloud, struct cloud_pool *shelf, uint32_t from,
                            uint32_t to, struct note *note)
{
    struct label labels[OFFER_LABELS_MAX];
    struct offer offer = shelf->pool->offer;
    char rack[RACK_TEXT_CAP], id[ID_MAX + 1];
    size_t own = offer.label_count;
    enum err err = ERR_OK;

    for (size_t i = 0; i < own; i++) labels[i] = offer.labels[i];
    if (cloud->catalogue->region.len > 0)
        labels[own++] =
            (struct label){STR("topology.kubernetes.io/region"), cloud->catalogue->region};
    offer.labels = labels;
    offer.zone = shelf->zone;
    for (uint32_t i = from; i < to && !err; i++) {
        offer.label_count = own;
        if (shelf->pool->rack_size > 0) {
            snprintf(rack, sizeof rack, "%.*s-r%u", STR_ARG(shelf->zone),
                     i / shelf->pool->rack_size + 1);
            labels[offer.label_count++] =
                (struct label){STR("topology.bigfleet/rack"), str_from(rack)};
        }
        unit_id(shelf, i, id);
        err = cloud->backend.host->seen(cloud->backend.host, SEEN_OFFERED, str_from(id), &offer,
                                        STR_EMPTY, note);
        if (!err) shelf->units[i].known = true;
    }
    return err;
}

static enum err stock_shelf(struct cloud *cloud, size_t pool, size_t zone, struct note *note)
{
    const struct catalogue_pool *p = &cloud->catalogue->pools[pool];
    uint64_t count = catalogue_count(cloud->catalogue, cloud->options.seed_count, pool, zone);
    char key[ID_MAX + 1];
    struct cloud_pool *shelf;
    enum err err;

    snprintf(key, sizeof key, "%.*s-%.*s", STR_ARG(p->name), STR_ARG(p->zones[zone]));
    err = take_shelf(cloud, str_from(key), &shelf);
    if (!err) err = shelf_grow(shelf, (uint32_t)count);
    if (err) return err;
    shelf->pool = p;
    shelf->zone = p->zones[zone];
    shelf->wanted = (uint32_t)count;
    return offer_units(cloud, shelf, 0, shelf->wanted, note);
}

/* Everything the catalogue sells is offered; what it no longer sells goes when it can. */
static enum err stock(struct cloud *cloud, struct note *note)
{
    const struct catalogue *c = cloud->catalogue;
    struct map_entry *at;
    size_t cursor = 0;
    enum err err = ERR_OK;

    while ((at = map_next(&cloud->shelves, &cursor)) != NULL) {
        ((struct cloud_pool *)at->value)->pool = NULL;
        ((struct cloud_pool *)at->value)->wanted = 0;
    }
    for (size_t pool = 0; pool < c->pool_count; pool++)
        for (size_t zone = 0; !err && zone < c->pools[pool].zone_count; zone++)
            err = stock_shelf(cloud, pool, zone, note);
    if (err) return err;
    for (cursor = 0; (at = map_next(&cloud->shelves, &cursor)) != NULL;) {
        struct cloud_pool *shelf = at->value;

        for (uint32_t i = shelf->wanted; i < shelf->unit_count; i++)
            remove_if_unwanted(cloud, shelf, i);
    }
    return ERR_OK;
}

/* --- the file --- */

static enum err read_catalogue(struct cloud *cloud, struct catalogue **ret_catalogue,
                               struct note *note)
{
    const char *path = cloud->options.path;
    struct buf text;
    enum err err;

    if (!path) return catalogue_open(catalogue_usual(), ret_catalogue, note);
    buf_init(&text, CATALOGUE_BYTES_MAX);
    err = fs_stat(cloud->options.io->fs, path, &cloud->file);
    if (!err) err = fs_read_whole(cloud->options.io->fs, path, CATALOGUE_BYTES_MAX, &text);
    if (err)
        note_set(note, "%s", err_text(err));
    else
        err = catalogue_open(buf_peek(&text), ret_catalogue, note);
    if (err) note_prefix(note, "catalogue %s", path);
    buf_deinit(&text);
    return err;
}

static enum err take_catalogue(struct cloud *cloud, struct catalogue *own_catalogue)
{
    mono_time *waves = calloc(own_catalogue->wave_count + 1, sizeof *waves);

    if (!waves) return ERR_NOMEM;
    free(cloud->waves);
    cloud->waves = waves;
    catalogue_close(cloud->catalogue);
    cloud->catalogue = own_catalogue;
    prng_seed(&cloud->prng, own_catalogue->seed);
    for (size_t i = 0; i < own_catalogue->wave_count; i++)
        cloud->waves[i] = next_wave(cloud, &own_catalogue->waves[i]);
    return ERR_OK;
}

static enum err cloud_reload(struct backend *backend, struct note *note)
{
    struct cloud *cloud = cloud_of(backend);
    struct catalogue *next;
    enum err err = read_catalogue(cloud, &next, note);

    if (err) return err;
    err = take_catalogue(cloud, next);
    if (err) {
        catalogue_close(next);
        return err;
    }
    return stock(cloud, note);
}

static void look_at_file(struct cloud *cloud)
{
    const char *path = cloud->options.path;
    struct fs_info now;
    struct note note;
    enum err err;

    if (!path || fs_stat(cloud->options.io->fs, path, &now) || fs_same(&now, &cloud->file)) return;
    err = cloud_reload(&cloud->backend, &note);
    cloud->file = now; /* one that is wrong is told once, not every second */
    if (err)
        LOG_ERROR(&cloud->log, "catalogue is wrong, the old one stays", log_text("why", note.text));
    else
        LOG_INFO(&cloud->log, "catalogue reloaded", log_text("file", path));
}

static void on_tick(struct timer *timer)
{
    struct cloud *cloud = CONTAINER_OF(timer, struct cloud, tick);

    look_at_file(cloud);
    lose_singles(cloud);
    run_waves(cloud);
    timer_start_in(timer, TICK_MS);
}

/* --- the backend --- */

static enum err cloud_check(struct backend *backend, enum operation_kind kind,
                            const struct backend_machine *machine, struct note *note)
{
    const struct cloud *cloud = cloud_of(backend);
    const struct cloud_pool *shelf;
    struct str key;
    uint32_t unit;

    if (!read_id(machine->id, &key, &unit)) return ERR_OK;
    shelf = map_get(&cloud->shelves, key);
    if (!shelf || !shelf->pool) return ERR_OK;
    if (kind == OPERATION_DELETE && !shelf->pool->deletes)
        return note_fail(note, ERR_UNSUPPORTED, "machines of pool %.*s stay",
                         STR_ARG(shelf->pool->name));
    if (kind == OPERATION_CREATE && shelf->pool->quota < MILLION &&
        (uint64_t)(shelf->host_count + shelf->creating + 1) * MILLION >
            (uint64_t)shelf->wanted * shelf->pool->quota)
        return note_fail(note, ERR_FULL, "quota of pool %.*s in %.*s is used up",
                         STR_ARG(shelf->pool->name), STR_ARG(shelf->zone));
    return ERR_OK;
}

/* The unit of a machine in the book, also of one that the catalogue has forgotten meanwhile. */
static enum err meet(struct cloud *cloud, struct str id, struct cloud_pool **ret_shelf,
                     uint32_t *ret_unit)
{
    struct str key;
    enum err err = read_id(id, &key, ret_unit) ? ERR_OK : ERR_NOT_FOUND;

    if (!err) err = take_shelf(cloud, key, ret_shelf);
    if (!err) err = shelf_grow(*ret_shelf, *ret_unit + 1);
    if (!err) (*ret_shelf)->units[*ret_unit].known = true;
    return err;
}

static void cloud_adopt(struct backend *backend, const struct backend_machine *machine)
{
    struct cloud *cloud = cloud_of(backend);
    struct cloud_pool *shelf;
    uint32_t unit;

    if (meet(cloud, machine->id, &shelf, &unit)) return;
    if (machine->state == MACHINE_FAILED)
        begin_repair(cloud, shelf, unit);
    else if (machine->host.len > 0)
        shelf_add_host(shelf, unit);
}

static enum err cloud_start(struct backend *backend, const struct backend_operation *operation,
                            struct note *note)
{
    struct cloud *cloud = cloud_of(backend);
    struct cloud_event errand = {.operation = operation->ticket, .kind = operation->kind};
    const struct catalogue_span *span;
    uint64_t in_ms = 0;
    enum err err = meet(cloud, operation->machine.id, &errand.shelf, &errand.unit);

    if (!err && errand.shelf->pool) {
        span = &errand.shelf->pool->behaviour.latency[operation->kind];
        in_ms = prng_between(&cloud->prng, span->least_ms, span->most_ms);
    }
    if (!err && operation->kind == OPERATION_DELETE) /* of a failed one: no repair any more */
        errand.shelf->units[errand.unit].failed = false;
    if (operation->kind == OPERATION_DRAIN) in_ms = min_u64(in_ms, operation->grace_ms);
    if (!err) err = run_errand(cloud, errand, in_ms);
    if (err == ERR_NOT_FOUND) note_set(note, "the catalogue has no such machine");
    return err;
}

static void cloud_ready(struct backend *backend)
{
    struct cloud *cloud = cloud_of(backend);
    struct note note = {.text = ""};
    enum err err = stock(cloud, &note);

    if (err)
        LOG_ERROR(&cloud->log, "not all machines could be offered", log_err("err", err),
                  log_text("why", note.text));
    timer_start_in(&cloud->tick, TICK_MS);
}

static void cloud_close(struct backend *backend)
{
    struct cloud *cloud = cloud_of(backend);
    struct heap_node *node;
    struct map_entry *at;
    size_t cursor = 0;

    timer_deinit(&cloud->tick);
    timer_deinit(&cloud->errand_timer);
    while ((node = heap_pop_due(&cloud->errands, UINT64_MAX)) != NULL)
        free(CONTAINER_OF(node, struct cloud_event, node));
    heap_deinit(&cloud->errands);
    while ((at = map_next(&cloud->shelves, &cursor)) != NULL) {
        struct cloud_pool *shelf = at->value;

        free(shelf->key);
        free(shelf->units);
        free(shelf);
    }
    map_deinit(&cloud->shelves);
    catalogue_close(cloud->catalogue);
    free(cloud->waves);
    free(cloud);
}

static const struct backend_ops ops = {
    .name = "catalogue",
    .check = cloud_check,
    .start = cloud_start,
    .adopt = cloud_adopt,
    .ready = cloud_ready,
    .reload = cloud_reload,
    .close = cloud_close,
};

enum err cloud_open(const struct cloud_options *options, struct backend **ret_backend,
                    struct note *note)
{
    struct cloud *cloud = calloc(1, sizeof *cloud);
    struct catalogue *catalogue = NULL;
    enum err err;

    if (!cloud) return ERR_NOMEM;
    cloud->backend.ops = &ops;
    cloud->options = *options;
    if (options->log) cloud->log = *options->log;
    map_init(&cloud->shelves, SHELVES_MAX, entropy_u64(options->io->entropy));
    heap_init(&cloud->errands, ERRANDS_MAX);
    err = timer_init(&cloud->tick, options->io->loop, on_tick);
    if (!err) err = timer_init(&cloud->errand_timer, options->io->loop, on_errands);
    if (!err) err = read_catalogue(cloud, &catalogue, note);
    if (!err) {
        err = take_catalogue(cloud, catalogue);
        if (err) catalogue_close(catalogue);
    }
    if (err) {
        cloud_close(&cloud->backend);
        return err;
    }
    *ret_backend = &cloud->backend;
    return ERR_OK;
}
