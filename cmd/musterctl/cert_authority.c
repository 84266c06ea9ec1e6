/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl cert ca, rotate, retire: the life of the root. */
#include <stdio.h>
#include <string.h>

#include "common/program.h"
#include "common/tables.h"
#include "musterctl/cert.h"
#include "text/ndjson.h"

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

static enum err print_ca_json(const struct cert_ca_report *report, const char *what,
                              const char *why, const char *file)
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
    ndjson_c_string(&line, STR("why"), why[0] ? why : NULL);
    ndjson_c_string(&line, STR("not_after"), until);
    ndjson_u64(&line, STR("roots"), report->roots);
    ndjson_bool(&line, STR("key_exposed"), report->key_exposed);
    err = ndjson_end(&line);
    if (!err && program_print(buf_peek(&out))) err = ERR_IO;
    buf_deinit(&out);
    return err;
}

static enum err print_ca(const struct conf *conf, const struct cert_ca_report *report,
                         const char *what, const char *why)
{
    char file[CERT_PATH_CAP], key[CERT_PATH_CAP], until[WALL_TEXT_CAP];

    if (!cert_join_path(file, conf_text(conf, "dir"), "ca.pem")) return ERR_INVALID;
    if (!cert_join_path(key, conf_text(conf, "dir"), "ca.key.pem")) return ERR_INVALID;
    cert_warn_exposed(report->key_exposed, key);
    if (report->renew_soon.text[0]) fprintf(stderr, "warning: %s\n", report->renew_soon.text);
    if (conf_bool(conf, "json")) return print_ca_json(report, what, why, file);
    wall_text(report->not_after, until);
    printf("%-8s %s  signs until %s", what, file, until);
    if (report->roots > 1) printf("; %zu roots are trusted", report->roots);
    if (why[0]) printf("; %s", why);
    printf("\n");
    return ERR_OK;
}

static enum err ensure(const struct conf *conf, struct note *note)
{
    struct cert_ca_options options = ca_options(conf, true);
    struct cert_ca_report report;
    char why[CERT_WHY_CAP] = "";
    enum err err;

    /* Without a wish, whatever is there is the right one. */
    if (conf_source(conf, "common-name") == CONF_DEFAULT) options.common_name = NULL;
    err = cert_ca_ensure(fs_real(), &options, cert_now(), &report, note);
    if (err) return err;
    if (report.result == CERT_KEPT && !options.rollout)
        cert_compare_days(conf, report.not_before, report.not_after, "rotate makes a new root",
                          why);
    return print_ca(conf, &report, cert_result_text(report.result), why);
}

static enum err rotate(const struct conf *conf, struct note *note)
{
    struct cert_ca_options options = ca_options(conf, true);
    struct cert_ca_report report;
    enum err err = cert_ca_rotate(fs_real(), &options, cert_now(), &report, note);

    cert_explain_absent(err, options.dir, note);
    if (!err) err = print_ca(conf, &report, "rotated", "");
    if (!err && !conf_bool(conf, "json")) {
        printf("next: musterctl cert renew --dir %s, then musterctl cert retire --dir %s\n",
               options.dir, options.dir);
    }
    return err;
}

static enum err retire(const struct conf *conf, struct note *note)
{
    struct cert_ca_options options = ca_options(conf, false);
    struct cert_ca_report report;
    enum err err =
        cert_ca_retire(fs_real(), &options, conf_bool(conf, "force"), cert_now(), &report, note);

    cert_explain_absent(err, options.dir, note);
    if (err) return err;
    return print_ca(conf, &report, report.result == CERT_KEPT ? "kept" : "retired", "");
}

static int run(void *context, const struct command_call *call,
               enum err act(const struct conf *conf, struct note *note))
{
    struct note note = {""};
    struct conf *conf;
    enum err err = program_load_conf(context, call, &conf);

    if (err) return err_exit_code(err);
    err = act(conf, &note);
    return cert_finish(call, conf, err, &note);
}

static int run_ca(void *context, const struct command_call *call)
{
    return run(context, call, ensure);
}

static int run_rotate(void *context, const struct command_call *call)
{
    return run(context, call, rotate);
}

static int run_retire(void *context, const struct command_call *call)
{
    return run(context, call, retire);
}

static const struct command_example ca_examples[] = {
    {"musterctl cert ca", "make the authority in ./tls, or say that it is there"},
    {"musterctl cert ca --dir /etc/muster/tls --days 365", "elsewhere, for a year"},
    {NULL, NULL},
};
const struct command cert_ca_command = {
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
const struct command cert_rotate_command = {
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
const struct command cert_retire_command = {
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
