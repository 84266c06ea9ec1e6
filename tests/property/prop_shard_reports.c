/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of shards against a plain table that recomputes everything. */
#include <stdio.h>

#include "base/prng.h"
#include "fleet/shard_reports.h"
#include "lib/reports_check.h"
#include "lib/test.h"

enum { SHARDS = 5, IDS = 12, TOPICS = 6, QUEUE_MAX = 8, STEPS = 20000, SILENT_MS = 50 };

struct model_item {
    int id, topic; /* topic 0: none */
    uint64_t term, sequence;
};
struct model_shard {
    bool known, reported, silent, has_summary;
    int64_t epoch, cycle, summary_cycle;
    int summary, shortfalls;
    uint64_t heard_at, newest_at;
    size_t count;
    struct model_item queue[QUEUE_MAX + 1];
};
static struct model_shard model[SHARDS];
static struct shard_reports *reports;
static struct prng prng;
static uint64_t now, term;

static struct str name(char *into, size_t cap, const char *kind, int number)
{
    return str_of(into, (size_t)snprintf(into, cap, "%s-%d", kind, number));
}

static struct str shard_name(int s)
{
    static char text[32];
    return name(text, sizeof text, "shard", s);
}

static void drop(struct model_shard *m, size_t i)
{
    memmove(&m->queue[i], &m->queue[i + 1], (m->count - i - 1) * sizeof m->queue[0]);
    m->count--;
}

static void step_queue(int s)
{
    struct model_shard *m = &model[s];
    struct model_item item = {.id = (int)prng_below(&prng, IDS),
                              .topic = (int)prng_below(&prng, TOPICS),
                              .term = term - prng_below(&prng, 2),
                              .sequence = ++reports->sequence};
    char id[32], topic[32];
    struct instruction it = {.id = name(id, sizeof id, "id", item.id),
                             .topic =
                                 item.topic ? name(topic, sizeof topic, "t", item.topic) : STR(""),
                             .term = item.term,
                             .sequence = item.sequence,
                             .bytes = STR("payload")};
    enum err err = reports_queue(reports, reports_find(reports, shard_name(s)), &it), want = ERR_OK;
    size_t place, replaced = 0;

    for (size_t i = 0; i < m->count; i++)
        replaced += m->queue[i].id == item.id || (item.topic && m->queue[i].topic == item.topic);
    if (!m->known)
        want = ERR_NOT_FOUND;
    else if (!replaced && m->count == QUEUE_MAX)
        want = ERR_FULL;
    CHECK_ERR("queued or not", err, want);
    if (want) return;
    for (size_t i = m->count; i-- > 0;)
        if (m->queue[i].id == item.id || (item.topic && m->queue[i].topic == item.topic))
            drop(m, i);
    for (place = m->count; place > 0; place--) {
        struct model_item *before = &m->queue[place - 1];
        if (before->term < item.term ||
            (before->term == item.term && before->sequence < item.sequence))
            break;
        m->queue[place] = *before;
    }
    m->queue[place] = item;
    m->count++;
}

static void step_ack(int s)
{
    struct model_shard *m = &model[s];
    int id = (int)prng_below(&prng, IDS);
    char text[32];
    struct reported_shard *shard = reports_find(reports, shard_name(s));
    struct instruction *it =
        shard ? reports_instruction(shard, name(text, sizeof text, "id", id)) : NULL;
    bool want = false;

    for (size_t i = m->count; i-- > 0;)
        if (m->queue[i].id == id) {
            drop(m, i);
            want = true;
        }
    CHECK("waiting or not", (it != NULL) == want);
    if (it) reports_ack(reports, shard, it);
}

static void step_take(int s)
{
    struct model_shard *m = &model[s];
    char summary[32], shortfalls[32];
    int number = (int)prng_below(&prng, 1000);
    struct shard_report report = {.shard = shard_name(s),
                                  .epoch = (int64_t)prng_below(&prng, 3),
                                  .cycle = (int64_t)prng_below(&prng, 6),
                                  .has_summary = prng_below(&prng, 2),
                                  .shortfall_count = prng_below(&prng, 2)};
    struct report_taken taken;
    enum err err;
    bool late;

    if (report.has_summary) report.summary = name(summary, sizeof summary, "sum", number);
    if (report.shortfall_count)
        report.shortfalls = name(shortfalls, sizeof shortfalls, "short", number);
    err = reports_take(reports, &report, (mono_time){now}, &taken);
    CHECK_ERR("known or not", err, m->known ? ERR_OK : ERR_NOT_FOUND);
    if (err) return;
    late = m->reported && m->newest_at + SILENT_MS > now &&
           (report.epoch < m->epoch || (report.epoch == m->epoch && report.cycle < m->cycle));
    CHECK("late", taken.late == late);
    CHECK("first", taken.first == !m->reported);
    CHECK("back", taken.back == m->silent);
    m->reported = true;
    m->silent = false;
    m->heard_at = now;
    if (late) return;
    m->newest_at = now;
    m->epoch = report.epoch;
    m->cycle = report.cycle;
    if (report.has_summary) {
        m->has_summary = true;
        m->summary = number;
        m->summary_cycle = report.cycle;
        m->shortfalls = -1;
    }
    if (report.shortfall_count) m->shortfalls = number;
}

static void step_silence(void)
{
    const struct reported_shard *got;
    uint64_t before = 0;

    while ((got = reports_silent(reports, (mono_time){now}))) {
        int s = got->id.at[got->id.len - 1] - '0';
        CHECK("due", model[s].known && !model[s].silent && model[s].heard_at + SILENT_MS <= now);
        CHECK("longest first", model[s].heard_at >= before);
        before = model[s].heard_at;
        model[s].silent = true;
    }
    for (int s = 0; s < SHARDS; s++)
        CHECK("nobody is left out",
              !model[s].known || model[s].silent || model[s].heard_at + SILENT_MS > now);
}

static void step(void)
{
    int s = (int)prng_below(&prng, SHARDS);
    uint64_t what = prng_below(&prng, 1000);

    now += prng_below(&prng, 10);
    if (what < 100) {
        CHECK_OK("added", reports_add(reports, shard_name(s), (mono_time){now}));
        if (!model[s].known)
            model[s] = (struct model_shard){.known = true, .heard_at = now, .shortfalls = -1};
    } else if (what < 130) {
        reports_remove(reports, shard_name(s));
        model[s] = (struct model_shard){0};
    } else if (what < 135) {
        reports_begin(reports, ++term);
        memset(model, 0, sizeof model);
    } else if (what < 500) {
        step_queue(s);
    } else if (what < 650) {
        step_ack(s);
    } else if (what < 950) {
        step_take(s);
    } else {
        step_silence();
    }
}

static void compare(int s)
{
    const struct model_shard *m = &model[s];
    const struct reported_shard *got = reports_find(reports, shard_name(s));
    size_t i = 0;
    char text[32];

    CHECK("known", (got != NULL) == m->known);
    if (!m->known) return;
    CHECK("reported", got->reported == m->reported && got->silent == m->silent);
    CHECK("summary", got->has_summary == m->has_summary);
    if (m->has_summary) {
        CHECK_STR("summary", got->summary, name(text, sizeof text, "sum", m->summary));
        CHECK_I64("cycle", got->summary_cycle, m->summary_cycle);
    }
    CHECK("shortfalls", (got->shortfall_count > 0) == (m->shortfalls >= 0));
    if (m->shortfalls >= 0)
        CHECK_STR("shortfalls", got->shortfalls, name(text, sizeof text, "short", m->shortfalls));
    CHECK_SIZE("pending", reports_pending(got), m->count);
    LIST_EACH(&got->queue, node)
    {
        const struct instruction *it = CONTAINER_OF(node, struct instruction, link);
        CHECK("not more", i < m->count);
        CHECK_STR("in order", it->id, name(text, sizeof text, "id", m->queue[i].id));
        i++;
    }
    CHECK_SIZE("all", i, m->count);
}

TEST(reports_equal_a_plain_table)
{
    prng_seed(&prng, test_seed());
    CHECK_OK("opened", reports_open(&(struct reports_options){.silent_after_ms = SILENT_MS,
                                                              .pending_max = QUEUE_MAX},
                                    &reports));
    term = 5;
    reports_begin(reports, term);
    for (int i = 0; i < STEPS; i++) {
        step();
        reports_check(reports);
        for (int s = 0; s < SHARDS; s++) compare(s);
    }
    reports_close(reports);
}
