/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl cert show: what certificates say. */
#include <stdio.h>
#include <string.h>

#include "common/program.h"
#include "common/tables.h"
#include "musterctl/cert.h"
#include "text/ndjson.h"

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

static enum err show_key(const char *path, bool json)
{
    struct ndjson line;
    struct buf out;
    enum err err;

    if (!json) {
        printf("%s\n  a private key\n", path);
        return ERR_OK;
    }
    buf_init(&out, PROGRAM_TEXT_MAX);
    ndjson_begin(&line, &out, NDJSON_LINE);
    ndjson_c_string(&line, STR("file"), path);
    ndjson_bool(&line, STR("private_key"), true);
    err = ndjson_end(&line);
    if (!err && program_print(buf_peek(&out))) err = ERR_IO;
    buf_deinit(&out);
    return err;
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
        cert_refused(call, err, &note, &worst);
    }
    conf_close(conf);
    return err_exit_code(worst);
}

static const struct command_example show_examples[] = {
    {"musterctl cert show tls/replica-1.pem", "who it is, who signed it, how long it lasts"},
    {"musterctl cert show tls/*.pem", "everything in a directory"},
    {NULL, NULL},
};
const struct command cert_show_command = {
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
