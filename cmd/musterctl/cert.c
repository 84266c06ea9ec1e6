/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl cert: the commands over cert/cert.h, and their output. A command with several files
 * continues after a refused file. Its exit code is the highest of all files. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cert/cert.h"
#include "common/help.h"
#include "common/program.h"
#include "common/tables.h"
#include "conf/nearest.h"
#include "io/clock.h"
#include "musterctl/commands.h"
#include "musterctl/run.h"
#include "text/rfc3339.h"

enum { CERT_RENEW_FILES_MAX = 1000 };

static wall_time cert_now(void)
{
    return clock_wall(clock_real());
}

/* -- printing ---------------------------------------------------------------------------------- */

static void cert_json_time(struct ndjson *json, struct str key, wall_time time)
{
    char text[RFC3339_CAP];

    wall_text(time, text);
    ndjson_c_string(json, key, text);
}

static void cert_print_report_json(struct ctl *ctl, const struct cert_report *report,
                                   const char *done, const char *cert_file, const char *key_file)
{
    bool is_leaf = report->roots == 0;
    struct ndjson *json = ctl_json_begin(ctl);

    ndjson_c_string(json, STR("result"), done);
    ndjson_c_string(json, STR("cert"), cert_file);
    if (is_leaf) ndjson_c_string(json, STR("key"), key_file);
    ndjson_c_string(json, STR("why"), report->why[0] ? report->why : NULL);
    if (is_leaf) cert_json_time(json, STR("not_before"), report->not_before);
    cert_json_time(json, STR("not_after"), report->not_after);
    if (is_leaf)
        ndjson_bool(json, STR("key_made"), report->key_made);
    else
        ndjson_u64(json, STR("roots"), report->roots);
    ndjson_bool(json, STR("key_exposed"), report->key_exposed);
    ctl_json_end(ctl);
}

static enum err cert_print_report(struct ctl *ctl, const struct cert_report *report,
                                  const char *done, const char *cert_file, const char *key_file)
{
    char until[RFC3339_CAP], roots[64] = "";

    if (report->key_exposed)
        fprintf(stderr, "warning: %s may be read by others; chmod 600 it\n", key_file);
    if (report->renew_soon.text[0]) fprintf(stderr, "warning: %s\n", report->renew_soon.text);
    if (ctl->json) {
        cert_print_report_json(ctl, report, done, cert_file, key_file);
        return ERR_OK;
    }
    wall_text(report->not_after, until);
    if (report->roots > 1) snprintf(roots, sizeof roots, "; %zu roots are trusted", report->roots);
    ctl_line(ctl, "%-8s %s  %s until %s%s%s%s", done, cert_file,
             report->roots == 0 ? "valid" : "signs", until, roots, report->why[0] ? "; " : "",
             report->why);
    return ERR_OK;
}

/* --days was given, but the kept certificate has another lifetime. */
static void compare_days(const struct conf *conf, const char *advice, struct cert_report *report)
{
    const uint64_t day_ms = 86400ull * MS_PER_SECOND;
    uint64_t from = report->not_before.ms, until = report->not_after.ms;
    uint64_t asked = conf_number(conf, "days");
    /* Rounds to days, because a certificate begins a few minutes early. */
    uint64_t has = until > from ? (until - from + day_ms / 2) / day_ms : 0;

    if (report->result != CERT_KEPT || conf_source(conf, "days") == CONF_DEFAULT || asked == has)
        return;
    snprintf(report->why, sizeof report->why, "asked for %" PRIu64 " days, has %" PRIu64 "; %s",
             asked, has, advice);
}

static void cert_print_refused(struct ctl *ctl, enum err err)
{
    int exit_code = err_exit_code(err);

    if (!err) return;
    (void)ctl_flush(ctl); /* earlier output comes before the error */
    (void)program_fail(ctl->call, err, &ctl->note);
    ctl->note.text[0] = '\0';
    if (exit_code > ctl->exit_code) ctl->exit_code = exit_code;
}

/* -- ca, rotate, retire ------------------------------------------------------------------------ */

/* `retire` has no options for a new root. */
static struct cert_ca_options ca_options(const struct conf *conf, bool makes_root)
{
    struct cert_ca_options options = {
        .dir = conf_text(conf, "dir"),
        .strict_permissions = conf_bool(conf, "strict-permissions"),
    };

    if (!makes_root) return options;
    options.common_name = conf_text(conf, "common-name");
    options.days = (uint32_t)conf_number(conf, "days");
    options.rollout = conf_bool(conf, "rollout");
    return options;
}

static enum err cert_print_ca(struct ctl *ctl, const struct cert_report *report, const char *done)
{
    const char *dir = conf_text(ctl->conf, "dir");
    char file[CERT_PATH_CAP], key[CERT_PATH_CAP];

    if (snprintf(file, sizeof file, "%s/" CERT_CA_FILE, dir) >= CERT_PATH_CAP ||
        snprintf(key, sizeof key, "%s/" CERT_CA_KEY_FILE, dir) >= CERT_PATH_CAP)
        return ERR_INVALID;
    return cert_print_report(ctl, report, done, file, key);
}

static enum err ca_ensure(struct ctl *ctl)
{
    const struct conf *conf = ctl->conf;
    struct cert_ca_options options = ca_options(conf, true);
    struct cert_report report;
    enum err err;

    /* Without --common-name the name of an existing root does not matter. */
    if (conf_source(conf, "common-name") == CONF_DEFAULT) options.common_name = NULL;
    err = cert_ca_ensure(fs_real(), &options, cert_now(), &report, &ctl->note);
    if (err) return err;
    if (!options.rollout) compare_days(conf, "rotate makes a new root", &report);
    return cert_print_ca(ctl, &report, cert_result_text(report.result));
}

static enum err ca_rotate(struct ctl *ctl)
{
    const struct conf *conf = ctl->conf;
    struct cert_ca_options options = ca_options(conf, true);
    struct cert_report report;
    enum err err = cert_ca_rotate(fs_real(), &options, cert_now(), &report, &ctl->note);

    if (err == ERR_NOT_FOUND) (void)cert_ca_is_absent(fs_real(), options.dir, &ctl->note);
    if (!err) err = cert_print_ca(ctl, &report, "rotated");
    if (!err && !ctl->json)
        ctl_line(ctl, "next: musterctl cert renew --dir %s, then musterctl cert retire --dir %s",
                 options.dir, options.dir);
    return err;
}

static enum err ca_retire(struct ctl *ctl)
{
    const struct conf *conf = ctl->conf;
    struct cert_ca_options options = ca_options(conf, false);
    struct cert_report report;
    enum err err = cert_ca_retire(fs_real(), &options, conf_bool(conf, "force"), cert_now(),
                                  &report, &ctl->note);

    if (err == ERR_NOT_FOUND) (void)cert_ca_is_absent(fs_real(), options.dir, &ctl->note);
    if (err) return err;
    return cert_print_ca(ctl, &report, report.result == CERT_KEPT ? "kept" : "retired");
}

/* -- issue, renew ------------------------------------------------------------------------------ */

struct leaf_files {
    char cert[CERT_PATH_CAP], key[CERT_PATH_CAP];
};

static bool leaf_files_from(struct str base, struct leaf_files *files)
{
    if (base.len >= CERT_PATH_CAP - 16) return false;
    snprintf(files->cert, CERT_PATH_CAP, "%.*s.pem", STR_ARG(base));
    snprintf(files->key, CERT_PATH_CAP, "%.*s.key.pem", STR_ARG(base));
    return true;
}

/* DIR/replica-1, DIR/admin and so on, unless --out gives another name. */
static enum err leaf_files_of(const struct conf *conf, enum cert_kind kind,
                              struct leaf_files *files, struct note *note)
{
    const char *out = conf_text(conf, "out"), *id = conf_text(conf, "id");
    struct str stem = str_from(out);
    char base[CERT_PATH_CAP];
    int len;

    if (str_ends(stem, STR(".pem"))) stem.len -= 4; /* PATH.pem means the same as PATH */
    if (out && (stem.len == 0 || str_ends(stem, STR("/")) || str_ends(stem, STR(".key"))))
        return note_fail(note, ERR_INVALID,
                         "--out %s: give PATH or PATH.pem for PATH.pem and PATH.key.pem", out);
    if (!out) {
        len = snprintf(base, sizeof base, "%s/%s%s%s", conf_text(conf, "dir"), cert_kind_name(kind),
                       id ? "-" : "", id ? id : "");
        stem = str_of(base, (size_t)len);
    }
    if (leaf_files_from(stem, files)) return ERR_OK;
    return note_fail(note, ERR_INVALID, "the path is too long");
}

static enum err cert_issue_and_print(struct ctl *ctl, const struct leaf_files *files,
                                     const struct cert_request *request)
{
    const struct conf *conf = ctl->conf;
    struct cert_leaf_options options = {
        .ca_dir = conf_text(conf, "dir"),
        .cert_file = files->cert,
        .key_file = files->key,
        .force = conf_bool(conf, "force"),
        .new_key = conf_bool(conf, "new-key"),
    };
    struct cert_report report;
    enum err err = cert_leaf_ensure(fs_real(), &options, request, cert_now(), &report, &ctl->note);

    if (err) return err;
    if (request) compare_days(conf, "--force renews it", &report);
    if (report.result == CERT_KEPT && options.new_key && !report.why[0])
        snprintf(report.why, sizeof report.why, "its key too; --force renews both");
    return cert_print_report(ctl, &report, cert_result_text(report.result), files->cert,
                             files->key);
}

static enum err cert_read_kind(const char *word, enum cert_kind *ret_kind, struct note *note)
{
    char all[256];
    size_t used = 0;
    struct nearest nearest;

    if (!cert_kind_parse(str_from(word), ret_kind)) return ERR_OK;
    nearest_init(&nearest, str_from(word));
    for (size_t i = 0; i < CERT_KIND_COUNT; i++) {
        nearest_offer(&nearest, str_from(cert_kind_name((enum cert_kind)i)), i);
        used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", i > 0 ? ", " : "",
                                 cert_kind_name((enum cert_kind)i));
        used = min_size(used, sizeof all - 1);
    }
    if (nearest_found(&nearest)) {
        note_set(note, "unknown kind '%s' (did you mean '%s'?)", word,
                 cert_kind_name((enum cert_kind)nearest.place));
    } else {
        note_set(note, "unknown kind '%s'; there are %s", word, all);
    }
    return ERR_INVALID;
}

static enum err cert_read_request(const struct conf *conf, struct cert_request *request,
                                  struct note *note)
{
    struct option_value names = conf_list(conf, "names");
    enum err err = cert_read_kind(conf_argument(conf, 0), &request->kind, note);

    if (err) return err;
    const char *kind = cert_kind_name(request->kind), *means = cert_kind_id_means(request->kind);
    request->id = str_from(conf_text(conf, "id"));
    request->days = (uint32_t)conf_number(conf, "days");
    if (means && request->id.len == 0)
        return note_fail(note, ERR_INVALID, "%s needs --id, the %s", kind, means);
    if (!means && request->id.len > 0)
        return note_fail(note, ERR_INVALID, "%s takes no --id", kind);
    if (names.item_count > CERT_NAMES_MAX)
        return note_fail(note, ERR_INVALID, "--names: more than %d", CERT_NAMES_MAX);
    for (size_t i = 0; i < names.item_count; i++) request->names[i] = names.items[i];
    request->name_count = names.item_count;
    return cert_request_check(request, note);
}

static enum err cert_issue(struct ctl *ctl)
{
    struct cert_request request = {.id = STR_EMPTY};
    struct leaf_files files;
    enum err err = cert_read_request(ctl->conf, &request, &ctl->note);

    if (!err) err = leaf_files_of(ctl->conf, request.kind, &files, &ctl->note);
    if (err) return err;
    err = cert_issue_and_print(ctl, &files, &request);
    if (err == ERR_NOT_FOUND)
        (void)cert_ca_is_absent(fs_real(), conf_text(ctl->conf, "dir"), &ctl->note);
    return err;
}

static enum err cert_renew_one(struct ctl *ctl, const char *cert_file)
{
    struct str path = str_from(cert_file);
    struct leaf_files files;

    if (!str_ends(path, STR(".pem")) || str_ends(path, STR(".key.pem")) ||
        !leaf_files_from(str_of(path.at, path.len - 4), &files))
        return ctl_fail(ctl, ERR_INVALID,
                        "%s: give the certificate, NAME.pem; its key is NAME.key.pem", cert_file);
    return cert_issue_and_print(ctl, &files, NULL);
}

/* Renews one certificate and prints an error. False: without an authority all others would fail,
 * too. */
static bool cert_renew_next(struct ctl *ctl, const char *cert_file)
{
    enum err err = cert_renew_one(ctl, cert_file);
    bool absent = err == ERR_NOT_FOUND &&
                  cert_ca_is_absent(fs_real(), conf_text(ctl->conf, "dir"), &ctl->note);

    cert_print_refused(ctl, err);
    return !absent;
}

static enum err cert_renew_all(struct ctl *ctl)
{
    const char *dir = conf_text(ctl->conf, "dir"), **files = NULL;
    size_t count = 0, done = 0;
    enum err err = cert_list_leaves(fs_real(), dir, &files, &count, &ctl->note);

    if (!err && count > CERT_RENEW_FILES_MAX) err = ERR_TOO_LARGE;
    if (err == ERR_TOO_LARGE)
        note_set(&ctl->note, "%s: more than %d certificates", dir, CERT_RENEW_FILES_MAX);
    else if (err)
        note_set(&ctl->note, "%s: %s", dir, err_text(err));
    if (err == ERR_NOT_FOUND) (void)cert_ca_is_absent(fs_real(), dir, &ctl->note);
    while (!err && done < count && cert_renew_next(ctl, files[done])) done++;
    free(files);
    return err;
}

static enum err cert_renew(struct ctl *ctl)
{
    size_t count = conf_argument_count(ctl->conf), done = 0;

    if (count == 0) return cert_renew_all(ctl);
    while (done < count && cert_renew_next(ctl, conf_argument(ctl->conf, done))) done++;
    return ERR_OK;
}

/* -- show -------------------------------------------------------------------------------------- */

static void cert_show_uses(struct ctl *ctl, const struct cert_description *d)
{
    const struct {
        bool has;
        const char *word;
    } uses[] = {{d->is_ca, "authority"}, {d->server_use, "server"}, {d->client_use, "client"}};
    char words[64] = "";
    size_t used = 0;

    for (size_t i = 0; i < ARRAY_LEN(uses); i++)
        if (uses[i].has)
            used += (size_t)snprintf(words + used, sizeof words - used, "%s%s", used ? ", " : "",
                                     uses[i].word);
    ctl_line(ctl, "  use          %s", used ? words : "none of these: authority, server, client");
}

static void cert_show_text(struct ctl *ctl, const struct cert_description *d, const char *path)
{
    char from[RFC3339_CAP], until[RFC3339_CAP], left[64] = "expired";

    wall_text(d->not_before, from);
    wall_text(d->not_after, until);
    if (d->days_left >= 0) snprintf(left, sizeof left, "%lld days left", (long long)d->days_left);
    ctl_line(ctl, "%s", path);
    ctl_line(ctl, "  subject      %s", d->subject);
    ctl_line(ctl, "  issuer       %s%s", d->issuer, d->self_signed ? " (itself)" : "");
    for (size_t i = 0; i < d->name_count; i++) ctl_line(ctl, "  name         %s", d->names[i]);
    ctl_line(ctl, "  valid        %s to %s, %s", from, until, left);
    cert_show_uses(ctl, d);
    ctl_line(ctl, "  key          %s", d->key);
    ctl_line(ctl, "  serial       %s", d->serial_hex);
    ctl_line(ctl, "  fingerprint  %s", d->fingerprint);
}

static void cert_show_json(struct ctl *ctl, const struct cert_description *d, const char *path)
{
    struct ndjson *json = ctl_json_begin(ctl);

    ndjson_c_string(json, STR("file"), path);
    ndjson_c_string(json, STR("subject"), d->subject);
    ndjson_c_string(json, STR("issuer"), d->issuer);
    ndjson_open_array(json, STR("names"));
    for (size_t i = 0; i < d->name_count; i++) ndjson_c_string(json, NDJSON_ITEM, d->names[i]);
    ndjson_close_array(json);
    cert_json_time(json, STR("not_before"), d->not_before);
    cert_json_time(json, STR("not_after"), d->not_after);
    ndjson_i64(json, STR("days_left"), d->days_left);
    ndjson_bool(json, STR("ca"), d->is_ca);
    ndjson_bool(json, STR("server"), d->server_use);
    ndjson_bool(json, STR("client"), d->client_use);
    ndjson_c_string(json, STR("key"), d->key);
    ndjson_c_string(json, STR("serial"), d->serial_hex);
    ndjson_c_string(json, STR("fingerprint"), d->fingerprint);
    ctl_json_end(ctl);
}

static void cert_show_key(struct ctl *ctl, const char *path)
{
    if (!ctl->json) {
        ctl_line(ctl, "%s", path);
        ctl_line(ctl, "  a private key");
        return;
    }
    struct ndjson *json = ctl_json_begin(ctl);
    ndjson_c_string(json, STR("file"), path);
    ndjson_bool(json, STR("private_key"), true);
    ctl_json_end(ctl);
}

static enum err cert_show_file(struct ctl *ctl, const char *path)
{
    struct cert_description *list;
    size_t count;
    enum err err = cert_describe(fs_real(), path, cert_now(), &list, &count, &ctl->note);

    if (err) return err;
    if (count == 0) cert_show_key(ctl, path);
    for (size_t i = 0; i < count; i++)
        (ctl->json ? cert_show_json : cert_show_text)(ctl, &list[i], path);
    cert_descriptions_free(list, count);
    return ERR_OK;
}

static enum err cert_show(struct ctl *ctl)
{
    for (size_t i = 0; i < conf_argument_count(ctl->conf); i++)
        cert_print_refused(ctl, cert_show_file(ctl, conf_argument(ctl->conf, i)));
    return ERR_OK;
}

/* -- the commands ------------------------------------------------------------------------------ */

const struct command cert_command = COMMAND_TREE(
    HELP_MUSTERCTL_CERT,
    COMMAND(COMMAND_ROW(HELP_MUSTERCTL_CERT_CA, cert_ca), CTL_OFFLINE(BIT(4) | BIT(6), ca_ensure)),
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_CERT_ISSUE, cert_issue, "KIND", 1, 1),
            CTL_OFFLINE(BIT(4) | BIT(5) | BIT(6), cert_issue)),
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_CERT_SHOW, cert_show, "FILE...", 1, CONF_ARGUMENTS_MAX),
            CTL_OFFLINE(BIT(5), cert_show)),
    COMMAND(
        COMMAND_ROW_WITH(HELP_MUSTERCTL_CERT_RENEW, cert_renew, "[FILE]...", 0, CONF_ARGUMENTS_MAX),
        CTL_OFFLINE(BIT(4) | BIT(5) | BIT(6), cert_renew)),
    COMMAND(COMMAND_ROW(HELP_MUSTERCTL_CERT_ROTATE, cert_rotate),
            CTL_OFFLINE(BIT(4) | BIT(5) | BIT(6), ca_rotate)),
    COMMAND(COMMAND_ROW(HELP_MUSTERCTL_CERT_RETIRE, cert_retire),
            CTL_OFFLINE(BIT(4) | BIT(5) | BIT(6), ca_retire)));
