/* SPDX-License-Identifier: Apache-2.0 */
/* ctl/inspect.h: the output of `top`, section by section, from canned answers. */
#include <stdio.h>

#include "canned.h"
#include "ctl/inspect.h"
#include "ctl/screen.h"

static struct ctl_survey survey;
static struct buf frame, shown;

/* A survey without answers. */
static void nobody(void)
{
    survey = (struct ctl_survey){.conf = NULL};
    arena_init(&survey.memory, 1 << 24);
    for (size_t i = 0; i < SURVEY_PARTS; i++) note_set(&survey.why[i], "part %zu is away", i);
    buf_init(&frame, SCREEN_FRAME_MAX);
    buf_init(&shown, SCREEN_FRAME_MAX);
}

static const char *picture(void)
{
    CHECK_OK("a frame", top_frame(&survey, (wall_time){1767225600000}, &frame));
    CHECK_OK("shown", screen_plain(buf_peek(&frame), &shown));
    CHECK_OK("an end", buf_append_byte(&shown, '\0'));
    return shown.data;
}

static void end(void)
{
    arena_deinit(&survey.memory);
    buf_deinit(&frame);
    buf_deinit(&shown);
}

TEST(a_part_without_an_answer_shows_the_error_in_place_of_rows)
{
    nobody();
    CHECK_TEXT(
        "all of it", picture(),
        "00:00:00 UTC   no coordinator answers   shards 0   machines 0, 0 configured   needs "
        "unmet 0\n"
        "\nREPLICAS\nno answer: part 0 is away\n"
        "\nSHARDS\nno answer: part 1 is away\n"
        "\nWORKERS\nno answer: part 3 is away\n"
        "\nCLAIMS\nno answer: part 5 is away\n");
    end();
}

TEST(replicas_with_their_lag_and_silence)
{
    Muster__V1__Replica rows[3], *list[] = {&rows[0], &rows[1], &rows[2]};
    Muster__V1__ListReplicasResponse replicas = MUSTER__V1__LIST_REPLICAS_RESPONSE__INIT;

    for (size_t i = 0; i < 3; i++) muster__v1__replica__init(&rows[i]);
    rows[0].name = ctl_text("n0");
    rows[0].leader = rows[0].voter = true;
    rows[0].match = 90;
    rows[1].name = ctl_text("n1");
    rows[1].voter = true;
    rows[1].match = 80;
    rows[1].silent_ms = 1500;
    rows[1].grpc_address = ctl_text("h:1");
    rows[2].name = ctl_text("n2");
    rows[2].silent_ms = -1;
    replicas.replicas = list;
    replicas.n_replicas = 3;
    replicas.term = 4;
    nobody();
    survey.said[SURVEY_REPLICAS] = &replicas.base;
    CHECK_HAS("the leader", picture(), "00:00:00 UTC   leader n0   shards 0");
    CHECK_HAS("rows", shown.data,
              "NAME  ROLE     TERM  LAG  SILENT       ADDRESS\n"
              "n0    leader   4     0    \xe2\x80\x94            \n"
              "n1    voter    \xe2\x80\x94     10   1.5s         h:1\n"
              "n2    learner  \xe2\x80\x94     90   never heard  \n");
    end();
}

TEST(shards_that_answer_and_one_that_does_not)
{
    Muster__V1__NamedCount rows[3], *states[] = {&rows[0], &rows[1], &rows[2]};
    Muster__V1__ShardStatusResponse said = MUSTER__V1__SHARD_STATUS_RESPONSE__INIT;

    for (size_t i = 0; i < 3; i++) muster__v1__named_count__init(&rows[i]);
    rows[0].name = ctl_text("Configured");
    rows[0].count = 5;
    rows[1].name = ctl_text("Creating");
    rows[1].count = 2;
    rows[2].name = ctl_text("Draining");
    rows[2].count = 1;
    said.states = states;
    said.n_states = 3;
    said.cycle = 9;
    said.cycle_ms = 1.26;
    said.machines = 8;
    said.shortfalls = 3;
    said.inflight = 1;
    said.queued = 2;
    said.paused = said.dry_run = true;
    nobody();
    snprintf(survey.shards[0].id, SURVEY_ID_CAP, "s0");
    survey.shards[0].said = &said;
    snprintf(survey.shards[1].id, SURVEY_ID_CAP, "s1");
    note_set(&survey.shards[1].why, "refused");
    survey.shard_count = 2;
    survey.shards_left_out = 7;
    CHECK_HAS("sums", picture(),
              "shards 2 (some away)   machines 8, 5 configured   needs unmet 3\n");
    CHECK_HAS(
        "rows", shown.data,
        "s0     9      1.3  8         5           0     3       0       0            3      "
        "1+2    paused dry-run \n"
        "s1     \xe2\x80\x94      \xe2\x80\x94    \xe2\x80\x94         \xe2\x80\x94           "
        "\xe2\x80\x94     \xe2\x80\x94       \xe2\x80\x94       \xe2\x80\x94            "
        "\xe2\x80\x94      \xe2\x80\x94      no answer: refused\n"
        "7 more are not asked here; musterctl shard list lists them\n");
    end();
}

TEST(workers_that_need_a_look_come_first_then_by_load)
{
    Muster__V1__Worker rows[4], *list[] = {&rows[0], &rows[1], &rows[2], &rows[3]};
    Muster__V1__ListWorkersResponse workers = MUSTER__V1__LIST_WORKERS_RESPONSE__INIT;
    Muster__V1__ClusterStatusResponse members = MUSTER__V1__CLUSTER_STATUS_RESPONSE__INIT;
    static const char *const ids[] = {"w0", "w1", "w2", "w3"};

    for (size_t i = 0; i < 4; i++) {
        muster__v1__worker__init(&rows[i]);
        rows[i].worker_id = ctl_text(ids[i]);
        rows[i].standing = MUSTER__V1__STANDING__STANDING_ACTIVE;
        rows[i].phase = 3;
    }
    rows[1].load = 0.5;
    rows[2].standing = MUSTER__V1__STANDING__STANDING_DEAD;
    rows[2].reason = ctl_text("evicted");
    rows[3].draining = true;
    rows[3].received_at_ms = 1;
    rows[3].silent_ms = 200 * 1000;
    workers.workers = list;
    workers.n_workers = 4;
    members.active = 3;
    members.known = 4;
    members.hold = true;
    nobody();
    survey.said[SURVEY_WORKERS] = &workers.base;
    survey.said[SURVEY_MEMBERS] = &members.base;
    CHECK_HAS("sums", picture(), "   workers 3 of 4, failures held back\n");
    CHECK_HAS("rows", shown.data,
              "w2      dead      running   0           0.00  \xe2\x80\x94       evicted\n"
              "w3      active    draining  0           0.00  3m      \n"
              "w1      active    running   0           0.50  \xe2\x80\x94       \n"
              "w0      active    running   0           0.00  \xe2\x80\x94       \n");
    end();
}

TEST(claims_without_their_prefix)
{
    Muster__V1__Entry rows[2], *list[] = {&rows[0], &rows[1]};
    Muster__V1__RangeResponse range = MUSTER__V1__RANGE_RESPONSE__INIT;
    uint8_t key[] = "muster/jobs/1", other[] = "muster/x";

    for (size_t i = 0; i < 2; i++) muster__v1__entry__init(&rows[i]);
    rows[0].key = (ProtobufCBinaryData){sizeof key - 1, key};
    rows[0].owner = ctl_text("me");
    rows[0].token = 7;
    rows[0].ttl_ms = 30000;
    rows[0].remaining_ms = 850;
    rows[1].key = (ProtobufCBinaryData){sizeof other - 1, other};
    range.entries = list;
    range.n_entries = 2;
    nobody();
    survey.said[SURVEY_CLAIMS] = &range.base;
    CHECK_HAS("rows", picture(),
              "CLAIMS\nCLAIM   OWNER  TOKEN  LEFT\n"
              "jobs/1  me     7      850ms\n"
              "x       \xe2\x80\x94      0      \xe2\x80\x94\n");
    end();
}

/* The whole command, once: a fleet that answers, and one that does not. */
TEST(once_it_prints_a_picture_and_fails_when_nobody_leads)
{
    Muster__V1__ListReplicasResponse replicas = MUSTER__V1__LIST_REPLICAS_RESPONSE__INIT;
    struct canned canned;

    canned_open(&canned, CANNED_WORDS("--once"));
    canned_answer("/muster.v1.Fleet/ListReplicas", &replicas.base);
    CHECK_OK("it ends", top_act(&canned.ctl));
    CHECK_HAS("a picture", canned_printed(&canned), "\nWORKERS\nno answer: nobody answers");
    canned_close(&canned);
    canned_open(&canned, CANNED_WORDS("--once"));
    canned_failure("/muster.v1.Fleet/ListReplicas", ERR_TIMEOUT, "silence");
    CHECK_ERR("away", top_act(&canned.ctl), ERR_UNAVAILABLE);
    CHECK_TEXT("why", canned.ctl.note.text, "silence");
    CHECK_TEXT("nobody else is asked", canned_asked("/muster.v1.Coordination/Status"), "");
    CHECK_HAS("the same for all", canned_printed(&canned), "\nCLAIMS\nno answer: silence\n");
    canned_close(&canned);
}

/* -- fitting the screen -- */

static const char *fit(const char *text, size_t rows, size_t columns)
{
    buf_init(&shown, 4096);
    CHECK_OK("it fits", screen_fit(str_from(text), rows, columns, &shown));
    CHECK_OK("an end", buf_append_byte(&shown, '\0'));
    return shown.data;
}

TEST(sections_share_the_rows_and_say_what_is_missing)
{
    static const char text[] = "top\n\fA\nhead\n1\n2\n3\n4\n5\n\fB\nhead\n1\n";

    CHECK_TEXT("all of it", fit(text, 20, 80), text);
    buf_deinit(&shown);
    CHECK_TEXT("a short list is not pushed off", fit(text, 8, 80),
               "top\n\fA\nhead\n1\n... 4 more\n\fB\nhead\n1\n");
    buf_deinit(&shown);
    CHECK_TEXT("titles that do not fit are cut", fit(text, 2, 80), "\fA\nhead\n");
    buf_deinit(&shown);
}

TEST(lines_are_cut_by_characters)
{
    CHECK_TEXT("not by bytes", fit("\xe2\x80\x94\xe2\x80\x94\xe2\x80\x94\n\fTitle\n", 9, 2),
               "\xe2\x80\x94\xe2\x80\x94\n\fTi\n");
    buf_deinit(&shown);
}
