/* SPDX-License-Identifier: Apache-2.0 */
/* Memory ends at every place of the operator's tables, readers and writers, and of a whole operator
 * that is opened and closed. */
#include <stdio.h>
#include <stdlib.h>

#include "io/fs.h"
#include "io/real.h"
#include "lib/fault_alloc.h"
#include "lib/test.h"
#include "operator/core/demand.h"
#include "operator/core/reclaims.h"
#include "operator/demand_file.h"
#include "operator/file.h"
#include "operator/frames.h"
#include "operator/operator.h"
#include "operator/reclaims_file.h"
#include "operator/template.h"

static const char demand_text[] =
    "[[requests]]\nname = 'web'\ncount = 3\nresources = {cpu = '1', memory = 4}\nzones = ['a']\n"
    "requirements = [{key = 'disk', operator = 'Exists'}]\nspread = [{key = 'rack'}]\n"
    "co-locate = {key = 'rack', group = 'g'}\n[[requests]]\nname = 'db'\nresources = {cpu = 2}\n";

/* A row that does not fit is absent; earlier rows stay. */
static void put_all(const struct demand_file *file, struct demand *demand)
{
    struct note note;
    size_t taken = 0, there = 0, cursor = 0;
    const struct rollup_row *row;

    demand_list_begin(demand);
    for (size_t i = 0; i < file->count; i++) {
        enum err err = demand_put(demand, file->rows[i].name, &file->rows[i].request, NULL, &note);
        CHECK("only memory is missing", !err || err == ERR_NOMEM);
        taken += !err;
    }
    demand_list_end(demand);
    while ((row = demand_next(demand, &cursor))) there += row->requests;
    CHECK_SIZE("the rows are those that were accepted", there, taken);
    CHECK_SIZE("no row is empty", demand_requests(demand), taken);
}

TEST(demand_without_memory)
{
    FAULT_SWEEP_ALLOC(k)
    {
        struct demand_file file;
        struct demand *demand = NULL;
        struct frame_parts parts;
        struct arena arena;
        struct buf out;
        enum err err;

        arena_init(&arena, 64 << 20);
        buf_init(&out, 1 << 20);
        frame_parts_init(&parts);
        err = demand_file_read(str_from(demand_text), &arena, &file, NULL);
        CHECK("only memory is missing", !err || err == ERR_NOMEM || err == ERR_PARSE);
        if (!err && !demand_open(1, &demand)) {
            put_all(&file, demand);
            err = frames_rollup(&parts, STR("c"), (wall_time){1}, demand, NULL, false, &out);
            CHECK("written or not", !err || err == ERR_NOMEM);
            demand_remove(demand, STR("web"));
        }
        demand_close(demand);
        frame_parts_deinit(&parts);
        buf_deinit(&out);
        arena_deinit(&arena);
    }
}

static size_t count_reclaims(const struct reclaims *all)
{
    size_t cursor = 0, count = 0;

    while (reclaims_next(all, &cursor)) count++;
    return count;
}

TEST(nodes_and_reclaims_without_memory)
{
    FAULT_SWEEP_ALLOC(k)
    {
        const struct label labels[] = {{STR("a"), STR("1")}};
        struct cluster_node reported = {.machine_id = STR("m"), .labels = labels, .label_count = 1};
        const struct cluster_node *node;
        struct reclaims *reclaims = NULL, *again = NULL;
        struct nodes *nodes = NULL;
        struct note note;
        struct buf text;

        buf_init(&text, 1 << 16);
        if (!nodes_open(1, &nodes)) {
            for (int n = MACHINE_CREATING; n <= MACHINE_DRAINING; n++) {
                reported.state = (enum machine_state)n;
                nodes_report(nodes, &reported);
            }
            for (size_t cursor = 0; (node = nodes_next(nodes, &cursor)) != NULL;)
                CHECK_SIZE("whole", node->label_count, 1);
        }
        if (!reclaims_open(1, &reclaims)) {
            enum err first =
                reclaims_order(reclaims, STR("a"), STR("m"), 1, 0, (wall_time){1}, &note);
            enum err second =
                reclaims_order(reclaims, STR("b"), STR("m"), 1, 0, (wall_time){1}, &note);
            CHECK_SIZE("both or one", count_reclaims(reclaims), (size_t)(!first + !second));
            if (!reclaims_write(reclaims, &text) && !reclaims_open(1, &again))
                reclaims_read(again, buf_peek(&text), &note);
        }
        nodes_close(nodes);
        reclaims_close(reclaims);
        reclaims_close(again);
        buf_deinit(&text);
    }
}

TEST(templates_without_memory)
{
    FAULT_SWEEP_ALLOC(k)
    {
        const struct blob_request request = {STR("id"), NULL, 0};
        struct template *template;
        struct note note;
        struct buf out;

        buf_init(&out, 1 << 16);
        if (!template_open(STR("a {{cluster_id}} {{requirement k|x}} {{requirements}}"), &template,
                           &note)) {
            if (template_render(template, STR("c"), &request, &out, &note))
                CHECK_SIZE("nothing half written", out.len, 0);
            template_close(template);
        }
        buf_deinit(&out);
    }
}

static void set_true(void *owner)
{
    *(bool *)owner = true;
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    CHECK("made", file && fputs(text, file) >= 0 && fclose(file) == 0);
}

TEST(a_whole_operator_without_memory_is_not_opened_or_is_and_leaks_nothing)
{
    char demand[FS_PATH_CAP], template[FS_PATH_CAP];
    const char *const addresses[] = {"127.0.0.1:9", NULL};
    struct real_io *real;

    snprintf(demand, sizeof demand, "%s/demand.toml", test_dir());
    snprintf(template, sizeof template, "%s/template", test_dir());
    write_file(demand, demand_text);
    write_file(template, "join {{cluster_id}}");
    CHECK_OK("io", real_io_open(&real));
    FAULT_SWEEP_ALLOC(k)
    {
        struct file_source_options of_source = {.demand = demand, .drain_command = "true"};
        struct operator_options options = {.io = real_io_io(real),
                                           .cluster_id = "c",
                                           .shard_addresses = addresses,
                                           .state_dir = test_dir(),
                                           .template_file = template};
        struct operator_host *host = NULL;
        struct note note = {""};
        bool closed = false;
        enum err err = file_source_open(&of_source, &options.source);

        if (err) continue;
        err = operator_open(&options, &host, &note);
        if (!err) err = operator_start(host, &note);
        CHECK("only memory is missing", !err || err == ERR_NOMEM || err == ERR_UNAVAILABLE ||
                                            err == ERR_PARSE || err == ERR_FULL);
        if (!host) options.source->ops->close(options.source);
        operator_close(host, set_true, &closed);
        while (!closed) real_io_turn(real, true);
    }
    real_io_close(real);
}
