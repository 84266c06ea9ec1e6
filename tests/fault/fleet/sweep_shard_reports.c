/* SPDX-License-Identifier: Apache-2.0 */
/* The k-th allocation fails, for every k, in the leader's soft state and in the answers to
 * requests: the call returns out of memory, the state is unchanged, and nothing leaks. */
#include <stdio.h>

#include "fleet/answers.h"
#include "fleet/shard_reports.h"
#include "lib/fault_alloc.h"
#include "lib/reports_check.h"
#include "lib/test.h"

/* Repeats the call, because only the k-th allocation fails. */
#define AGAIN(err, call)                                                                           \
    do {                                                                                           \
        (err) = (call);                                                                            \
        if (err) CHECK_ERR("nothing but memory", (err), ERR_NOMEM);                                \
        if (err) CHECK("it was so", fault_alloc_fired());                                          \
        if (err) (err) = (call);                                                                   \
        CHECK_OK("then it is done", (err));                                                        \
    } while (0)

static void use_reports(struct shard_reports *reports)
{
    enum { SHARDS = 9, EACH = 20 };
    mono_time now = {1};
    enum err err;

    for (int i = 0; i < SHARDS; i++) {
        char shard[16], id[16], topic[16];
        struct shard_report report = {.shard = str_from(shard),
                                      .has_summary = true,
                                      .summary = STR("summary"),
                                      .shortfalls = STR("shortfalls"),
                                      .shortfall_count = 1};
        struct report_taken taken;
        struct reported_shard *kept;

        snprintf(shard, sizeof shard, "shard-%d", i);
        report.shard = str_from(shard);
        AGAIN(err, reports_add(reports, str_from(shard), now));
        AGAIN(err, reports_take(reports, &report, now, &taken));
        CHECK("the second time is the first that counts", taken.first && !taken.late);
        kept = reports_find(reports, str_from(shard));
        CHECK_STR("whole", kept->summary, STR("summary"));
        for (int n = 0; n < EACH; n++) {
            struct instruction it = {.term = 1, .sequence = ++reports->sequence};

            snprintf(id, sizeof id, "id-%d", n);
            snprintf(topic, sizeof topic, "topic-%d", n % 15);
            it.id = str_from(id);
            it.topic = str_from(topic);
            AGAIN(err, reports_queue(reports, kept, &it));
            reports_check(reports);
        }
        CHECK_SIZE("one word per topic", reports_pending(kept), 15);
    }
}

TEST(reports_survive_each_allocation_that_fails)
{
    uint64_t turns = 0;

    FAULT_SWEEP_ALLOC(k)
    {
        struct shard_reports *reports = NULL;

        turns++;
        if (reports_open(&(struct reports_options){0}, &reports)) {
            CHECK("reported", fault_alloc_fired());
            continue;
        }
        use_reports(reports);
        reports_close(reports);
    }
    CHECK("it allocates", turns > 100);
}

TEST(answers_survive_each_allocation_that_fails)
{
    uint64_t turns = 0;

    FAULT_SWEEP_ALLOC(k)
    {
        struct fleet_answers *answers = NULL;
        struct fleet_answers_view *view = NULL;
        enum err err;

        turns++;
        if (fleet_answers_open(20, &answers)) {
            CHECK("reported", fault_alloc_fired());
            continue;
        }
        for (int i = 0; i < 60; i++) {
            struct str reply;
            char id[16];

            snprintf(id, sizeof id, "id-%d", i);
            AGAIN(err, fleet_answers_put(answers, 1, str_from(id), STR("reply")));
            CHECK("there", fleet_answers_find(answers, 1, str_from(id), &reply));
            if (i == 30) AGAIN(err, fleet_answers_view_open(answers, &view));
        }
        CHECK_SIZE("the last ones", fleet_answers_count(answers), 20);
        fleet_answers_view_close(view);
        fleet_answers_close(answers);
    }
    CHECK("it allocates", turns > 60);
}
