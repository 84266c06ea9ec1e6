/* musterctl cert issue, renew: certificates for the identities of a fleet. */
#include <stdio.h>
#include <string.h>

#include "common/program.h"
#include "common/tables.h"
#include "conf/nearest.h"
#include "musterctl/cert.h"
#include "text/ndjson.h"

enum { CERT_RENEW_FILES_MAX = 1000 };

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

    cert_warn_exposed(report->key_exposed, key_file);
    if (json) return print_leaf_json(report, cert_file, key_file);
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
    char base[CERT_PATH_CAP];
    int len;

    if (out)
        len = snprintf(base, CERT_PATH_CAP, "%s", out);
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

static int run_issue(void *context, const struct command_call *call)
{
    struct cert_request request = {.id = STR_EMPTY};
    struct cert_leaf_report report;
    char cert_file[CERT_PATH_CAP], key_file[CERT_PATH_CAP];
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
        err = cert_leaf_ensure(fs_real(), &options, &request, cert_now(), &report, &note);
        cert_explain_absent(err, options.ca_dir, &note);
    }
    if (!err) err = print_leaf(conf_bool(conf, "json"), &report, cert_file, key_file);
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
    struct cert_leaf_options options = {
        .ca_dir = conf_text(conf, "dir"),
        .cert_file = cert_file,
        .key_file = key_file,
        .force = conf_bool(conf, "force"),
        .new_key = conf_bool(conf, "new-key"),
    };
    err = cert_leaf_renew(fs_real(), &options, cert_now(), &report, note);
    if (err) {
        cert_explain_absent(err, options.ca_dir, note);
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
    char path[CERT_PATH_CAP];
    enum err err;

    arena_init(&list.memory, NAMES_MAX);
    err = fs_list(fs_real(), dir, gather_leaf, &list);
    if (!err) err = list.err;
    if (err == ERR_TOO_LARGE)
        note_set(note, "%s: more than %d certificates", dir, CERT_RENEW_FILES_MAX);
    else if (err)
        note_set(note, "%s: %s", dir, err_text(err));
    cert_explain_absent(err, dir, note);
    for (size_t i = 0; i < list.count && !err; i++) {
        err = cert_join_path(path, dir, list.names[i]) ? renew_one(conf, path, note) : ERR_INVALID;
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
    return cert_finish(call, conf, err, &note);
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
