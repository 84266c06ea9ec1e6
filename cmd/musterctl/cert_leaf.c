/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl cert issue, renew: certificates for the identities of a fleet. */
#include <stdio.h>
#include <string.h>

#include "common/program.h"
#include "common/tables.h"
#include "conf/nearest.h"
#include "musterctl/cert.h"
#include "text/ndjson.h"

enum {
    CERT_RENEW_FILES_MAX = 1000,
    CERT_RENEW_BYTES_MAX = CERT_RENEW_FILES_MAX * (CERT_PATH_CAP + 64),
};

static enum err print_leaf_json(const struct cert_leaf_report *report, const char *cert_file,
                                const char *key_file)
{
    char from[WALL_TEXT_CAP], until[WALL_TEXT_CAP];
    struct ndjson line;
    struct buf out;
    enum err err;

    wall_text(report->not_before, from);
    wall_text(report->not_after, until);
    buf_init(&out, PROGRAM_TEXT_MAX);
    ndjson_begin(&line, &out, NDJSON_LINE);
    ndjson_c_string(&line, STR("result"), cert_result_text(report->result));
    ndjson_c_string(&line, STR("cert"), cert_file);
    ndjson_c_string(&line, STR("key"), key_file);
    ndjson_c_string(&line, STR("why"), report->why[0] ? report->why : NULL);
    ndjson_c_string(&line, STR("not_before"), from);
    ndjson_c_string(&line, STR("not_after"), until);
    ndjson_bool(&line, STR("key_made"), report->key_made);
    ndjson_bool(&line, STR("key_exposed"), report->key_exposed);
    err = ndjson_end(&line);
    if (!err && program_print(buf_peek(&out))) err = ERR_IO;
    buf_deinit(&out);
    return err;
}

static enum err print_leaf(const struct conf *conf, struct cert_leaf_report *report,
                           const char *cert_file, const char *key_file)
{
    char until[WALL_TEXT_CAP];

    cert_warn_exposed(report->key_exposed, key_file);
    if (report->result == CERT_KEPT && conf_bool(conf, "new-key") && !report->why[0])
        snprintf(report->why, sizeof report->why, "its key too; --force renews both");
    if (conf_bool(conf, "json")) return print_leaf_json(report, cert_file, key_file);
    wall_text(report->not_after, until);
    printf("%-8s %s  valid until %s", cert_result_text(report->result), cert_file, until);
    if (report->why[0]) printf("; %s", report->why);
    printf("\n");
    return ERR_OK;
}

/* DIR/replica-1 and DIR/admin, unless --out says otherwise. */
static enum err leaf_files(const struct conf *conf, enum cert_kind kind,
                           char cert_file[CERT_PATH_CAP], char key_file[CERT_PATH_CAP],
                           struct note *note)
{
    const char *out = conf_text(conf, "out"), *id = conf_text(conf, "id");
    struct str stem = str_from(out);
    char base[CERT_PATH_CAP];
    int len;

    if (str_ends(stem, STR(".pem"))) stem.len -= 4; /* PATH.pem means the same */
    if (out && (stem.len == 0 || str_ends(stem, STR("/")) || str_ends(stem, STR(".key")))) {
        note_set(note, "--out %s: give PATH or PATH.pem for PATH.pem and PATH.key.pem", out);
        return ERR_INVALID;
    }
    if (out)
        len = snprintf(base, CERT_PATH_CAP, "%.*s", STR_ARG(stem));
    else if (id)
        len = snprintf(base, CERT_PATH_CAP, "%s/%s-%s", conf_text(conf, "dir"),
                       cert_kind_infos[kind].name, id);
    else
        len = snprintf(base, CERT_PATH_CAP, "%s/%s", conf_text(conf, "dir"),
                       cert_kind_infos[kind].name);
    if (len >= CERT_PATH_CAP - 16) {
        note_set(note, "the path is too long");
        return ERR_INVALID;
    }
    snprintf(cert_file, CERT_PATH_CAP, "%.*s.pem", CERT_PATH_CAP - 16, base);
    snprintf(key_file, CERT_PATH_CAP, "%.*s.key.pem", CERT_PATH_CAP - 16, base);
    return ERR_OK;
}

static enum err read_kind(const char *word, enum cert_kind *ret_kind, struct note *note)
{
    char all[256];
    size_t used = 0;
    struct nearest nearest;

    if (!cert_kind_parse(str_from(word), ret_kind)) return ERR_OK;
    nearest_init(&nearest, str_from(word));
    for (size_t i = 0; i < CERT_KIND_COUNT; i++) {
        nearest_offer(&nearest, str_from(cert_kind_infos[i].name), i);
        used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", i > 0 ? ", " : "",
                                 cert_kind_infos[i].name);
        used = min_size(used, sizeof all - 1);
    }
    if (nearest_found(&nearest)) {
        note_set(note, "unknown kind '%s' (did you mean '%s'?)", word,
                 cert_kind_infos[nearest.place].name);
    } else {
        note_set(note, "unknown kind '%s'; there are %s", word, all);
    }
    return ERR_INVALID;
}

static enum err read_request(const struct conf *conf, struct cert_request *request,
                             struct note *note)
{
    struct option_value names = conf_list(conf, "names");
    enum err err = read_kind(conf_argument(conf, 0), &request->kind, note);

    if (err) return err;
    const struct cert_kind_info *info = &cert_kind_infos[request->kind];
    request->id = str_from(conf_text(conf, "id"));
    request->days = (uint32_t)conf_number(conf, "days");
    if (info->needs_id && request->id.len == 0) {
        note_set(note, "%s needs --id, the %s", info->name, info->id_means);
        return ERR_INVALID;
    }
    if (!info->needs_id && request->id.len > 0) {
        note_set(note, "%s takes no --id", info->name);
        return ERR_INVALID;
    }
    if (names.item_count > CERT_NAMES_MAX) {
        note_set(note, "--names: more than %d", CERT_NAMES_MAX);
        return ERR_INVALID;
    }
    for (size_t i = 0; i < names.item_count; i++) request->names[i] = names.items[i];
    request->name_count = names.item_count;
    return cert_request_check(request, note);
}

static struct cert_leaf_options leaf_options(const struct conf *conf, const char *cert_file,
                                             const char *key_file)
{
    return (struct cert_leaf_options){
        .ca_dir = conf_text(conf, "dir"),
        .cert_file = cert_file,
        .key_file = key_file,
        .force = conf_bool(conf, "force"),
        .new_key = conf_bool(conf, "new-key"),
    };
}

static enum err issue(const struct conf *conf, struct note *note)
{
    struct cert_request request = {.id = STR_EMPTY};
    struct cert_leaf_report report;
    char cert_file[CERT_PATH_CAP], key_file[CERT_PATH_CAP];
    enum err err = read_request(conf, &request, note);

    if (!err) err = leaf_files(conf, request.kind, cert_file, key_file, note);
    if (err) return err;
    struct cert_leaf_options options = leaf_options(conf, cert_file, key_file);
    err = cert_leaf_ensure(fs_real(), &options, &request, cert_now(), &report, note);
    cert_explain_absent(err, options.ca_dir, note);
    if (err) return err;
    if (report.result == CERT_KEPT)
        cert_compare_days(conf, report.not_before, report.not_after, "--force renews it",
                          report.why);
    return print_leaf(conf, &report, cert_file, key_file);
}

static int run_issue(void *context, const struct command_call *call)
{
    struct note note = {""};
    struct conf *conf;
    enum err err = program_load_conf(context, call, &conf);

    if (err) return err_exit_code(err);
    err = issue(conf, &note);
    return cert_finish(call, conf, err, &note);
}

static enum err renew_one(const struct conf *conf, const char *cert_file, struct note *note)
{
    struct str path = str_from(cert_file);
    struct cert_leaf_report report;
    char key_file[CERT_PATH_CAP];
    enum err err;

    if (!str_ends(path, STR(".pem")) || str_ends(path, STR(".key.pem")) ||
        path.len > CERT_PATH_CAP - 16) {
        note_set(note, "%s: give the certificate, NAME.pem; its key is NAME.key.pem", cert_file);
        return ERR_INVALID;
    }
    snprintf(key_file, sizeof key_file, "%.*s.key.pem", (int)path.len - 4, cert_file);
    struct cert_leaf_options options = leaf_options(conf, cert_file, key_file);
    err = cert_leaf_renew(fs_real(), &options, cert_now(), &report, note);
    return err ? err : print_leaf(conf, &report, cert_file, key_file);
}

/* -- every leaf of a directory, in the order of their names -- */

struct leaf_list {
    const char *dir;
    struct arena memory;
    const char *files[CERT_RENEW_FILES_MAX]; /* with the directory before them */
    size_t count;
    enum err err;
};

static void gather_leaf(void *context, const char *name, enum fs_kind kind)
{
    struct leaf_list *list = context;
    struct str text = str_from(name);
    char path[CERT_PATH_CAP];
    size_t place;

    if (kind == FS_DIRECTORY || name[0] == '.' || !str_ends(text, STR(".pem"))) return;
    if (str_ends(text, STR(".key.pem")) || str_equal(text, STR("ca.pem"))) return;
    if (list->count == CERT_RENEW_FILES_MAX) list->err = ERR_TOO_LARGE;
    if (!cert_join_path(path, list->dir, name)) list->err = ERR_INVALID;
    char *copy = list->err ? NULL : arena_dup(&list->memory, str_from(path));
    if (!copy) {
        if (!list->err) list->err = ERR_NOMEM;
        return;
    }
    for (place = list->count++; place > 0 && strcmp(list->files[place - 1], copy) > 0; place--) {
        list->files[place] = list->files[place - 1];
    }
    list->files[place] = copy;
}

static enum err list_leaves(struct leaf_list *list, struct note *note)
{
    enum err err = fs_list(fs_real(), list->dir, gather_leaf, list);

    if (!err) err = list->err;
    if (err == ERR_TOO_LARGE)
        note_set(note, "%s: more than %d certificates", list->dir, CERT_RENEW_FILES_MAX);
    else if (err)
        note_set(note, "%s: %s", list->dir, err_text(err));
    cert_explain_absent(err, list->dir, note);
    return err;
}

/* One that is refused does not stop the others: a daily run must reach every file. */
static enum err renew_each(const struct conf *conf, const struct command_call *call, size_t count,
                           const char *const *files)
{
    const char *dir = conf_text(conf, "dir");
    struct note note = {""};
    enum err worst = ERR_OK;
    bool absent = false;

    for (size_t i = 0; i < count && !absent; i++) {
        enum err err = renew_one(conf, files[i], &note);
        absent = cert_explain_absent(err, dir, &note); /* would be said of each of them */
        cert_refused(call, err, &note, &worst);
    }
    return worst;
}

static enum err renew_all(const struct conf *conf, const struct command_call *call)
{
    struct leaf_list list = {.dir = conf_text(conf, "dir")};
    struct note note = {""};
    enum err err, worst = ERR_OK;

    arena_init(&list.memory, CERT_RENEW_BYTES_MAX);
    err = list_leaves(&list, &note);
    if (err)
        cert_refused(call, err, &note, &worst);
    else
        worst = renew_each(conf, call, list.count, list.files);
    arena_deinit(&list.memory);
    return worst;
}

static int run_renew(void *context, const struct command_call *call)
{
    const char *files[CONF_ARGUMENTS_MAX];
    struct conf *conf;
    enum err err = program_load_conf(context, call, &conf);

    if (err) return err_exit_code(err);
    size_t count = conf_argument_count(conf);
    for (size_t i = 0; i < count; i++) files[i] = conf_argument(conf, i);
    err = count > 0 ? renew_each(conf, call, count, files) : renew_all(conf, call);
    conf_close(conf);
    return err_exit_code(err);
}

static const struct command_example issue_examples[] = {
    {"musterctl cert issue replica --id 1",
     "tls/replica-1.pem: muster://replica/1 and bigfleet://admin"},
    {"musterctl cert issue --dir ./tls shard --id eu-1 --names shard1.example,10.0.0.7",
     "one that is served under a name and an address"},
    {"musterctl cert issue admin", "tls/admin.pem, for musterctl and people"},
    {NULL, NULL},
};
const struct command cert_issue_command = {
    .name = "issue",
    .summary = "make a certificate for one identity",
    .about =
        "Makes a key and a certificate signed by the authority in --dir. A good one that is there "
        "already is kept; one with other names, or past two thirds of its life, is renewed with "
        "its "
        "key kept.\n"
        "Kinds: replica, shard, cluster (an operator), provider, worker and store need --id; "
        "admin, "
        "readonly, worker-service and server do not.",
    .options = &cert_issue_table,
    .arguments = "KIND",
    .arguments_min = 1,
    .arguments_max = 1,
    .examples = issue_examples,
    .exits = BIT(1) | BIT(2) | BIT(4) | BIT(5) | BIT(6),
    .run = run_issue,
};

static const struct command_example renew_examples[] = {
    {"musterctl cert renew", "every certificate in ./tls that is past two thirds of its life"},
    {"musterctl cert renew tls/replica-1.pem --force --new-key", "this one, now, with a fresh key"},
    {NULL, NULL},
};
const struct command cert_renew_command = {
    .name = "renew",
    .summary = "renew certificates that are due",
    .about =
        "Renews certificates with the names and uses they have. Without FILE, all in --dir. "
        "One that "
        "is still good is kept, unless --force. One that is refused does not stop the others; the "
        "exit code is the highest of all.",
    .options = &cert_renew_table,
    .arguments = "[FILE]...",
    .arguments_max = CONF_ARGUMENTS_MAX,
    .examples = renew_examples,
    .exits = BIT(1) | BIT(2) | BIT(4) | BIT(5) | BIT(6),
    .run = run_renew,
};
