/* SPDX-License-Identifier: Apache-2.0 */
/* The frame of every `musterctl coord` command: opens the store, turns a result into a line and an
 * exit code, and keeps handles in files. */
#ifndef MUSTERCTL_COORD_H
#define MUSTERCTL_COORD_H
#include <muster/coord.h>

#include "musterctl/run.h"

struct coord_ctl {
    struct ctl *ctl;
    coord_store *store;
    coord_call call;
    const char *url;
    char url_memory[512];
};
typedef enum err coord_ctl_fn(struct coord_ctl *coord);

/* A command that opens a store, acts, and closes the store. Claims that it does not release live
 * until their deadline. */
struct coord_action {
    struct ctl_action ctl; /* first: of coord_ctl_act */
    coord_ctl_fn *act;
};
enum err coord_ctl_act(struct ctl *ctl);
#define COORD_DATA(fn)                                                                             \
    .data = (&(const struct coord_action){{.act = coord_ctl_act, .offline = true}, .act = (fn)})
/* Exit codes of every `musterctl coord` command; `more` adds a command's own exit codes. */
#define COORD_EXITS         (BIT(4) | BIT(6))
#define COORD_ACT(more, fn) .exits = COORD_EXITS | (more), .run = ctl_run, COORD_DATA(fn)
/* Opens the store and calls `act`. Without `keep`, releases the claims that are left at the end. */
enum err coord_ctl_with_store(struct ctl *ctl, coord_ctl_fn *act, bool keep);

enum err coord_ctl_code(int code); /* of enum coord_code */
/* ERR_OK, or an error with its exit code and a note such as "held by a@b (token 7)". */
enum err coord_ctl_error(struct ctl *ctl, const coord_result *result);
/* Prints `format` for people, or the result's fields and "lease_file" (unless NULL) for
 * programs. */
enum err coord_ctl_say(struct coord_ctl *coord, const coord_result *result, const char *what,
                       const char *lease_file, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

coord_str coord_ctl_argument(const struct ctl *ctl, size_t place);
/* --owner, or user@host:pid. */
const char *coord_ctl_owner(struct ctl *ctl, char memory[132]);
/* Reads the options of a claim. `memory` holds the owner. */
void coord_ctl_slot(struct ctl *ctl, coord_slot_request *request, char memory[132]);
/* The argument at `place`, or the contents of --value-file, or nothing. ERR_INVALID: both. */
enum err coord_ctl_value(struct ctl *ctl, size_t place, coord_str *ret_value);
enum err coord_ctl_keep_lease(struct coord_ctl *coord, const coord_lease *lease, const char *path);

coord_ctl_fn coord_ctl_create, coord_ctl_cas, coord_ctl_get, coord_ctl_delete, coord_ctl_acquire;
coord_ctl_fn coord_ctl_renew, coord_ctl_release, coord_ctl_holders, coord_ctl_resize,
    coord_ctl_caps;
extern const struct command coord_watch_command, coord_exec_command;
#endif
