/* musterctl cert: a small authority on disk and the certificates it gives, over io/cert.h. */
#include <stdio.h>
#include <string.h>

#include "common/program.h"
#include "common/tables.h"
#include "conf/nearest.h"
#include "io/cert.h"
#include "io/clock.h"
#include "musterctl/commands.h"
#include "text/ndjson.h"

enum { PATH_CAP = 4096, CERT_RENEW_FILES_MAX = 1000 };

static wall_time now(void)
{
    return clock_wall(clock_real());
}

static void warn_exposed(bool exposed, const char *path)
{
    if (exposed) fprintf(stderr, "warning: %s may be read by others; chmod 600 it\n", path);
}

static bool join_path(char path[PATH_CAP], const char *dir, const char *name)
{
    return snprintf(path, PATH_CAP, "%s/%s", dir, name) < PATH_CAP;
}

/* -- the authority -- */

static struct cert_ca_options ca_options(const struct conf *conf)
{
    return (struct cert_ca_options){
        .dir = conf_text(conf, "dir"),
        .common_name = conf_text(conf, "common-name"),
        .days = (uint32_t)conf_number(conf, "days"),
        .rollout = conf_bool(conf, "rollout"),
        .strict_permissions = conf_bool(conf, "strict-permissions"),
    };
}

static enum err print_ca_json(const struct cert_ca_report *report, const char *what,
                              const char *file)
{
    char until[WALL_TEXT_CAP];
    struct ndjson line;
    struct buf out;
    enum err err;

    wall_text(report->not_after, until);
    buf_init(&out, PROGRAM_TEXT_MAX);
    ndjson_begin(&line, &out, NDJSON_LINE);
    ndjson_c_string(&line, STR("result"), what);
    ndjson_c_string(&line, STR("cert"), file);
    ndjson_c_string(&line, STR("not_after"), until);
    ndjson_u64(&line, STR("roots"), report->roots);
    ndjson_bool(&line, STR("key_exposed"), report->key_exposed);
    err = ndjson_end(&line);
    if (!err && program_print(buf_peek(&out))) err = ERR_IO;
    buf_deinit(&out);
    return err;
}

static enum err print_ca(const struct conf *conf, const struct cert_ca_report *report,
                         const char *what)
{
    char file[PATH_CAP], key[PATH_CAP], until[WALL_TEXT_CAP];

    if (!join_path(file, conf_text(conf, "dir"), "ca.pem")) return ERR_INVALID;
    if (!join_path(key, conf_text(conf, "dir"), "ca.key.pem")) return ERR_INVALID;
    warn_exposed(report->key_exposed, key);
    if (report->renew_soon.text[0]) fprintf(stderr, "warning: %s\n", report->renew_soon.text);
    if (conf_bool(conf, "json")) return print_ca_json(report, what, file);
    wall_text(report->not_after, until);
    printf("%-8s %s  signs until %s", what, file, until);
    if (report->roots > 1) printf("; %zu roots are trusted", report->roots);
    printf("\n");
    return ERR_OK;
}

static int finish(const struct command_call *call, struct conf *conf, enum err err,
                  const struct note *note)
{
    int exit_code = err ? program_fail(call, err, note) : 0;
    conf_close(conf);
    return exit_code;
}

static int run_ca(void *context, const struct command_call *call)
{
    struct cert_ca_report report;
    struct note note = {""};
    struct conf *conf;
    enum err err = program_load_conf(context, call, &conf);

    if (err) return err_exit_code(err);
    struct cert_ca_options options = ca_options(conf);
    err = cert_ca_ensure(fs_real(), &options, now(), &report, &note);
    if (!err) err = print_ca(conf, &report, cert_result_text(report.result));
    return finish(call, conf, err, &note);
}

/* The commonest mistake has a next step. */
static void explain_no_authority(enum err err, const char *dir, struct note *note)
{
    char file[PATH_CAP];
    struct fs_info info;
    bool absent = err == ERR_NOT_FOUND && join_path(file, dir, "ca.pem") &&
                  fs_stat(fs_real(), file, &info) == ERR_NOT_FOUND;
    if (absent)
        note_set(note, "no authority in %s; make one with: musterctl cert ca --dir %s", dir, dir);
}

static int run_rotate(void *context, const struct command_call *call)
{
    struct cert_ca_report report;
    struct note note = {""};
    struct conf *conf;
    enum err err = program_load_conf(context, call, &conf);

    if (err) return err_exit_code(err);
    struct cert_ca_options options = ca_options(conf);
    err = cert_ca_rotate(fs_real(), &options, now(), &report, &note);
    explain_no_authority(err, options.dir, &note);
    if (!err) err = print_ca(conf, &report, "rotated");
    if (!err && !conf_bool(conf, "json")) {
        printf("next: musterctl cert renew --dir %s, then musterctl cert retire --dir %s\n",
               options.dir, options.dir);
    }
    return finish(call, conf, err, &note);
}

static int run_retire(void *context, const struct command_call *call)
{
    struct cert_ca_report report;
    struct note note = {""};
    struct conf *conf;
    enum err err = program_load_conf(context, call, &conf);

    if (err) return err_exit_code(err);
    struct cert_ca_options options = {.dir = conf_text(conf, "dir"),
                                      .strict_permissions = conf_bool(conf, "strict-permissions")};
    err = cert_ca_retire(fs_real(), &options, conf_bool(conf, "force"), now(), &report, &note);
    explain_no_authority(err, options.dir, &note);
    if (!err) err = print_ca(conf, &report, report.result == CERT_KEPT ? "kept" : "retired");
    return finish(call, conf, err, &note);
}

/* -- leaves -- */

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

static enum err print_leaf(bool json, const struct cert_leaf_report *report, const char *cert_file,
                           const char *key_file)
{
    char until[WALL_TEXT_CAP];

    warn_exposed(report->key_exposed, key_file);
    if (json) return print_leaf_json(report, cert_file, key_file);
    wall_text(report->not_after, until);
    printf("%-8s %s  valid until %s", cert_result_text(report->result), cert_file, until);
    if (report->why[0]) printf("; %s", report->why);
    printf("\n");
    return ERR_OK;
}

/* DIR/replica-1 and DIR/admin, unless --out says otherwise. */
static enum err leaf_files(const struct conf *conf, enum cert_kind kind, char cert_file[PATH_CAP],
                           char key_file[PATH_CAP], struct note *note)
{
    const char *out = conf_text(conf, "out"), *id = conf_text(conf, "id");
    char base[PATH_CAP];
    int len;

    if (out)
        len = snprintf(base, PATH_CAP, "%s", out);
    else if (id)
        len = snprintf(base, PATH_CAP, "%s/%s-%s", conf_text(conf, "dir"),
                       cert_kind_infos[kind].name, id);
    else
        len = snprintf(base, PATH_CAP, "%s/%s", conf_text(conf, "dir"), cert_kind_infos[kind].name);
    if (len >= PATH_CAP - 16) {
        note_set(note, "the path is too long");
        return ERR_INVALID;
    }
    snprintf(cert_file, PATH_CAP, "%.*s.pem", PATH_CAP - 16, base);
    snprintf(key_file, PATH_CAP, "%.*s.key.pem", PATH_CAP - 16, base);
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

static int run_issue(void *context, const struct command_call *call)
{
    struct cert_request request = {.id = STR_EMPTY};
    struct cert_leaf_report report;
    char cert_file[PATH_CAP], key_file[PATH_CAP];
    struct note note = {""};
    struct conf *conf;
    enum err err = program_load_conf(context, call, &conf);

    if (err) return err_exit_code(err);
    err = read_request(conf, &request, &note);
    if (!err) err = leaf_files(conf, request.kind, cert_file, key_file, &note);
    if (!err) {
        struct cert_leaf_options options = {
            .ca_dir = conf_text(conf, "dir"),
            .cert_file = cert_file,
            .key_file = key_file,
            .force = conf_bool(conf, "force"),
            .new_key = conf_bool(conf, "new-key"),
        };
        err = cert_leaf_ensure(fs_real(), &options, &request, now(), &report, &note);
        explain_no_authority(err, options.ca_dir, &note);
    }
    if (!err) err = print_leaf(conf_bool(conf, "json"), &report, cert_file, key_file);
    return finish(call, conf, err, &note);
}

static enum err renew_one(const struct conf *conf, const char *cert_file, struct note *note)
{
    struct str path = str_from(cert_file);
    struct cert_leaf_report report;
    char key_file[PATH_CAP];
    enum err err;

    if (!str_ends(path, STR(".pem")) || str_ends(path, STR(".key.pem")) ||
        path.len > PATH_CAP - 16) {
        note_set(note, "%s: give the certificate, NAME.pem; its key is NAME.key.pem", cert_file);
        return ERR_INVALID;
    }
    snprintf(key_file, sizeof key_file, "%.*s.key.pem", (int)path.len - 4, cert_file);
    struct cert_leaf_options options = {
        .ca_dir = conf_text(conf, "dir"),
        .cert_file = cert_file,
        .key_file = key_file,
        .force = conf_bool(conf, "force"),
        .new_key = conf_bool(conf, "new-key"),
    };
    err = cert_leaf_renew(fs_real(), &options, now(), &report, note);
    if (err) {
        explain_no_authority(err, options.ca_dir, note);
        return err;
    }
    return print_leaf(conf_bool(conf, "json"), &report, cert_file, key_file);
}

/* -- every leaf of a directory, in the order of their names -- */

struct leaf_list {
    struct arena memory;
    const char *names[CERT_RENEW_FILES_MAX];
    size_t count;
    enum err err;
};

static void gather_leaf(void *context, const char *name, enum fs_kind kind)
{
    struct leaf_list *list = context;
    struct str text = str_from(name);
    size_t place;

    if (kind == FS_DIRECTORY || name[0] == '.' || !str_ends(text, STR(".pem"))) return;
    if (str_ends(text, STR(".key.pem")) || str_equal(text, STR("ca.pem"))) return;
    if (list->count == CERT_RENEW_FILES_MAX) list->err = ERR_TOO_LARGE;
    char *copy = list->err ? NULL : arena_dup(&list->memory, text);
    if (!copy) {
        if (!list->err) list->err = ERR_NOMEM;
        return;
    }
    for (place = list->count++; place > 0 && strcmp(list->names[place - 1], copy) > 0; place--) {
        list->names[place] = list->names[place - 1];
    }
    list->names[place] = copy;
}

static enum err renew_all(const struct conf *conf, struct note *note)
{
    enum { NAMES_MAX = 1024 * 1024 };
    const char *dir = conf_text(conf, "dir");
    struct leaf_list list = {.count = 0};
    char path[PATH_CAP];
    enum err err;

    arena_init(&list.memory, NAMES_MAX);
    err = fs_list(fs_real(), dir, gather_leaf, &list);
    if (!err) err = list.err;
    if (err == ERR_TOO_LARGE)
        note_set(note, "%s: more than %d certificates", dir, CERT_RENEW_FILES_MAX);
    else if (err)
        note_set(note, "%s: %s", dir, err_text(err));
    explain_no_authority(err, dir, note);
    for (size_t i = 0; i < list.count && !err; i++) {
        err = join_path(path, dir, list.names[i]) ? renew_one(conf, path, note) : ERR_INVALID;
    }
    arena_deinit(&list.memory);
    return err;
}

static int run_renew(void *context, const struct command_call *call)
{
    struct note note = {""};
    struct conf *conf;
    enum err err = program_load_conf(context, call, &conf);

    if (err) return err_exit_code(err);
    if (conf_argument_count(conf) == 0) err = renew_all(conf, &note);
    for (size_t i = 0; i < conf_argument_count(conf) && !err; i++) {
        err = renew_one(conf, conf_argument(conf, i), &note);
    }
    return finish(call, conf, err, &note);
}

/* -- looking -- */

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
    printf("  use          %s%s%s%s\n", d->is_ca ? "authority" : "", d->server_use ? "server" : "",
           d->server_use && d->client_use ? ", " : "", d->client_use ? "client" : "");
    printf("  key          %s\n  serial       %s\n  fingerprint  %s\n", d->key, d->serial_hex,
           d->fingerprint);
}

static enum err show_json(const struct cert_description *d, const char *path)
{
    char from[WALL_TEXT_CAP], until[WALL_TEXT_CAP];
    struct ndjson line;
    struct buf out;
    enum err err;

    wall_text(d->not_before, from);
    wall_text(d->not_after, until);
    buf_init(&out, PROGRAM_TEXT_MAX);
    ndjson_begin(&line, &out, NDJSON_LINE);
    ndjson_c_string(&line, STR("file"), path);
    ndjson_c_string(&line, STR("subject"), d->subject);
    ndjson_c_string(&line, STR("issuer"), d->issuer);
    ndjson_open_array(&line, STR("names"));
    for (size_t i = 0; i < d->name_count; i++) ndjson_c_string(&line, NDJSON_ITEM, d->names[i]);
    ndjson_close_array(&line);
    ndjson_c_string(&line, STR("not_before"), from);
    ndjson_c_string(&line, STR("not_after"), until);
    ndjson_i64(&line, STR("days_left"), d->days_left);
    ndjson_bool(&line, STR("ca"), d->is_ca);
    ndjson_bool(&line, STR("server"), d->server_use);
    ndjson_bool(&line, STR("client"), d->client_use);
    ndjson_c_string(&line, STR("key"), d->key);
    ndjson_c_string(&line, STR("serial"), d->serial_hex);
    ndjson_c_string(&line, STR("fingerprint"), d->fingerprint);
    err = ndjson_end(&line);
    if (!err && program_print(buf_peek(&out))) err = ERR_IO;
    buf_deinit(&out);
    return err;
}

static enum err show_file(const char *path, bool json, struct note *note)
{
    struct cert_description *list;
    size_t count;
    enum err err = cert_describe(fs_real(), path, now(), &list, &count, note);

    if (err) return err;
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
    enum err err = program_load_conf(context, call, &conf);

    if (err) return err_exit_code(err);
    for (size_t i = 0; i < conf_argument_count(conf) && !err; i++) {
        err = show_file(conf_argument(conf, i), conf_bool(conf, "json"), &note);
    }
    return finish(call, conf, err, &note);
}

/* -- the tree -- */

static const struct command_example ca_examples[] = {
    {"musterctl cert ca", "make the authority in ./tls, or say that it is there"},
    {"musterctl cert ca --dir /etc/muster/tls --days 365", "elsewhere, for a year"},
    {NULL, NULL},
};
static const struct command ca_command = {
    .name = "ca",
    .summary = "make the authority, or find it",
    .about =
        "Makes a root certificate and its key in a directory. When they are there already they are "
        "kept; nothing is ever overwritten.",
    .options = &cert_ca_table,
    .examples = ca_examples,
    .exits = BIT(1) | BIT(2) | BIT(4) | BIT(6),
    .run = run_ca,
};

static const struct command_example issue_examples[] = {
    {"musterctl cert issue replica --id 1",
     "tls/replica-1.pem: muster://replica/1 and bigfleet://admin"},
    {"musterctl cert issue --dir ./tls shard --id eu-1 --names shard1.example,10.0.0.7",
     "one that is served under a name and an address"},
    {"musterctl cert issue admin", "tls/admin.pem, for musterctl and people"},
    {NULL, NULL},
};
static const struct command issue_command = {
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
static const struct command renew_command = {
    .name = "renew",
    .summary = "renew certificates that are due",
    .about = "Renews certificates with the names and uses they have. Without FILE, all in --dir. "
             "One that "
             "is still good is kept, unless --force.",
    .options = &cert_renew_table,
    .arguments = "[FILE]...",
    .arguments_max = CONF_ARGUMENTS_MAX,
    .examples = renew_examples,
    .exits = BIT(1) | BIT(2) | BIT(4) | BIT(5) | BIT(6),
    .run = run_renew,
};

static const struct command_example show_examples[] = {
    {"musterctl cert show tls/replica-1.pem", "who it is, who signed it, how long it lasts"},
    {NULL, NULL},
};
static const struct command show_command = {
    .name = "show",
    .summary = "show what certificates say",
    .about =
        "Prints every certificate in PEM files: subject, names, dates, use, key and fingerprint.",
    .options = &cert_show_table,
    .arguments = "FILE...",
    .arguments_min = 1,
    .arguments_max = CONF_ARGUMENTS_MAX,
    .examples = show_examples,
    .exits = BIT(1) | BIT(2) | BIT(5),
    .run = run_show,
};

static const struct command_example rotate_examples[] = {
    {"musterctl cert rotate", "a new root signs; the old one stays trusted"},
    {"musterctl cert renew && musterctl cert retire",
     "later, when every process has the new ca.pem"},
    {NULL, NULL},
};
static const struct command rotate_command = {
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
static const struct command retire_command = {
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

static const struct command_example examples[] = {
    {"musterctl cert ca && musterctl cert issue replica --id 1",
     "an authority and a first certificate"},
    {NULL, NULL},
};
static const struct command *const children[] = {
    &ca_command,     &issue_command,  &show_command, &renew_command,
    &rotate_command, &retire_command, NULL,
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
