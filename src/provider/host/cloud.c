/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated cloud: the machines that the catalogue sells, and the events of machines in use.
 * Loop's thread. Only a machine with an operation, a host or a repair has a record. The heap of
 * events has all records. */
#include "provider/host/cloud.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/heap.h"
#include "base/map.h"
#include "base/prng.h"
#include "io/fs.h"
#include "model/ids.h"
#include "provider/host/catalogue.h"

enum {
    FILE_EVERY_MS = 1000,
    LOSS_EVERY_MS = 3600 * 1000, /* catalogues state the chance of an interruption per hour */
    ZONES_MAX = CATALOGUE_POOLS_MAX * CATALOGUE_ZONES_MAX * 4,
    IN_USE_MAX = 8 << 20,
    RACK_TEXT_CAP = 160,
};

struct pool_zone {
    struct str key;                    /* such as "<pool>-<zone>" */
    const struct catalogue_pool *pool; /* NULL: the machines are not sold any more */
    struct str zone;
    uint32_t sold;    /* the cloud sells machines 1 to `sold` */
    uint32_t offered; /* machines 1 to `offered` were reported as SEEN_OFFERED */
    uint32_t hosts;   /* machines with a host or an accepted Create */
};
struct cloud_machine { /* a machine in use */
    struct heap_node event;
    struct str id;
    struct pool_zone *zone;
    uint32_t number;
    bool hosted;                       /* counted in zone->hosts */
    bool lost;                         /* the cloud takes the machine back at time `loss` */
    struct operation_ticket operation; /* number 0: none */
    enum operation_kind kind;
    mono_time until; /* end of the operation or of the repair */
    mono_time loss;  /* when the machine is lost, or the loss is drawn again */
};
struct cloud {
    struct backend backend;
    struct cloud_options options;
    struct log_source log;
    struct catalogue *catalogue;
    struct prng prng;
    struct map zones, in_use; /* struct pool_zone, struct cloud_machine */
    struct heap events;
    struct timer event_timer, file_timer;
    struct fs_info file;
};

static struct cloud *cloud_of(struct backend *backend)
{
    return CONTAINER_OF(backend, struct cloud, backend);
}

static mono_time cloud_now(const struct cloud *cloud)
{
    return loop_now(cloud->options.io->loop);
}

/* --- pools and machines --- */

static void machine_id_write(const struct pool_zone *zone, uint32_t number, char id[ID_MAX + 1])
{
    snprintf(id, ID_MAX + 1, "%.*s-%06u", STR_ARG(zone->key), number);
}

/* Splits "<pool>-<zone>-<number>". False: the id is not of this form. */
static bool machine_id_read(struct str id, struct str *ret_key, uint32_t *ret_number)
{
    size_t dash = id.len;
    uint64_t number;

    while (dash > 0 && id.at[dash - 1] != '-') dash--;
    if (dash == 0 || str_to_u64(str_tail(id, dash), &number) || number == 0 ||
        number > CATALOGUE_MACHINES_MAX)
        return false;
    *ret_key = str_of(id.at, dash - 1);
    *ret_number = (uint32_t)number;
    return true;
}

/* NULL: no memory, or too many zones. */
static struct pool_zone *zone_make(struct cloud *cloud, struct str key)
{
    struct pool_zone *zone = map_make(&cloud->zones, key, sizeof *zone);

    if (zone) zone->key = str_of(zone + 1, key.len);
    return zone;
}

static enum err machine_use(struct cloud *cloud, struct str id, struct cloud_machine **ret_machine)
{
    struct cloud_machine *m;
    struct str key;
    uint32_t number;

    if (!machine_id_read(id, &key, &number)) return ERR_NOT_FOUND;
    m = map_make(&cloud->in_use, id, sizeof *m);
    if (!m) return ERR_NOMEM;
    *ret_machine = m;
    if (m->zone) return ERR_OK;
    m->id = str_of(m + 1, id.len);
    m->number = number;
    m->until = m->loss = MONO_NEVER;
    m->zone = zone_make(cloud, key);
    if (m->zone && heap_put(&cloud->events, &m->event, UINT64_MAX) == ERR_OK) return ERR_OK;
    free(map_remove(&cloud->in_use, id));
    return ERR_NOMEM;
}

static void machine_set_hosted(struct cloud_machine *m, bool hosted)
{
    if (hosted && !m->hosted) m->zone->hosts++;
    if (!hosted && m->hosted) m->zone->hosts--;
    m->hosted = hosted;
}

static void machine_schedule(struct cloud *cloud, struct cloud_machine *m)
{
    enum err err = heap_put(&cloud->events, &m->event, mono_min(m->until, m->loss).ms);

    assert(!err); /* an existing heap entry needs no memory */
    timer_start(&cloud->event_timer, (mono_time){heap_peek(&cloud->events)->due});
}

static void machine_report(struct cloud *cloud, enum sighting what, struct str id, const char *why)
{
    struct note note;

    (void)cloud->backend.host->seen(cloud->backend.host, what, id, NULL, str_from(why), &note);
}

/* Makes the machine Speculative. A machine that is no longer sold is removed. */
static void machine_release(struct cloud *cloud, struct cloud_machine *m)
{
    machine_set_hosted(m, false);
    if (m->number > m->zone->sold) machine_report(cloud, SEEN_REMOVED, m->id, "");
    heap_remove(&cloud->events, &m->event);
    free(map_remove(&cloud->in_use, m->id));
}

/* --- repairs and losses --- */

static void machine_repair(struct cloud *cloud, struct cloud_machine *m)
{
    machine_set_hosted(m, false);
    m->operation = (struct operation_ticket){0};
    m->until = mono_after(cloud_now(cloud), cloud->catalogue->repair.least_ms);
    m->loss = MONO_NEVER;
    machine_schedule(cloud, m);
}

/* Decides for the next hour whether and when the cloud takes the machine back. */
static void machine_draw_loss(struct cloud *cloud, struct cloud_machine *m)
{
    const struct catalogue_pool *pool = m->zone->pool;
    double chance = pool ? pool->offer.interruption_probability : 0;
    uint64_t in_ms = LOSS_EVERY_MS;

    m->lost = prng_chance(&cloud->prng, (uint32_t)(chance * CATALOGUE_MILLION + 0.5));
    if (m->lost) in_ms = prng_below(&cloud->prng, LOSS_EVERY_MS);
    m->loss = mono_after(cloud_now(cloud), in_ms);
    machine_schedule(cloud, m);
}

static void machine_end_operation(struct cloud *cloud, struct cloud_machine *m)
{
    static const char *const errors[OPERATION_KINDS] = {
        [OPERATION_CREATE] = "create: insufficient capacity (drawn by the catalogue)",
        [OPERATION_CONFIGURE] = "configure: the node never became ready (drawn by the catalogue)",
        [OPERATION_DRAIN] = "drain: pods did not leave in time (drawn by the catalogue)",
        [OPERATION_DELETE] = "delete: the host did not go away (drawn by the catalogue)",
    };
    const struct catalogue_pool *pool = m->zone->pool;
    struct operation_end end = {.host = STR_EMPTY, .error = STR_EMPTY};

    end.failed = pool && prng_chance(&cloud->prng, pool->behaviour.fails[m->kind]);
    if (end.failed) end.error = str_from(errors[m->kind]);
    cloud->backend.host->done(cloud->backend.host, m->operation, &end);
    m->operation = (struct operation_ticket){0};
    m->until = MONO_NEVER;
    if (end.failed)
        machine_repair(cloud, m);
    else if (m->kind == OPERATION_DELETE)
        machine_release(cloud, m);
    else if (m->kind == OPERATION_CREATE)
        machine_draw_loss(cloud, m);
    else
        machine_schedule(cloud, m);
}

static void machine_event(struct cloud *cloud, struct cloud_machine *m)
{
    if (!mono_due(m->until, cloud_now(cloud))) {
        if (!m->lost) {
            machine_draw_loss(cloud, m);
            return;
        }
        machine_report(cloud, SEEN_FAILED, m->id, "interrupted: the provider took it back");
        machine_repair(cloud, m);
    } else if (m->operation.number) {
        machine_end_operation(cloud, m);
    } else {
        machine_report(cloud, SEEN_RECLAIMED, m->id, "");
        machine_release(cloud, m);
    }
}

static void on_events(struct timer *timer)
{
    struct cloud *cloud = CONTAINER_OF(timer, struct cloud, event_timer);
    uint64_t now = cloud_now(cloud).ms;
    struct heap_node *first;

    while ((first = heap_peek(&cloud->events)) != NULL && first->due <= now)
        machine_event(cloud, CONTAINER_OF(first, struct cloud_machine, event));
    if (first) timer_start(timer, (mono_time){first->due});
}

/* --- offered machines --- */

static enum err zone_offer(struct cloud *cloud, struct pool_zone *zone, struct note *note)
{
    struct label labels[OFFER_LABELS_MAX];
    struct offer offer = zone->pool->offer;
    char rack[RACK_TEXT_CAP], id[ID_MAX + 1];
    size_t own = offer.label_count;
    enum err err = ERR_OK;

    for (size_t i = 0; i < own; i++) labels[i] = offer.labels[i];
    if (cloud->catalogue->region.len > 0)
        labels[own++] =
            (struct label){STR("topology.kubernetes.io/region"), cloud->catalogue->region};
    offer.labels = labels;
    offer.zone = zone->zone;
    for (uint32_t number = 1; number <= zone->sold && !err; number++) {
        offer.label_count = own;
        if (zone->pool->rack_size > 0) {
            snprintf(rack, sizeof rack, "%.*s-r%u", STR_ARG(zone->zone),
                     (number - 1) / zone->pool->rack_size + 1);
            labels[offer.label_count++] =
                (struct label){STR("topology.bigfleet/rack"), str_from(rack)};
        }
        machine_id_write(zone, number, id);
        err = cloud->backend.host->seen(cloud->backend.host, SEEN_OFFERED, str_from(id), &offer,
                                        STR_EMPTY, note);
    }
    return err;
}

static enum err zone_stock(struct cloud *cloud, size_t pool, size_t place, struct note *note)
{
    const struct catalogue_pool *p = &cloud->catalogue->pools[pool];
    uint64_t count = catalogue_count(cloud->catalogue, cloud->options.seed_count, pool, place);
    char key[ID_MAX + 1];
    struct pool_zone *zone;

    snprintf(key, sizeof key, "%.*s-%.*s", STR_ARG(p->name), STR_ARG(p->zones[place]));
    zone = zone_make(cloud, str_from(key));
    if (!zone) return ERR_NOMEM;
    zone->pool = p;
    zone->zone = p->zones[place];
    zone->sold = (uint32_t)count;
    return zone_offer(cloud, zone, note);
}

static enum err cloud_stock(struct cloud *cloud, struct note *note)
{
    const struct catalogue *c = cloud->catalogue;
    struct map_entry *at;
    char id[ID_MAX + 1];
    enum err err = ERR_OK;

    for (size_t cursor = 0; (at = map_next(&cloud->zones, &cursor)) != NULL;) {
        struct pool_zone *zone = at->value;

        zone->offered = (uint32_t)max_u64(zone->offered, zone->sold);
        zone->pool = NULL;
        zone->sold = 0;
    }
    for (size_t pool = 0; pool < c->pool_count; pool++)
        for (size_t zone = 0; !err && zone < c->pools[pool].zone_count; zone++)
            err = zone_stock(cloud, pool, zone, note);
    for (size_t cursor = 0; !err && (at = map_next(&cloud->zones, &cursor)) != NULL;) {
        struct pool_zone *zone = at->value;

        for (uint32_t number = zone->sold + 1; number <= zone->offered; number++) {
            machine_id_write(zone, number, id);
            /* A machine in use is removed later, when it is released. */
            if (!map_get(&cloud->in_use, str_from(id)))
                machine_report(cloud, SEEN_REMOVED, str_from(id), "");
        }
        zone->offered = zone->sold;
    }
    return err;
}

/* --- the catalogue file --- */

static enum err cloud_read_catalogue(struct cloud *cloud, struct note *note)
{
    const char *path = cloud->options.path;
    struct str text = catalogue_usual();
    struct catalogue *next;
    struct buf bytes;
    enum err err = ERR_OK;

    buf_init(&bytes, CATALOGUE_BYTES_MAX);
    if (path) {
        err = fs_stat(cloud->options.io->fs, path, &cloud->file);
        if (!err) err = fs_read_whole(cloud->options.io->fs, path, CATALOGUE_BYTES_MAX, &bytes);
        if (err) note_set(note, "%s", err_text(err));
        text = buf_peek(&bytes);
    }
    if (!err) err = catalogue_open(text, &next, note);
    if (err && path) note_prefix(note, "catalogue %s", path);
    buf_deinit(&bytes);
    if (err) return err;
    catalogue_close(cloud->catalogue);
    cloud->catalogue = next;
    prng_seed(&cloud->prng, next->seed);
    return ERR_OK;
}

static enum err cloud_reload(struct backend *backend, struct note *note)
{
    struct cloud *cloud = cloud_of(backend);
    enum err err = cloud_read_catalogue(cloud, note);

    return err ? err : cloud_stock(cloud, note);
}

static void on_file_timer(struct timer *timer)
{
    struct cloud *cloud = CONTAINER_OF(timer, struct cloud, file_timer);
    const char *path = cloud->options.path;
    struct fs_info now;
    struct note note;
    enum err err;

    timer_start_in(timer, FILE_EVERY_MS);
    if (fs_stat(cloud->options.io->fs, path, &now) || fs_same(&now, &cloud->file)) return;
    err = cloud_reload(&cloud->backend, &note);
    cloud->file = now; /* log a wrong file only once */
    if (err)
        LOG_ERROR(&cloud->log, "changed catalogue is invalid: the old one stays in force",
                  log_text("why", note.text));
    else
        LOG_INFO(&cloud->log, "catalogue reloaded", log_text("file", path));
}

/* --- the backend --- */

static enum err cloud_check(struct backend *backend, enum operation_kind kind,
                            const struct backend_machine *machine, struct note *note)
{
    const struct cloud *cloud = cloud_of(backend);
    const struct pool_zone *zone;
    struct str key;
    uint32_t number;

    if (!machine_id_read(machine->id, &key, &number)) return ERR_OK;
    zone = map_get(&cloud->zones, key);
    if (!zone || !zone->pool) return ERR_OK;
    if (kind == OPERATION_DELETE && !zone->pool->deletes)
        return note_fail(note, ERR_UNSUPPORTED, "machines of pool %.*s stay",
                         STR_ARG(zone->pool->name));
    if (kind == OPERATION_CREATE && zone->pool->quota < CATALOGUE_MILLION &&
        ((uint64_t)zone->hosts + 1) * CATALOGUE_MILLION > (uint64_t)zone->sold * zone->pool->quota)
        return note_fail(note, ERR_FULL, "quota of pool %.*s in %.*s is used up",
                         STR_ARG(zone->pool->name), STR_ARG(zone->zone));
    return ERR_OK;
}

static void cloud_adopt(struct backend *backend, const struct backend_machine *machine)
{
    struct cloud *cloud = cloud_of(backend);
    struct cloud_machine *m;

    if (machine_use(cloud, machine->id, &m)) return;
    if (machine->state == MACHINE_FAILED) {
        machine_repair(cloud, m);
    } else {
        machine_set_hosted(m, true);
        if (machine->host.len > 0) machine_draw_loss(cloud, m);
    }
}

static void cloud_accepted(struct backend *backend, enum operation_kind kind, struct str machine)
{
    struct cloud_machine *m;

    if (kind == OPERATION_CREATE && machine_use(cloud_of(backend), machine, &m) == ERR_OK)
        machine_set_hosted(m, true);
}

static enum err cloud_start(struct backend *backend, const struct backend_operation *operation,
                            struct note *note)
{
    struct cloud *cloud = cloud_of(backend);
    const struct catalogue_span *span;
    struct cloud_machine *m;
    uint64_t in_ms = 0;
    enum err err = machine_use(cloud, operation->machine.id, &m);

    if (err == ERR_NOT_FOUND) note_set(note, "the catalogue has no such machine");
    if (err) return err;
    if (m->zone->pool) {
        span = &m->zone->pool->behaviour.latency[operation->kind];
        in_ms = prng_between(&cloud->prng, span->least_ms, span->most_ms);
    }
    if (operation->kind == OPERATION_DRAIN) in_ms = min_u64(in_ms, operation->grace_ms);
    m->operation = operation->ticket;
    m->kind = operation->kind;
    m->until = mono_after(cloud_now(cloud), in_ms);
    machine_schedule(cloud, m);
    return ERR_OK;
}

static void cloud_ready(struct backend *backend)
{
    struct cloud *cloud = cloud_of(backend);
    struct note note = {.text = ""};
    enum err err = cloud_stock(cloud, &note);

    if (err)
        LOG_ERROR(&cloud->log, "not all machines of the catalogue could be offered",
                  log_err("err", err), log_text("why", note.text));
    if (cloud->options.path) timer_start_in(&cloud->file_timer, FILE_EVERY_MS);
}

static void cloud_close(struct backend *backend)
{
    struct cloud *cloud = cloud_of(backend);

    timer_deinit(&cloud->file_timer);
    timer_deinit(&cloud->event_timer);
    heap_deinit(&cloud->events);
    map_free(&cloud->in_use);
    map_free(&cloud->zones);
    catalogue_close(cloud->catalogue);
    free(cloud);
}

static const struct backend_ops cloud_ops = {
    .name = "catalogue",
    .ignores_offers = true,
    .check = cloud_check,
    .accepted = cloud_accepted,
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
    enum err err;

    if (!cloud) return ERR_NOMEM;
    cloud->backend.ops = &cloud_ops;
    cloud->options = *options;
    if (options->log) cloud->log = *options->log;
    map_init(&cloud->zones, ZONES_MAX, entropy_u64(options->io->entropy));
    map_init(&cloud->in_use, IN_USE_MAX, entropy_u64(options->io->entropy));
    heap_init(&cloud->events, IN_USE_MAX);
    err = timer_init(&cloud->file_timer, options->io->loop, on_file_timer);
    if (!err) err = timer_init(&cloud->event_timer, options->io->loop, on_events);
    if (!err) err = cloud_read_catalogue(cloud, note);
    if (err) {
        cloud_close(&cloud->backend);
        return err;
    }
    *ret_backend = &cloud->backend;
    return ERR_OK;
}
