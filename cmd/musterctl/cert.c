/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl cert: the commands over cert/cert.h, and what they print.
 *
 * A command that is given several files goes on after one that was refused: a daily renewal must
 * reach every file. Its exit code is the highest of all. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cert/cert.h"
#include "common/program.h"
#include "common/tables.h"
#include "conf/nearest.h"
#include "io/clock.h"
#include "musterctl/commands.h"
#include "text/ndjson.h"

enum { CERT_RENEW_FILES_MAX = 1000 };

static wall_time cert_now(void)
{
    return clock_wall(clock_real());
}

/* -- printing ---------------------------------------------------------------------------------- */

struct cert_json {
    struct ndjson line;
    struct buf out;
};

static void json_begin(struct cert_json *json)
{
    buf_init(&json->out, PROGRAM_TEXT_MAX);
    ndjson_begin(&json->line, &json->out, NDJSON_LINE);
}

static void json_time(struct cert_json *json, struct str key, wall_time time)
{
    char text[WALL_TEXT_CAP];

    wall_text(time, text);
    ndjson_c_string(&json->line, key, text);
}

static enum err json_end(struct cert_json *json)
{
    enum err err = ndjson_end(&json->line);

    if (!err && program_print(buf_peek(&json->out))) err = ERR_IO;
    buf_deinit(&json->out);
    return err;
}

/* What became of a root or a leaf; `done` is the word for it. */
static enum err print_report(const struct conf *conf, const struct cert_report *report,
                             const char *done, const char *cert_file, const char *key_file)
{
    bool is_leaf = report->roots == 0;
    char until[WALL_TEXT_CAP];
    struct cert_json json;

    if (report->key_exposed)
        fprintf(stderr, "warning: %s may be read by others; chmod 600 it\n", key_file);
    if (report->renew_soon.text[0]) fprintf(stderr, "warning: %s\n", report->renew_soon.text);
    if (conf_bool(conf, "json")) {
        json_begin(&json);
        ndjson_c_string(&json.line, STR("result"), done);
        ndjson_c_string(&json.line, STR("cert"), cert_file);
        if (is_leaf) ndjson_c_string(&json.line, STR("key"), key_file);
        ndjson_c_string(&json.line, STR("why"), report->why[0] ? report->why : NULL);
        if (is_leaf) json_time(&json, STR("not_before"), report->not_before);
        json_time(&json, STR("not_after"), report->not_after);
        if (is_leaf)
            ndjson_bool(&json.line, STR("key_made"), report->key_made);
        else
            ndjson_u64(&json.line, STR("roots"), report->roots);
        ndjson_bool(&json.line, STR("key_exposed"), report->key_exposed);
        return json_end(&json);
    }
    wall_text(report->not_after, until);
    printf("%-8s %s  %s until %s", done, cert_file, is_leaf ? "valid" : "signs", until);
    if (report->roots > 1) printf("; %zu roots are trusted", report->roots);
    if (report->why[0]) printf("; %s", report->why);
    printf("\n");
    return ERR_OK;
}

/* Where --days was given and what is kept was made for another number of them: says so. */
static void compare_days(const struct conf *conf, const char *advice, struct cert_report *report)
{
    const uint64_t day_ms = 86400ull * MS_PER_SECOND;
    uint64_t from = report->not_before.ms, until = report->not_after.ms;
    uint64_t asked = conf_number(conf, "days");
    /* A certificate begins a few minutes early: to the nearest day. */
    uint64_t has = until > from ? (until - from + day_ms / 2) / day_ms : 0;

    if (report->result != CERT_KEPT || conf_source(conf, "days") == CONF_DEFAULT || asked == has)
        return;
    snprintf(report->why, sizeof report->why, "asked for %" PRIu64 " days, has %" PRIu64 "; %s",
             asked, has, advice);
}

/* Prints the error as a line of its own, empties the note and keeps in *worst the error with the
 * highest exit code. ERR_OK: nothing happens. */
static void print_refused(const struct command_call *call, enum err err, struct note *note,
                          enum err *worst)
{
    if (!err) return;
    fflush(stdout); /* what was printed before stays before */
    (void)program_fail(call, err, note);
    note->text[0] = '\0';
    if (err_exit_code(err) > err_exit_code(*worst)) *worst = err;
}

static int run(void *context, const struct command_call *call,
               enum err act(const struct conf *conf, struct note *note))
{
    struct note note = {""};
    struct conf *conf;
    enum err err = program_load_conf(context, call, &conf);
    int exit_code;

    if (err) return err_exit_code(err);
    err = act(conf, &note);
    exit_code = err ? program_fail(call, err, &note) : 0;
    conf_close(conf);
    return exit_code;
}

/* -- ca, rotate, retire ------------------------------------------------------------------------ */

/* retire has none of the options that describe a root. */
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

static enum err print_ca(const struct conf *conf, const struct cert_report *report,
                         const char *done)
{
    const char *dir = conf_text(conf, "dir");
    char file[CERT_PATH_CAP], key[CERT_PATH_CAP];

    if (snprintf(file, sizeof file, "%s/" CERT_CA_FILE, dir) >= CERT_PATH_CAP ||
        snprintf(key, sizeof key, "%s/" CERT_CA_KEY_FILE, dir) >= CERT_PATH_CAP)
        return ERR_INVALID;
    return print_report(conf, report, done, file, key);
}

static enum err ca_ensure(const struct conf *conf, struct note *note)
{
    struct cert_ca_options options = ca_options(conf, true);
    struct cert_report report;
    enum err err;

    /* Without a wish, whatever is there is the right one. */
    if (conf_source(conf, "common-name") == CONF_DEFAULT) options.common_name = NULL;
    err = cert_ca_ensure(fs_real(), &options, cert_now(), &report, note);
    if (err) return err;
    if (!options.rollout) compare_days(conf, "rotate makes a new root", &report);
    return print_ca(conf, &report, cert_result_text(report.result));
}

static enum err ca_rotate(const struct conf *conf, struct note *note)
{
    struct cert_ca_options options = ca_options(conf, true);
    struct cert_report report;
    enum err err = cert_ca_rotate(fs_real(), &options, cert_now(), &report, note);

    if (err == ERR_NOT_FOUND) (void)cert_ca_is_absent(fs_real(), options.dir, note);
    if (!err) err = print_ca(conf, &report, "rotated");
    if (!err && !conf_bool(conf, "json")) {
        printf("next: musterctl cert renew --dir %s, then musterctl cert retire --dir %s\n",
               options.dir, options.dir);
    }
    return err;
}

static enum err ca_retire(const struct conf *conf, struct note *note)
{
    struct cert_ca_options options = ca_options(conf, false);
    struct cert_report report;
    enum err err =
        cert_ca_retire(fs_real(), &options, conf_bool(conf, "force"), cert_now(), &report, note);

    if (err == ERR_NOT_FOUND) (void)cert_ca_is_absent(fs_real(), options.dir, note);
    if (err) return err;
    return print_ca(conf, &report, report.result == CERT_KEPT ? "kept" : "retired");
}

static int run_ca(void *context, const struct command_call *call)
{
    return run(context, call, ca_ensure);
}

static int run_rotate(void *context, const struct command_call *call)
{
    return run(context, call, ca_rotate);
}

static int run_retire(void *context, const struct command_call *call)
{
    return run(context, call, ca_retire);
}

/* -- issue, renew ------------------------------------------------------------------------------ */

/* The files beside `base`: base.pem and base.key.pem. */
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

/* DIR/replica-1 and DIR/admin, unless --out says otherwise. */
static enum err leaf_files_of(const struct conf *conf, enum cert_kind kind,
                              struct leaf_files *files, struct note *note)
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
    if (!out) {
        len = snprintf(base, sizeof base, "%s/%s%s%s", conf_text(conf, "dir"), cert_kind_name(kind),
                       id ? "-" : "", id ? id : "");
        stem = str_of(base, (size_t)len);
    }
    if (leaf_files_from(stem, files)) return ERR_OK;
    note_set(note, "the path is too long");
    return ERR_INVALID;
}

static enum err issue_and_print(const struct conf *conf, const struct leaf_files *files,
                                const struct cert_request *request, struct note *note)
{
    struct cert_leaf_options options = {
        .ca_dir = conf_text(conf, "dir"),
        .cert_file = files->cert,
        .key_file = files->key,
        .force = conf_bool(conf, "force"),
        .new_key = conf_bool(conf, "new-key"),
    };
    struct cert_report report;
    enum err err = cert_leaf_ensure(fs_real(), &options, request, cert_now(), &report, note);

    if (err) return err;
    if (request) compare_days(conf, "--force renews it", &report);
    if (report.result == CERT_KEPT && options.new_key && !report.why[0])
        snprintf(report.why, sizeof report.why, "its key too; --force renews both");
    return print_report(conf, &report, cert_result_text(report.result), files->cert, files->key);
}

static enum err read_kind(const char *word, enum cert_kind *ret_kind, struct note *note)
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

static enum err read_request(const struct conf *conf, struct cert_request *request,
                             struct note *note)
{
    struct option_value names = conf_list(conf, "names");
    enum err err = read_kind(conf_argument(conf, 0), &request->kind, note);

    if (err) return err;
    const char *kind = cert_kind_name(request->kind), *means = cert_kind_id_means(request->kind);
    request->id = str_from(conf_text(conf, "id"));
    request->days = (uint32_t)conf_number(conf, "days");
    if (means && request->id.len == 0) {
        note_set(note, "%s needs --id, the %s", kind, means);
        return ERR_INVALID;
    }
    if (!means && request->id.len > 0) {
        note_set(note, "%s takes no --id", kind);
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

static enum err issue(const struct conf *conf, struct note *note)
{
    struct cert_request request = {.id = STR_EMPTY};
    struct leaf_files files;
    enum err err = read_request(conf, &request, note);

    if (!err) err = leaf_files_of(conf, request.kind, &files, note);
    if (err) return err;
    err = issue_and_print(conf, &files, &request, note);
    if (err == ERR_NOT_FOUND) (void)cert_ca_is_absent(fs_real(), conf_text(conf, "dir"), note);
    return err;
}

static int run_issue(void *context, const struct command_call *call)
{
    return run(context, call, issue);
}

static enum err renew_one(const struct conf *conf, const char *cert_file, struct note *note)
{
    struct str path = str_from(cert_file);
    struct leaf_files files;

    if (!str_ends(path, STR(".pem")) || str_ends(path, STR(".key.pem")) ||
        !leaf_files_from(str_of(path.at, path.len - 4), &files)) {
        note_set(note, "%s: give the certificate, NAME.pem; its key is NAME.key.pem", cert_file);
        return ERR_INVALID;
    }
    return issue_and_print(conf, &files, NULL, note);
}

static enum err renew_each(const struct conf *conf, const struct command_call *call, size_t count,
                           const char *const *files)
{
    const char *dir = conf_text(conf, "dir");
    struct note note = {""};
    enum err worst = ERR_OK;
    bool absent = false;

    for (size_t i = 0; i < count && !absent; i++) {
        enum err err = renew_one(conf, files[i], &note);
        /* would be said of each of them */
        absent = err == ERR_NOT_FOUND && cert_ca_is_absent(fs_real(), dir, &note);
        print_refused(call, err, &note, &worst);
    }
    return worst;
}

static enum err renew_all(const struct conf *conf, const struct command_call *call)
{
    const char *dir = conf_text(conf, "dir"), **files = NULL;
    struct note note = {""};
    enum err worst = ERR_OK;
    size_t count = 0;
    enum err err = cert_list_leaves(fs_real(), dir, &files, &count, &note);

    if (!err && count > CERT_RENEW_FILES_MAX) err = ERR_TOO_LARGE;
    if (err == ERR_TOO_LARGE)
        note_set(&note, "%s: more than %d certificates", dir, CERT_RENEW_FILES_MAX);
    else if (err)
        note_set(&note, "%s: %s", dir, err_text(err));
    if (err == ERR_NOT_FOUND) (void)cert_ca_is_absent(fs_real(), dir, &note);
    print_refused(call, err, &note, &worst);
    if (!err) worst = renew_each(conf, call, count, files);
    free(files);
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

/* -- show -------------------------------------------------------------------------------------- */

static void show_uses(const struct cert_description *d)
{
    const struct {
        bool has;
        const char *word;
    } uses[] = {{d->is_ca, "authority"}, {d->server_use, "server"}, {d->client_use, "client"}};
    const char *before = "";

    printf("  use          ");
    for (size_t i = 0; i < ARRAY_LEN(uses); i++) {
        if (!uses[i].has) continue;
        printf("%s%s", before, uses[i].word);
        before = ", ";
    }
    printf("%s\n", before[0] ? "" : "none of these: authority, server, client");
}

static void show_text(const struct cert_description *d, const char *path)
{
    char from[WALL_TEXT_CAP], until[WALL_TEXT_CAP];

    wall_text(d->not_before, from);
    wall_text(d->not_after, until);
    printf("%s\n  subject      %s\n  issuer       %s%s\n", path, d->subject, d->issuer,
           d->self_signed ? " (itself)" : "");
    for (size_t i = 0; i < d->name_count; i++) printf("  name         %s\n", d->names[i]);
    printf("  valid        %s to %s, ", from, until);
    if (d->days_left < 0)
        printf("expired\n");
    else
        printf("%lld days left\n", (long long)d->days_left);
    show_uses(d);
    printf("  key          %s\n  serial       %s\n  fingerprint  %s\n", d->key, d->serial_hex,
           d->fingerprint);
}

static enum err show_json(const struct cert_description *d, const char *path)
{
    struct cert_json json;
    struct ndjson *line = &json.line;

    json_begin(&json);
    ndjson_c_string(line, STR("file"), path);
    ndjson_c_string(line, STR("subject"), d->subject);
    ndjson_c_string(line, STR("issuer"), d->issuer);
    ndjson_open_array(line, STR("names"));
    for (size_t i = 0; i < d->name_count; i++) ndjson_c_string(line, NDJSON_ITEM, d->names[i]);
    ndjson_close_array(line);
    json_time(&json, STR("not_before"), d->not_before);
    json_time(&json, STR("not_after"), d->not_after);
    ndjson_i64(line, STR("days_left"), d->days_left);
    ndjson_bool(line, STR("ca"), d->is_ca);
    ndjson_bool(line, STR("server"), d->server_use);
    ndjson_bool(line, STR("client"), d->client_use);
    ndjson_c_string(line, STR("key"), d->key);
    ndjson_c_string(line, STR("serial"), d->serial_hex);
    ndjson_c_string(line, STR("fingerprint"), d->fingerprint);
    return json_end(&json);
}

static enum err show_key(const char *path, bool as_json)
{
    struct cert_json json;

    if (!as_json) {
        printf("%s\n  a private key\n", path);
        return ERR_OK;
    }
    json_begin(&json);
    ndjson_c_string(&json.line, STR("file"), path);
    ndjson_bool(&json.line, STR("private_key"), true);
    return json_end(&json);
}

static enum err show_file(const char *path, bool json, struct note *note)
{
    struct cert_description *list;
    size_t count;
    enum err err = cert_describe(fs_real(), path, cert_now(), &list, &count, note);

    if (err) return err;
    if (count == 0) err = show_key(path, json);
    for (size_t i = 0; i < count && !err; i++) {
        if (json)
            err = show_json(&list[i], path);
        else
            show_text(&list[i], path);
    }
    cert_descriptions_free(list, count);
    return err;
}

static int run_show(void *context, const struct command_call *call)
{
    struct note note = {""};
    struct conf *conf;
    enum err err = program_load_conf(context, call, &conf), worst = ERR_OK;

    if (err) return err_exit_code(err);
    for (size_t i = 0; i < conf_argument_count(conf); i++) {
        err = show_file(conf_argument(conf, i), conf_bool(conf, "json"), &note);
        print_refused(call, err, &note, &worst);
    }
    conf_close(conf);
    return err_exit_code(worst);
}

/* -- the commands ------------------------------------------------------------------------------ */

static const struct command_example ca_examples[] = {
    {"musterctl cert ca", "make the authority in ./tls, or say that it is there"},
    {"musterctl cert ca --dir /etc/muster/tls --days 365", "elsewhere, for a year"},
    {NULL, NULL},
};
static const struct command cert_ca_command = {
    .name = "ca",
    .summary = "make the authority, or find it",
    .about =
        "Makes a root certificate and its key in a directory. When they are there already they are "
        "kept; nothing is ever overwritten. One that has another --common-name than was asked for, "
        "or is not the --rollout one, is a conflict.",
    .options = &cert_ca_table,
    .examples = ca_examples,
    .exits = BIT(1) | BIT(2) | BIT(4) | BIT(6),
    .run = run_ca,
};

static const struct command_example rotate_examples[] = {
    {"musterctl cert rotate", "a new root signs; the old one stays trusted"},
    {"musterctl cert renew && musterctl cert retire",
     "later, when every process has the new ca.pem"},
    {NULL, NULL},
};
static const struct command cert_rotate_command = {
    .name = "rotate",
    .summary = "begin to sign with a new root",
    .about =
        "Makes a new root that signs from now on; the old ones stay in ca.pem and stay trusted, so "
        "nothing breaks. Give the new ca.pem to every process, then renew the certificates, then "
        "retire the old roots.",
    .options = &cert_rotate_table,
    .examples = rotate_examples,
    .exits = BIT(1) | BIT(2) | BIT(4) | BIT(5) | BIT(6),
    .run = run_rotate,
};

static const struct command_example retire_examples[] = {
    {"musterctl cert retire", "drop every root but the one that signs"},
    {NULL, NULL},
};
static const struct command cert_retire_command = {
    .name = "retire",
    .summary = "drop the old roots after a rotation",
    .about = "Drops every root but the one that signs. Refused while a certificate in --dir is "
             "still signed "
             "by an old one, unless --force.",
    .options = &cert_retire_table,
    .examples = retire_examples,
    .exits = BIT(1) | BIT(2) | BIT(4) | BIT(5) | BIT(6),
    .run = run_retire,
};

static const struct command_example issue_examples[] = {
    {"musterctl cert issue replica --id 1",
     "tls/replica-1.pem: muster://replica/1 and bigfleet://admin"},
    {"musterctl cert issue --dir ./tls shard --id eu-1 --names shard1.example,10.0.0.7",
     "one that is served under a name and an address"},
    {"musterctl cert issue admin", "tls/admin.pem, for musterctl and people"},
    {NULL, NULL},
};
static const struct command cert_issue_command = {
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
static const struct command cert_renew_command = {
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

static const struct command_example show_examples[] = {
    {"musterctl cert show tls/replica-1.pem", "who it is, who signed it, how long it lasts"},
    {"musterctl cert show tls/*.pem", "everything in a directory"},
    {NULL, NULL},
};
static const struct command cert_show_command = {
    .name = "show",
    .summary = "show what certificates say",
    .about =
        "Prints every certificate in PEM files: subject, names, dates, use, key and fingerprint. A "
        "private key is called one, and nothing of it is shown. A file that cannot be read does "
        "not "
        "stop the others.",
    .options = &cert_show_table,
    .arguments = "FILE...",
    .arguments_min = 1,
    .arguments_max = CONF_ARGUMENTS_MAX,
    .examples = show_examples,
    .exits = BIT(1) | BIT(2) | BIT(5),
    .run = run_show,
};

static const struct command_example examples[] = {
    {"musterctl cert ca && musterctl cert issue replica --id 1",
     "an authority and a first certificate"},
    {NULL, NULL},
};
static const struct command *const children[] = {
    &cert_ca_command,
    &cert_issue_command,
    &cert_show_command,
    &cert_renew_command,
    &cert_rotate_command,
    &cert_retire_command,
    NULL,
};
const struct command cert_command = {
    .name = "cert",
    .summary = "a small certificate authority for development and small sites",
    .about = "Keeps one authority in a directory and gives every identity of a fleet its "
             "certificate. Keys "
             "are written 0600. Every command can be repeated: what is good is kept.",
    .examples = examples,
    .children = children,
};
