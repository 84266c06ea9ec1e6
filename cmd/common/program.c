#include "common/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/tables.h"
#include "common/version.h"
#include "io/fs.h"

int program_print(struct str text)
{
    bool written = fwrite(text.at, 1, text.len, stdout) == text.len && fflush(stdout) == 0;
    return written ? 0 : err_exit_code(ERR_INTERNAL);
}

int program_fail(const struct command_call *call, enum err err, const struct note *note)
{
    char path[COMMAND_PATH_CAP];
    const char *text = note && note->text[0] ? note->text : err_text(err);

    command_path_text(call, path);
    fprintf(stderr, "%s: %s\n", path, text);
    return err_exit_code(err);
}

/* -- configuration -- */

static bool table_has(const struct option_table *table, const char *name)
{
    for (size_t i = 0; i < table->count; i++) {
        if (strcmp(table->options[i].name, name) == 0) return true;
    }
    return false;
}

/* A command that reads no variable has no opinion about any. */
static bool reads_environment(const struct option_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        if (!(table->options[i].flags & OPTION_FLAG_ONLY)) return true;
    }
    return false;
}

static enum err add_file(struct conf *conf, struct buf *problems)
{
    const char *path = conf_text(conf, "config");
    struct buf content;
    enum err err;

    if (!path) return ERR_OK;
    buf_init(&content, CONF_FILE_MAX + 1);
    err = fs_read_whole(fs_real(), path, CONF_FILE_MAX, &content);
    if (err) {
        if (buf_appendf(problems, "%s: %s\n", path, err_text(err))) err = ERR_NOMEM;
    } else {
        err = conf_add_file(conf, path, buf_peek(&content));
    }
    buf_deinit(&content);
    return err;
}

enum err program_read_conf(const struct program *program, const struct command_call *call,
                           struct conf **ret_conf, struct buf *problems)
{
    static const struct option_table none;
    const struct option_table *table =
        command_of(call)->options ? command_of(call)->options : &none;
    struct conf *conf = NULL;
    struct note note = {""};
    enum err err = conf_open(table, &conf);

    if (!err) err = conf_add_flags(conf, call->rest_count, call->rest);
    if ((!err || err == ERR_INVALID) && reads_environment(table)) {
        err = conf_add_environment(conf, program->environment, all_tables);
    }
    if ((!err || err == ERR_INVALID) && table_has(table, "config")) err = add_file(conf, problems);
    if (err == ERR_INVALID) err = ERR_OK; /* conf_finish tells all of them together */
    if (!err) err = conf_finish(conf);
    if (!err) {
        err = command_check_arguments(call, conf_argument_count(conf), &note);
        if (err && buf_appendf(problems, "%s\n", note.text)) err = ERR_NOMEM;
    } else if (conf && buf_append(problems, conf_problems(conf))) {
        err = ERR_NOMEM;
    }
    if (err)
        conf_close(conf);
    else
        *ret_conf = conf;
    return err;
}

enum err program_load_conf(const struct program *program, const struct command_call *call,
                           struct conf **ret_conf)
{
    char path[COMMAND_PATH_CAP];
    struct str rest, line;
    struct buf problems;
    enum err err;

    buf_init(&problems, PROGRAM_TEXT_MAX);
    command_path_text(call, path);
    err = program_read_conf(program, call, ret_conf, &problems);
    rest = buf_peek(&problems);
    if (err && rest.len == 0) fprintf(stderr, "%s: %s\n", path, err_text(err));
    while (err && rest.len > 0 && str_split(&rest, '\n', &line)) {
        if (line.len > 0) fprintf(stderr, "%s: %.*s\n", path, STR_ARG(line));
    }
    buf_deinit(&problems);
    return err == ERR_NOT_FOUND || err == ERR_DENIED || err == ERR_TOO_LARGE ? ERR_INVALID : err;
}

/* -- the run -- */

static int print_help(const struct command_call *call)
{
    struct buf text;
    int exit_code;
    enum err err;

    buf_init(&text, PROGRAM_TEXT_MAX);
    err = command_help(call, &text);
    if (err)
        exit_code = program_fail(call, err, NULL);
    else if (call->wish == COMMAND_MISSING) {
        fprintf(stderr, "%.*s", STR_ARG(buf_peek(&text)));
        exit_code = err_exit_code(ERR_INVALID);
    } else
        exit_code = program_print(buf_peek(&text));
    buf_deinit(&text);
    return exit_code;
}

static int print_version(const struct command_call *call)
{
    struct buf text;
    int exit_code;
    enum err err;

    buf_init(&text, PROGRAM_TEXT_MAX);
    err = version_print(call->path[0]->name, &text);
    exit_code = err ? program_fail(call, err, NULL) : program_print(buf_peek(&text));
    buf_deinit(&text);
    return exit_code;
}

int program_main(const struct command *root, int argc, char **argv)
{
    struct program program = {.root = root, .environment = (const char *const *)environ};
    struct command_call call = {.path = {root}, .depth = 1};
    size_t count = argc > 0 ? (size_t)argc - 1 : 0;
    struct note note = {""};
    enum err err = command_resolve(root, count, (const char *const *)argv + 1, &call, &note);

    if (err) return program_fail(&call, err, &note);
    if (call.wish == COMMAND_VERSION) return print_version(&call);
    if (call.wish != COMMAND_RUN) return print_help(&call);
    err = version_check_engines(&note); /* help and version work on any machine; no more */
    if (err) return program_fail(&call, err, &note);
    return command_of(&call)->run(&program, &call);
}
