/* SPDX-License-Identifier: Apache-2.0 */
/* muster check; muster coordinator force-config and rejoin: offline tools for a data directory that
 * no process uses. One thread. */
#include <inttypes.h>

#include "common/program.h"
#include "log/datadir.h"
#include "muster/commands.h"

static enum err tools_confirm(struct program_run *run, const char *what)
{
    if (conf_bool(run->conf, "yes")) return ERR_OK;
    return note_fail(&run->note, ERR_INVALID, "%s; say --yes if that is what you want", what);
}

enum err force_config_act(struct program_run *run)
{
    struct datadir_force force = {.fs = fs_real(),
                                  .entropy = entropy_real(),
                                  .dir = conf_argument(run->conf, 0),
                                  .address = conf_text(run->conf, "address"),
                                  .wall_ms = clock_wall(clock_real()).ms};
    struct datadir made;
    enum err err = tools_confirm(
        run, "this makes the replica the only voter of a new cluster, and what only the "
             "others have is lost");

    if (err) return err;
    err = datadir_force_config(&force, &made, &run->note);
    program_give_to_owner(force.dir);
    if (err) return err;
    return buf_appendf(&run->out,
                       "replica %016" PRIx64 " is the only voter of cluster %016" PRIx64
                       ". Start it. Then, for each other replica: muster coordinator rejoin DIR "
                       "--yes (or an empty directory), and start it.\n",
                       made.replica_id, made.cluster_id);
}

enum err rejoin_act(struct program_run *run)
{
    const char *dir = conf_argument(run->conf, 0);
    struct datadir old, made;
    enum err err = tools_confirm(
        run, "this puts the replica's log and snapshots aside and gives it a new identity");

    if (err) return err;
    err = datadir_rejoin(fs_real(), entropy_real(), dir, &old, &made, &run->note);
    program_give_to_owner(dir);
    if (err) return err;
    return buf_appendf(&run->out,
                       "replica %016" PRIx64 " is %016" PRIx64 " now, empty and of no cluster; "
                       "what it had is in %s/damaged-%016" PRIx64
                       "/. Start it: a coordinator with --join-addr asks the cluster there for "
                       "its place, and the old identity is removed.\n",
                       old.replica_id, made.replica_id, dir, old.replica_id);
}

enum err check_act(struct program_run *run)
{
    return datadir_check(fs_real(), conf_argument(run->conf, 0), &run->out, &run->note);
}
