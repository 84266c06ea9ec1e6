/* SPDX-License-Identifier: Apache-2.0 */
/* Opens all state machines of a coordinator without a log. Runs in one thread, and blocks. */
#include "common/restore_archive.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/tables_ctl.h"
#include "member/machine.h"
#include "store/machine.h"

struct machines {
    struct store_machine *store;
    struct member_machine *member;
    struct state_machine all[3]; /* the last one has id 0 */
};

static void machines_close(struct machines *m)
{
    store_machine_close(m->store);
    member_machine_close(m->member);
}

static enum err machines_open(struct machines *m)
{
    enum err err = store_machine_open(&(struct store_machine_options){.owner = NULL}, &m->store);

    if (!err)
        err = member_machine_open(&(struct member_machine_options){.owner = NULL}, &m->member);
    if (err) return err;
    m->all[0] = store_machine_registration(m->store);
    m->all[1] = member_machine_registration(m->member);
    return ERR_OK;
}

static void restore_warn(const char *part)
{
    if (strcmp(part, "roster") == 0) return; /* the replicas make themselves known again */
    fprintf(stderr, "warning: the archive has no %s: what the replicas hold of it will be lost\n",
            part);
}

enum err restore_archive(const struct conf *conf, const char *name, bool replaces, bool json,
                         struct buf *out, struct note *note)
{
    const struct restore_request wish = {.to = {.fs = fs_real(),
                                                .entropy = entropy_real(),
                                                .dir = conf_text(conf, "data-dir"),
                                                .address = conf_text(conf, "raft-advertise"),
                                                .wall_ms = clock_wall(clock_real()).ms},
                                         .archive = conf_argument(conf, 0),
                                         .name = name,
                                         .replaces = replaces,
                                         .json = json,
                                         .warn = restore_warn};
    struct machines machines = {.store = NULL};
    enum err err = machines_open(&machines);

    if (isatty(STDERR_FILENO)) fprintf(stderr, "restoring %s into %s\n", wish.archive, wish.to.dir);
    if (!err) err = archive_tool_restore(&wish, machines.all, out, note);
    machines_close(&machines);
    program_give_to_owner(wish.to.dir);
    return err;
}

enum err restore_act(struct program_run *run)
{
    const struct conf *conf = run->conf;

    return restore_archive(conf, conf_text(conf, "id"), conf_bool(conf, "yes"),
                           conf_choice(conf, "output") == CTL_OUTPUT_JSON, &run->out, &run->note);
}

enum err verify_archive(const char *path, bool json, struct buf *out, struct note *note)
{
    struct machines machines = {.store = NULL};
    enum err err = machines_open(&machines);

    if (!err) err = archive_tool_verify(fs_real(), path, json, machines.all, out, note);
    machines_close(&machines);
    return err;
}
