/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl coord: libmuster's primitives from a shell, with any store. */
#include "musterctl/coord.h"

#include <inttypes.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/help.h"
#include "common/program.h"
#include "common/tables.h"
#include "io/fs.h"
#include "musterctl/commands.h"

enum { VALUE_FILE_MAX = 1048576 };

enum err coord_ctl_code(int code)
{
    static const enum err errs[] = {[COORD_OK] = ERR_OK,
                                    [COORD_EXISTS] = ERR_EXISTS,
                                    [COORD_CONFLICT] = ERR_CONFLICT,
                                    [COORD_NOT_FOUND] = ERR_NOT_FOUND,
                                    [COORD_EXPIRED] = ERR_FENCED,
                                    [COORD_INVALID] = ERR_INVALID,
                                    [COORD_UNSUPPORTED] = ERR_UNSUPPORTED,
                                    [COORD_UNAVAILABLE] = ERR_UNAVAILABLE};

    return code >= 0 && (size_t)code < ARRAY_LEN(errs) ? errs[code] : ERR_INTERNAL;
}

enum err coord_ctl_error(struct ctl *ctl, const coord_result *result)
{
    if (result->code == COORD_OK) return ERR_OK;
    char holder[256] = "", retry[64] = "";
    if (result->owner[0])
        (void)snprintf(holder, sizeof holder, ": held by %s (token %" PRIu64 ")", result->owner,
                       result->token);
    if (result->hint_ms >= 0)
        (void)snprintf(retry, sizeof retry, ", perhaps free in %" PRId64 " ms", result->hint_ms);
    note_set(&ctl->note, "%s/%s%s%s%s%s%s", coord_code_name(result->code),
             coord_reason_name(result->reason), holder, retry, result->text[0] ? ": " : "",
             result->text,
             result->flags & COORD_F_MAYBE_APPLIED ? " (it may have been applied)" : "");
    return result->flags & COORD_F_MAYBE_APPLIED && result->code == COORD_UNAVAILABLE
               ? ERR_UNKNOWN
               : coord_ctl_code(result->code);
}

/* The default is the store of MUSTER_COORDINATOR. Without this variable the default is a directory
 * of the user that outlasts a reboot. Two shells of a user then share claims, and no other user can
 * block the claims. */
static enum err coord_find_url(struct ctl *ctl, char memory[512], const char **ret_url)
{
    const char *url = conf_text(ctl->conf, "store"), *state = getenv("XDG_STATE_HOME");
    const char *coordinators = getenv("MUSTER_COORDINATOR");
    const struct passwd *user;
    char dir[480];
    int len;

    if (url != NULL) {
        *ret_url = url;
        return ERR_OK;
    }
    if (coordinators && coordinators[0]) {
        if (snprintf(memory, 512, "muster://%s", coordinators) >= 512)
            return ctl_fail(ctl, ERR_INVALID, "MUSTER_COORDINATOR is too long; give --store");
        *ret_url = memory;
        return ERR_OK;
    }
    if (geteuid() == 0)
        len = snprintf(dir, sizeof dir, "/var/lib/muster/coord");
    else if (state != NULL && state[0] == '/')
        len = snprintf(dir, sizeof dir, "%s/muster/coord", state);
    else if ((user = getpwuid(geteuid())) != NULL && user->pw_dir[0] == '/')
        len = snprintf(dir, sizeof dir, "%s/.local/state/muster/coord", user->pw_dir);
    else
        len = (int)sizeof dir;
    if (len >= (int)sizeof dir)
        return ctl_fail(ctl, ERR_INVALID,
                        "no home directory to keep claims in; name a store with --store");
    enum err err = fs_make_dirs(fs_real(), dir, 0700);
    if (err && err != ERR_UNKNOWN)
        return ctl_fail(ctl, err, "make %s: %s; name a store with --store", dir, err_text(err));
    (void)snprintf(memory, 512, "file://%s", dir);
    *ret_url = memory;
    return ERR_OK;
}

enum err coord_ctl_with_store(struct ctl *ctl, coord_ctl_fn *act, bool keep)
{
    struct coord_ctl coord = {.ctl = ctl};
    /* If `exec` is killed, the guard stops the command a moment later. Until then nobody may
     * acquire the claim, so the claim must outlast this process. */
    coord_options options = {
        .open_timeout_ms = (int64_t)conf_number(ctl->conf, "timeout"),
        .tls_ca_file = conf_text(ctl->conf, "tls.ca-file"),
        .tls_cert_file = conf_text(ctl->conf, "tls.cert-file"),
        .tls_key_file = conf_text(ctl->conf, "tls.key-file"),
        .keep_on_close = keep,
        .no_early_death = 1,
    };
    enum err err = coord_find_url(ctl, coord.url_memory, &coord.url);

    if (err) return err;
    coord.call.timeout_ms = options.open_timeout_ms;
    coord_result opened = coord_open(coord.url, &options, &coord.store);
    if (opened.code != COORD_OK) {
        err = coord_ctl_error(ctl, &opened);
        note_prefix(&ctl->note, "open store");
        return err;
    }
    err = act(&coord);
    coord_close(coord.store);
    return err;
}

enum err coord_ctl_act(struct ctl *ctl)
{
    return coord_ctl_with_store(ctl, ((const struct coord_action *)(const void *)ctl->action)->act,
                                true);
}

enum err coord_ctl_say(struct coord_ctl *coord, const coord_result *result, const char *what,
                       const char *lease_file, const char *format, ...)
{
    char line[1024];
    va_list args;

    if (result->code != COORD_OK) return coord_ctl_error(coord->ctl, result);
    if (!coord->ctl->json) {
        va_start(args, format);
        (void)vsnprintf(line, sizeof line, format, args);
        va_end(args);
        ctl_line(coord->ctl, "%s", line);
        return ERR_OK;
    }
    struct ndjson *json = ctl_json_begin(coord->ctl);
    ndjson_c_string(json, STR("result"), coord_reason_name(result->reason));
    ndjson_c_string(json, STR("name"), what);
    ndjson_u64(json, STR("revision"), result->revision);
    ndjson_u64(json, STR("token"), result->token);
    ndjson_i64(json, STR("ttl_ms"), result->granted_ttl_ms);
    ndjson_u64(json, STR("slot"), result->slot);
    ndjson_c_string(json, STR("lease_file"), lease_file);
    ctl_json_end(coord->ctl);
    return ERR_OK;
}

coord_str coord_ctl_argument(const struct ctl *ctl, size_t place)
{
    struct str text = str_from(conf_argument(ctl->conf, place));
    return (coord_str){text.at, text.len};
}

const char *coord_ctl_owner(struct ctl *ctl, char memory[132])
{
    const char *owner = conf_text(ctl->conf, "owner");
    const struct passwd *user = getpwuid(geteuid());
    char host[48];

    if (owner != NULL) return owner;
    if (gethostname(host, sizeof host) != 0) (void)snprintf(host, sizeof host, "localhost");
    host[sizeof host - 1] = '\0';
    (void)snprintf(memory, 132, "%.48s@%s:%ld", user != NULL ? user->pw_name : "nobody", host,
                   (long)getpid());
    for (char *at = memory; *at != '\0'; at++)
        if (strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:@/-", *at) ==
            NULL)
            *at = '-';
    return memory;
}

void coord_ctl_slot(struct ctl *ctl, coord_slot_request *request, char memory[132])
{
    struct str group = str_from(conf_text(ctl->conf, "group"));

    request->group = (coord_str){group.at, group.len};
    request->slot_count = (uint32_t)conf_number(ctl->conf, "slots");
    request->owner = coord_ctl_owner(ctl, memory);
    request->ttl_ms = (int64_t)conf_number(ctl->conf, "ttl");
    request->wait_ms = (int64_t)conf_number(ctl->conf, "wait");
    if (conf_bool(ctl->conf, "takeover")) request->flags |= COORD_TAKEOVER_SAME_OWNER;
}

enum err coord_ctl_value(struct ctl *ctl, size_t place, coord_str *ret_value)
{
    const char *path = conf_text(ctl->conf, "value-file");
    struct buf content;
    enum err err;

    if (path != NULL && place < conf_argument_count(ctl->conf))
        return ctl_fail(ctl, ERR_INVALID, "a value on the line and --value-file: one of the two");
    if (path == NULL) {
        *ret_value = coord_ctl_argument(ctl, place);
        return ERR_OK;
    }
    if (strcmp(path, "-") == 0) {
        struct str input;
        err = ctl_read_input(ctl, &input);
        *ret_value = (coord_str){input.at, input.len};
        return err;
    }
    buf_init(&content, VALUE_FILE_MAX + 1);
    err = fs_read_whole(fs_real(), path, VALUE_FILE_MAX, &content);
    if (err) note_set(&ctl->note, "value from %s: %s", path, err_text(err));
    struct str copy = buf_peek(&content);
    const char *kept = err ? NULL : arena_dup(&ctl->memory, copy);
    if (!err && kept == NULL) err = ERR_NOMEM;
    buf_deinit(&content);
    if (!err) *ret_value = (coord_str){kept, copy.len};
    return err;
}

const struct command coord_command = COMMAND_TREE(
    HELP_MUSTERCTL_COORD, &coord_exec_command,
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_COORD_CREATE, coord_create, "KEY [VALUE]", 1, 2),
            COORD_ACT(0, coord_ctl_create)),
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_COORD_CAS, coord_cas, "KEY REVISION [VALUE]", 2, 3),
            COORD_ACT(0, coord_ctl_cas)),
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_COORD_GET, coord_get, "KEY", 1, 1),
            COORD_ACT(BIT(5), coord_ctl_get)),
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_COORD_DELETE, coord_delete, "KEY", 1, 1),
            COORD_ACT(BIT(5), coord_ctl_delete)),
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_COORD_ACQUIRE, coord_acquire, "[VALUE]", 0, 1),
            COORD_ACT(0, coord_ctl_acquire)),
    COMMAND(COMMAND_ROW(HELP_MUSTERCTL_COORD_RENEW, coord_lease),
            COORD_ACT(BIT(5), coord_ctl_renew)),
    COMMAND(COMMAND_ROW(HELP_MUSTERCTL_COORD_RELEASE, coord_release),
            COORD_ACT(BIT(5), coord_ctl_release)),
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_COORD_HOLDERS, coord_holders, "GROUP", 1, 1),
            COORD_ACT(BIT(5), coord_ctl_holders)),
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_COORD_RESIZE, coord_resize, "GROUP SLOTS", 2, 2),
            COORD_ACT(BIT(5), coord_ctl_resize)),
    &coord_watch_command,
    COMMAND(COMMAND_ROW(HELP_MUSTERCTL_COORD_CAPS, coord), COORD_ACT(0, coord_ctl_caps)));
