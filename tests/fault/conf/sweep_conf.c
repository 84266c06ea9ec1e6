/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of a load, a print, a reload and a help text fails once: the call returns
 * ERR_NOMEM, nothing leaks, and the present configuration stays. */
#include <string.h>

#include "conf/command.h"
#include "conf/conf.h"
#include "lib/fault_alloc.h"
#include "lib/test.h"
#include "unit/conf/table.h"

static const char *const flags[] = {"word", "--name", "a", "--peers=a:1,b:2", "--peers", "c:3"};
static const char *const environment[] = {"MUSTER_LOG_LEVEL=debug", "MUSTER_LOG_FILE_MAX=1MiB",
                                          NULL};
static const struct str file = {"[http]\nlisten = 'x:1'\n[log]\nflush-every = '2s'\n", 47};

/* Long values, so that the memory of a configuration grows in the middle of every step. */
static char long_flag[3500], long_variable[3500];

static enum err load(const char *name, struct conf **ret_conf)
{
    const char *words[ARRAY_LEN(flags)],
        *variables[] = {environment[0], environment[1], long_variable, NULL};
    struct conf *conf;
    enum err err = conf_open(&test_table, &conf);

    if (err) return err;
    memcpy(words, flags, sizeof words);
    words[0] = memset(long_flag, 'x', sizeof long_flag - 1);
    words[2] = name;
    memset(long_variable, 'y', sizeof long_variable - 1);
    memcpy(long_variable, "MUSTER_TOKEN=", 13);
    err = conf_add_flags(conf, ARRAY_LEN(words), words);
    if (!err) err = conf_add_environment(conf, variables, NULL);
    if (!err) err = conf_add_file(conf, "muster.toml", file);
    if (!err) err = conf_finish(conf);
    if (err)
        conf_close(conf);
    else
        *ret_conf = conf;
    return err;
}

TEST(a_load_survives_any_failed_allocation)
{
    uint64_t failed = 0;
    FAULT_SWEEP_ALLOC(k)
    {
        struct conf *conf = NULL;
        enum err err = load("a", &conf);
        CHECK_ERR("done, or out of memory", err, fault_alloc_fired() ? ERR_NOMEM : ERR_OK);
        CHECK("the output is untouched on failure", (conf != NULL) == (err == ERR_OK));
        failed += err != ERR_OK;
        conf_close(conf);
    }
    CHECK("several allocations were made to fail", failed >= 4);
}

TEST(mistakes_are_refused_or_out_of_memory_never_let_through)
{
    static const char *const wrong[] = {"--nmae", "--log-level=loud", "-x", "--peers=,"};
    FAULT_SWEEP_ALLOC(k)
    {
        struct conf *conf;
        enum err err = conf_open(&test_table, &conf);
        if (err) continue;
        err = conf_add_flags(conf, ARRAY_LEN(wrong), wrong);
        CHECK("an error either way",
              err == ERR_INVALID || (fault_alloc_fired() && err == ERR_NOMEM));
        if (err == ERR_INVALID)
            err = conf_add_file(conf, "f", STR("nmae = 1\n[log]\nlevel = 1\nx = 2\n"));
        CHECK("an error either way",
              err == ERR_INVALID || (fault_alloc_fired() && err == ERR_NOMEM));
        if (err == ERR_INVALID) err = conf_finish(conf);
        CHECK("an error either way",
              err == ERR_INVALID || (fault_alloc_fired() && err == ERR_NOMEM));
        conf_close(conf);
    }
}

TEST(a_reload_that_runs_out_of_memory_leaves_what_is_in_force)
{
    struct conf *current;
    CHECK_OK("load", load("a", &current));
    FAULT_SWEEP_ALLOC(k)
    {
        struct conf *next = NULL;
        struct conf_changes changes = {.count = 77};
        struct buf out;
        enum err err = load("b", &next);
        buf_init(&out, 4096);
        if (!err) err = conf_reload(current, next, &changes);
        if (!err) err = conf_change_text(current, next, &changes.each[0], &out);
        CHECK_ERR("done, or out of memory", err, fault_alloc_fired() ? ERR_NOMEM : ERR_OK);
        CHECK_TEXT("the old configuration is unchanged", conf_text(current, "name"), "a");
        if (!err) CHECK_SIZE("one change", changes.count, 1);
        buf_deinit(&out);
        conf_close(next);
    }
    conf_close(current);
}

static int run_nothing(void *context, const struct command_call *call)
{
    (void)context;
    (void)call;
    return 0;
}
static const struct command leaf = {
    .name = "leaf", .summary = "s", .about = "a", .options = &test_table, .run = run_nothing};
static const struct command *const children[] = {&leaf, NULL};
static const struct command program = {
    .name = "tool", .summary = "s", .about = "a", .children = children};

TEST(texts_survive_any_failed_allocation)
{
    struct command_call call;
    struct conf *conf;
    CHECK_OK("load", load("a", &conf));
    CHECK_OK("resolve", command_resolve(&program, 1, (const char *[]){"leaf"}, &call, NULL));
    FAULT_SWEEP_ALLOC(k)
    {
        struct buf out;
        enum err err;
        buf_init(&out, COMMAND_TEXT_MAX);
        err = conf_print(conf, "x", &out);
        if (!err) err = conf_print_reference(&test_table, "x", &out);
        if (!err) err = command_help(&call, &out);
        if (!err) err = command_completion(&program, "bash", &out);
        if (!err) err = command_completion(&program, "zsh", &out);
        if (!err) err = command_completion(&program, "fish", &out);
        if (!err) err = command_man(&call, "x", &out);
        CHECK_ERR("done, or out of memory", err, fault_alloc_fired() ? ERR_NOMEM : ERR_OK);
        buf_deinit(&out);
    }
    conf_close(conf);
}
