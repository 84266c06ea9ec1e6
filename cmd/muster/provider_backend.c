/* SPDX-License-Identifier: Apache-2.0 */
/* Each backend has a function that fills its options from the settings. The options point to texts
 * of the settings, which live as long as the process. Runs before the loop. */
#include "muster/provider_backend.h"

#include <stdio.h>

#include "common/tables.h"
#include "provider/host/catalogue.h"
#include "provider/host/cloud.h"
#include "provider/host/command.h"
#include "provider/host/offer.h"
#include "provider/host/process.h"

static enum err backend_open_catalogue(const struct conf *conf, struct io *io,
                                       const struct log_source *log, struct backend **ret_backend,
                                       struct note *note)
{
    const struct cloud_options options = {
        .io = io,
        .log = log,
        .path = conf_text(conf, "catalogue"),
        .seed_count = conf_number(conf, "seed-count"),
    };
    return cloud_open(&options, ret_backend, note);
}

static enum err backend_open_command(const struct conf *conf, struct io *io,
                                     const struct log_source *log, struct backend **ret_backend,
                                     struct note *note)
{
    const struct command_options options = {
        .io = io,
        .log = log,
        .script = conf_text(conf, "command.script"),
        .running_max = (uint32_t)conf_number(conf, "command.running-max"),
        .timeout_ms = conf_number(conf, "command.timeout"),
        .list_every_ms = conf_number(conf, "command.list-every"),
    };
    return command_backend_open(&options, ret_backend, note);
}

static enum err backend_read_resources(const struct conf *conf, struct label *pairs,
                                       size_t *ret_count, struct note *note)
{
    struct option_value list = conf_list(conf, "process.resources");

    if (list.item_count > OFFER_RESOURCES_MAX)
        return note_fail(note, ERR_INVALID, "process.resources: %d at most", OFFER_RESOURCES_MAX);
    for (size_t i = 0; i < list.item_count; i++) {
        size_t at = str_find(list.items[i], '=');
        pairs[i] = (struct label){str_of(list.items[i].at, at), str_tail(list.items[i], at + 1)};
    }
    *ret_count = list.item_count;
    return ERR_OK;
}

static enum err backend_open_process(const struct conf *conf, struct io *io,
                                     const struct log_source *log, struct backend **ret_backend,
                                     struct note *note)
{
    const char *given = conf_text(conf, "process.directory");
    static struct label resources[OFFER_RESOURCES_MAX]; /* static: the backend keeps the labels */
    char directory[FS_PATH_CAP];
    struct process_backend_options options = {
        .io = io,
        .log = log,
        .directory = directory,
        .host_command = conf_text(conf, "process.host"),
        .node_command = conf_text(conf, "process.node"),
        .ready_file = conf_text(conf, "process.ready-file"),
        .ready_within_ms = conf_number(conf, "process.ready-within"),
        .machines = (uint32_t)conf_number(conf, "seed-count"),
        .offer = {.instance_type = str_from(conf_text(conf, "process.type")),
                  .capacity_type = CAPACITY_ON_DEMAND,
                  .resources = resources},
        .cgroups = conf_bool(conf, "process.cgroups"),
    };
    enum err err = backend_read_resources(conf, resources, &options.offer.resource_count, note);

    if (!err) err = offer_check(&options.offer, note);
    if (err) {
        note_prefix(note, "process");
        return err;
    }
    if (given)
        snprintf(directory, sizeof directory, "%s", given);
    else
        snprintf(directory, sizeof directory, "%s/machines", conf_text(conf, "data-dir"));
    return process_backend_open(&options, ret_backend, note);
}

enum err provider_backend_check(const struct conf *conf, struct fs *fs, struct note *note)
{
    const char *path = conf_text(conf, "catalogue");
    struct catalogue *catalogue = NULL;
    struct buf text;
    enum err err;

    if (!path || conf_choice(conf, "backend") != BACKEND_CATALOGUE) return ERR_OK;
    buf_init(&text, CATALOGUE_BYTES_MAX);
    err = fs_read_whole(fs, path, CATALOGUE_BYTES_MAX, &text);
    if (err) note_set(note, "%s", err_text(err));
    if (!err) err = catalogue_open(buf_peek(&text), &catalogue, note);
    if (err) note_prefix(note, "catalogue %s", path);
    catalogue_close(catalogue);
    buf_deinit(&text);
    return err;
}

enum err provider_backend_open(const struct conf *conf, struct io *io, const struct log_source *log,
                               struct backend **ret_backend, struct note *note)
{
    switch ((enum backend_choice)conf_choice(conf, "backend")) {
    case BACKEND_CATALOGUE: return backend_open_catalogue(conf, io, log, ret_backend, note);
    case BACKEND_PROCESS: return backend_open_process(conf, io, log, ret_backend, note);
    case BACKEND_COMMAND: return backend_open_command(conf, io, log, ret_backend, note);
    }
    return ERR_INTERNAL;
}
