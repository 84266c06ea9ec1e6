/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a program: finds its command, reads its configuration, prints its output, and turns an error
 * into an exit code. One thread. */
#include "common/program.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/tables.h"
#include "common/version.h"
#include "conf/printable.h"
#include "io/fs.h"

int program_print(struct str text)
{
    if (fwrite(text.at, 1, text.len, stdout) == text.len && fflush(stdout) == 0) return 0;
    if (errno != EPIPE) fprintf(stderr, "cannot write to standard output: %s\n", strerror(errno));
    return err_exit_code(ERR_INTERNAL);
}

/* Prints "muster dev: LINE" with one write. */
static void program_print_line(const struct command_call *call, struct str line)
{
    char path[COMMAND_PATH_CAP];
    struct buf shown;

    if (call->path[0]->says_name_only)
        snprintf(path, sizeof path, "%s", call->path[0]->name);
    else
        command_path_text(call, path);
    buf_init(&shown, PROGRAM_TEXT_MAX);
    if (printable_append(line, &shown))
        buf_clear(&shown); /* without memory, only the command's name is printed */
    fprintf(stderr, "%s: %.*s\n", path, STR_ARG(buf_peek(&shown)));
    buf_deinit(&shown);
}

int program_fail(const struct command_call *call, enum err err, const struct note *note)
{
    program_print_line(call, str_from(note && note->text[0] ? note->text : err_text(err)));
    return err_exit_code(err);
}

void program_say_problems(const struct command_call *call, struct str problems)
{
    struct str line;
    while (problems.len > 0 && str_split(&problems, '\n', &line)) {
        if (line.len > 0) program_print_line(call, line);
    }
}

/* -- configuration -- */

/* False: no option of the table can come from the environment. */
static bool program_reads_environment(const struct option_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        if (!(table->options[i].flags & OPTION_FLAG_ONLY)) return true;
    }
    return false;
}

static const char *program_why_unreadable(const char *path, enum err err)
{
    struct fs_info info;
    if (err != ERR_INVALID || fs_stat(fs_real(), path, &info)) return err_text(err);
    if (info.kind == FS_DIRECTORY) return "is a directory";
    return info.kind == FS_OTHER ? "is not a regular file" : err_text(err);
}

enum err program_add_file(struct conf *conf, const char *path)
{
    struct buf content;
    enum err err;

    buf_init(&content, CONF_FILE_MAX + 1);
    err = fs_read_whole(fs_real(), path, CONF_FILE_MAX, &content);
    if (!err) {
        err = conf_add_file(conf, path, buf_peek(&content));
    } else if (err != ERR_NOMEM &&
               conf_problem(conf, "%s: %s", path, program_why_unreadable(path, err)) == ERR_NOMEM) {
        err = ERR_NOMEM;
    }
    buf_deinit(&content);
    return err;
}

/* Reads all sources even if one has a mistake; conf_finish then reports all mistakes together. */
static enum err program_add_sources(const struct program *program, const struct command_call *call,
                                    const struct option_table *table, struct conf *conf)
{
    const char *argument = command_of(call)->argument_sets;
    enum err err = conf_add_flags(conf, call->rest_count, call->rest);

    if (err != ERR_NOMEM && argument) err = conf_take_argument_as(conf, argument);
    if (err != ERR_NOMEM && program_reads_environment(table))
        err = conf_add_environment(conf, program->environment, all_tables);
    if (err != ERR_NOMEM && option_find(table, "config") && conf_text(conf, "config"))
        err = program_add_file(conf, conf_text(conf, "config"));
    return err == ERR_NOMEM ? err : conf_finish(conf);
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

    if (!err) err = program_add_sources(program, call, table, conf);
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
    struct buf problems;
    enum err err;

    buf_init(&problems, PROGRAM_TEXT_MAX);
    err = program_read_conf(program, call, ret_conf, &problems);
    if (err && buf_peek(&problems).len == 0) (void)program_fail(call, err, NULL);
    if (err) program_say_problems(call, buf_peek(&problems));
    buf_deinit(&problems);
    return err;
}

/* -- the run -- */

/* bytes of a command's output, for example the plan of a large fleet */
enum { OUT_MAX = 1 << 30 };

static int program_run_act(const struct command_call *call, const struct conf *conf,
                           program_act_fn *act)
{
    struct program_run run = {.call = call, .conf = conf};
    enum err err;
    int exit_code = 0;

    buf_init(&run.out, OUT_MAX);
    err = act(&run);
    if (run.out.len > 0) exit_code = program_print(buf_peek(&run.out));
    if (err) exit_code = program_fail(call, err, &run.note);
    buf_deinit(&run.out);
    return exit_code ? exit_code : run.exit_code;
}

int program_act(void *context, const struct command_call *call)
{
    const struct program_action *action = command_of(call)->data;
    struct conf *conf;
    enum err err = program_load_conf(context, call, &conf);
    int exit_code;

    if (err) return err_exit_code(err);
    exit_code = program_run_act(call, conf, action->act);
    conf_close(conf);
    return exit_code;
}

static enum err program_print_help(struct program_run *run)
{
    return command_help(run->call, &run->out);
}

enum err program_version(struct program_run *run)
{
    return version_print(run->call->path[0]->name, &run->out);
}

/* Shows the help of a group that was named without a command. */
static int program_help_as_mistake(const struct command_call *call)
{
    struct buf text;
    enum err err;

    buf_init(&text, PROGRAM_TEXT_MAX);
    err = command_help(call, &text);
    if (!err) fprintf(stderr, "%.*s", STR_ARG(buf_peek(&text)));
    buf_deinit(&text);
    return err ? program_fail(call, err, NULL) : err_exit_code(ERR_INVALID);
}

/* Opens /dev/null for closed standard files. Otherwise the next opened file would get their number,
 * and output would be written into it. */
static bool program_fill_standard_files(void)
{
    int fd;
    do fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

int program_main(const struct command *root, int argc, char **argv)
{
    struct program program = {.root = root, .environment = (const char *const *)environ};
    struct command_call call = {.path = {root}, .depth = 1};
    size_t count = argc > 0 ? (size_t)argc - 1 : 0;
    struct note note = {""};
    enum err err;

    if (!program_fill_standard_files()) return err_exit_code(ERR_INTERNAL);
    err = command_resolve(root, count, (const char **)argv + 1, &call, &note);
    if (err) return program_fail(&call, err, &note);
    if (call.wish == COMMAND_VERSION) return program_run_act(&call, NULL, program_version);
    if (call.wish == COMMAND_HELP) return program_run_act(&call, NULL, program_print_help);
    if (call.wish == COMMAND_MISSING) return program_help_as_mistake(&call);
    err = version_check_engines(&note); /* with a wrong libraft only help and version run */
    if (err) return program_fail(&call, err, &note);
    return command_of(&call)->run(&program, &call);
}

static struct stat owner_of_data; /* static, because nftw passes its callback no argument */

static int program_give_one(const char *path, const struct stat *info, int type, struct FTW *place)
{
    (void)type, (void)place;
    if (info->st_uid == 0) (void)!lchown(path, owner_of_data.st_uid, owner_of_data.st_gid);
    return 0;
}

void program_give_to_owner(const char *dir)
{
    if (geteuid() != 0 || stat(dir, &owner_of_data) || owner_of_data.st_uid == 0) return;
    (void)nftw(dir, program_give_one, 16, FTW_PHYS);
}
