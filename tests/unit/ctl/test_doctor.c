/* SPDX-License-Identifier: Apache-2.0 */
/* ctl/doctor.h: every finding and its advice, from canned answers. */
#include <stdio.h>

#include "canned.h"
#include "ctl/doctor.h"

#define NOW_MS 1767225600000ull /* 2026-01-01T00:00:00Z */

/* A healthy fleet: three replicas, one shard, workers, store. Each test breaks one part. */
static Muster__V1__Replica replica[3];
static Muster__V1__ListReplicasResponse replicas;
static Muster__V1__ClusterStatusResponse members;
static Muster__V1__StatusResponse store;
static Muster__V1__ListOwnershipIssuesResponse ownership;
static Muster__V1__ShardStatusResponse shard;
static struct doctor doctor;
static struct canned canned;
/* The HTTP pages of every replica; `metrics` and `ready` are the first replica's. */
static char metrics[2048], ready[256];
static long ready_status, metrics_status;
static enum err page_err;
static int64_t clock_ahead_ms;

static void fetch(const struct doctor *d, const char *address, const char *path,
                  struct doctor_page *ret_page)
{
    bool is_first = strcmp(address, "h0") == 0, is_ready = strcmp(path, "/readyz") == 0;
    const char *text = is_ready ? (is_first ? ready : "ok\n") : metrics;

    *ret_page = (struct doctor_page){.why = {""}, .err = is_first ? page_err : ERR_OK};
    note_set(&ret_page->why, "%s", "refused");
    ret_page->status = !is_first ? 200 : is_ready ? ready_status : metrics_status;
    ret_page->asked = ret_page->answered = d->now;
    ret_page->date.ms = d->now.ms / 1000 * 1000 + (uint64_t)(is_first ? clock_ahead_ms : 0);
    buf_init(&ret_page->text, sizeof metrics);
    CHECK_OK("a page", buf_append_c(&ret_page->text, text));
}

static void set_metrics(const char *changed, double value)
{
    static const struct {
        const char *name;
        double value;
    } all[] = {{"muster_log_disk_free_bytes", 5e10},
               {"muster_log_disk_full", 0},
               {"process_open_fds", 40},
               {"process_max_fds", 65536},
               {"muster_tls_not_after_seconds", 0}};
    size_t used = 0;

    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        used += (size_t)snprintf(
            metrics + used, sizeof metrics - used, "# TYPE %s gauge\n%s %.0f\n", all[i].name,
            all[i].name, changed && strcmp(changed, all[i].name) == 0 ? value : all[i].value);
    snprintf(metrics + used, sizeof metrics - used, "muster_build_info{version=\"0.1.0\"} 1\n");
}

static void healthy(const char *const *words)
{
    static Muster__V1__Replica *list[3];
    static char names[3][8], http[3][8];

    canned_open(&canned, words);
    doctor = (struct doctor){.now = {NOW_MS}, .fetch = fetch};
    muster__v1__list_replicas_response__init(&replicas);
    muster__v1__cluster_status_response__init(&members);
    muster__v1__status_response__init(&store);
    muster__v1__list_ownership_issues_response__init(&ownership);
    muster__v1__shard_status_response__init(&shard);
    for (int i = 0; i < 3; i++) {
        muster__v1__replica__init(&replica[i]);
        snprintf(names[i], sizeof names[i], "node-%d", i);
        snprintf(http[i], sizeof http[i], "h%d", i);
        replica[i].name = names[i];
        replica[i].http_address = http[i];
        replica[i].grpc_address = ctl_text("127.0.0.1:7790");
        replica[i].voter = true;
        replica[i].leader = i == 0;
        replica[i].match = 5000;
        replica[i].silent_ms = 10;
        replica[i].level = 3;
        list[i] = &replica[i];
    }
    replicas.replicas = list;
    replicas.n_replicas = 3;
    replicas.term = 4;
    members.known = members.active = 2;
    store.keys = 3;
    shard.cycle = 9;
    shard.machines = 12;
    shard.cycle_interval_ms = 1000;
    shard.computed_at_unix_ns = (int64_t)(NOW_MS - 2000) * 1000000;
    doctor.survey.said[SURVEY_REPLICAS] = &replicas.base;
    doctor.survey.said[SURVEY_MEMBERS] = &members.base;
    doctor.survey.said[SURVEY_STORE] = &store.base;
    doctor.survey.said[SURVEY_OWNERSHIP] = &ownership.base;
    snprintf(doctor.survey.shards[0].id, SURVEY_ID_CAP, "shard-0");
    doctor.survey.shards[0].said = &shard;
    doctor.survey.shard_count = 1;
    set_metrics(NULL, 0);
    snprintf(ready, sizeof ready, "ok\n");
    ready_status = metrics_status = 200;
    page_err = ERR_OK;
    clock_ahead_ms = 0;
}

static const char *diagnose(void)
{
    doctor_begin(&doctor, &canned.ctl);
    doctor_judge(&doctor);
    doctor_end(&doctor);
    return canned_printed(&canned);
}

/* Expects exactly this finding for the change of the healthy fleet. */
static void check_finding(const char *line, int exit_code)
{
    CHECK_HAS("the finding", diagnose(), line);
    CHECK_I64("the exit code", canned.ctl.exit_code, exit_code);
    canned_close(&canned);
}

TEST(all_is_well)
{
    healthy(CANNED_WORDS(NULL));
    CHECK_TEXT("nothing else", diagnose(),
               "ok    quorum: 3 voters answer, node-0 leads in term 4\n"
               "ok    no replica is behind\n"
               "ok    node-0: ready\n"
               "ok    node-0: its clock agrees with this machine's\n"
               "ok    node-0: the disk of its log: 46GiB are free\n"
               "ok    node-0: 40 of 65536 file descriptors are open\n"
               "ok    node-1: ready\n"
               "ok    node-1: its clock agrees with this machine's\n"
               "ok    node-1: the disk of its log: 46GiB are free\n"
               "ok    node-1: 40 of 65536 file descriptors are open\n"
               "ok    node-2: ready\n"
               "ok    node-2: its clock agrees with this machine's\n"
               "ok    node-2: the disk of its log: 46GiB are free\n"
               "ok    node-2: 40 of 65536 file descriptors are open\n"
               "ok    all replicas that answer run the same build\n"
               "ok    store: 3 keys, within its quota\n"
               "ok    workers: 2 of 2 are active\n"
               "ok    domains: no domain is named by two shards\n"
               "ok    shard shard-0: cycle 9, 12 machines\n"
               "19 ok, 0 warn, 0 fail\n");
    CHECK_I64("well", canned.ctl.exit_code, 0);
    canned_close(&canned);
}

TEST(for_programs_each_finding_is_an_object)
{
    healthy(CANNED_WORDS("--json"));
    store.no_space = true;
    CHECK_HAS("an object", diagnose(),
              "{\"result\":\"fail\",\"what\":\"store: its quota is used up, writes are refused\","
              "\"advice\":\"delete keys,");
    CHECK_HAS("the counts", canned.ctl.out.data, "],\"ok\":18,\"warn\":0,\"fail\":1}\n");
    CHECK_I64("wrong", canned.ctl.exit_code, 1);
    canned_close(&canned);
}

TEST(nobody_answers)
{
    healthy(CANNED_WORDS(NULL));
    doctor.survey.said[SURVEY_REPLICAS] = NULL;
    note_set(&doctor.survey.why[SURVEY_REPLICAS], "no coordinator answers");
    check_finding("fail  quorum: no coordinator answers  -- start the replicas;", 1);
}

TEST(a_silent_voter_warns_and_a_lost_majority_fails)
{
    healthy(CANNED_WORDS(NULL));
    replica[1].silent_ms = 5000;
    check_finding("warn  quorum: 1 of 3 voters do not answer (node-1)", 1);
    healthy(CANNED_WORDS(NULL));
    replica[1].silent_ms = replica[2].silent_ms = -1;
    check_finding("fail  quorum: 2 of 3 voters do not answer (node-2)", 1);
}

TEST(fewer_than_three_voters)
{
    healthy(CANNED_WORDS(NULL));
    replicas.n_replicas = 1;
    check_finding("warn  quorum: 1 voter; none of them may fail  -- run three", 1);
}

TEST(lag_learners_and_levels)
{
    healthy(CANNED_WORDS(NULL));
    replica[2].match = 3999;
    check_finding("warn  node-2: 1001 entries behind", 1);
    healthy(CANNED_WORDS(NULL));
    replica[2].voter = false;
    check_finding("warn  node-2: a learner, 0 entries behind", 1);
    healthy(CANNED_WORDS(NULL));
    replica[2].level = 2;
    check_finding("warn  node-0 and node-2 announce different levels (3, 2)", 1);
}

TEST(a_replica_without_pages_or_with_bad_ones)
{
    healthy(CANNED_WORDS(NULL));
    replica[0].http_address = ctl_text("0");
    check_finding("warn  node-0: it has no HTTP address;", 1);
    healthy(CANNED_WORDS(NULL));
    page_err = ERR_UNAVAILABLE;
    check_finding("fail  node-0: h0 does not answer over HTTP (refused)", 1);
    healthy(CANNED_WORDS(NULL));
    metrics_status = 403;
    check_finding("warn  node-0: h0 does not answer over HTTP (another status than 200)", 1);
    healthy(CANNED_WORDS(NULL));
    ready_status = 503;
    snprintf(ready, sizeof ready, "log: no leader\ndisk: full\n");
    check_finding("fail  node-0: not ready: log: no leader;disk: full", 1);
}

TEST(clocks)
{
    healthy(CANNED_WORDS(NULL));
    clock_ahead_ms = 5000;
    check_finding("warn  node-0: its clock is at least 5s ahead of this machine's", 1);
    healthy(CANNED_WORDS(NULL));
    clock_ahead_ms = -20000;
    check_finding("fail  node-0: its clock is at least 19s behind this machine's", 1);
    healthy(CANNED_WORDS(NULL)); /* the header has whole seconds only */
    clock_ahead_ms = -1000;
    check_finding("ok    node-0: its clock agrees", 0);
}

TEST(disk_and_descriptors)
{
    static const struct {
        const char *metric;
        double value;
        const char *finding;
        int exit_code;
    } cases[] = {
        {"muster_log_disk_free_bytes", 5e8, "warn  node-0: the disk of its log: only 476MiB", 1},
        {"muster_log_disk_free_bytes", 1e7, "fail  node-0: the disk of its log: only 9MiB", 1},
        {"muster_log_disk_full", 1, "fail  node-0: the disk of its log is below the reserve", 1},
        {"process_open_fds", 60000, "warn  node-0: 60000 of 65536 file descriptors", 1},
        {"process_open_fds", 65000, "fail  node-0: 65000 of 65536 file descriptors", 1},
        {"process_max_fds", 1024, "warn  node-0: it may open only 1024 files", 1},
        {"muster_tls_not_after_seconds", NOW_MS / 1000 + 86400 * 20,
         "ok    node-0: the certificate is good until 2026-01-21", 0},
        {"muster_tls_not_after_seconds", NOW_MS / 1000 + 86400 * 3,
         "warn  node-0: the certificate ends 2026-01-04, in 3 days  -- musterctl cert renew", 1},
        {"muster_tls_not_after_seconds", NOW_MS / 1000 - 1,
         "fail  node-0: the certificate ended 2025-12-31", 1},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        healthy(CANNED_WORDS(NULL));
        set_metrics(cases[i].metric, cases[i].value);
        check_finding(cases[i].finding, cases[i].exit_code);
    }
}

TEST(plaintext_beyond_this_machine)
{
    healthy(CANNED_WORDS(NULL));
    replica[1].grpc_address = ctl_text("10.0.0.1:7790");
    check_finding("warn  node-1: speaks plaintext at 10.0.0.1:7790: everybody who reaches it", 1);
}

TEST(store_and_workers)
{
    healthy(CANNED_WORDS(NULL));
    store.no_space = true;
    check_finding("fail  store: its quota is used up", 1);
    healthy(CANNED_WORDS(NULL));
    members.hold = true;
    check_finding("fail  workers: so many failed at once", 1);
    healthy(CANNED_WORDS(NULL));
    members.suspected = members.dead = 1;
    check_finding("warn  workers: 1 suspected, 1 dead of 2", 1);
}

TEST(domains_that_two_own)
{
    Muster__V1__LeavingDomain domain = MUSTER__V1__LEAVING_DOMAIN__INIT, *leaving[] = {&domain};
    Muster__V1__DuplicateShard twice = MUSTER__V1__DUPLICATE_SHARD__INIT, *duplicates[] = {&twice};
    Muster__V1__UnscopedProvider both = MUSTER__V1__UNSCOPED_PROVIDER__INIT, *unscoped[] = {&both};
    Muster__V1__ContestedDomain torn = MUSTER__V1__CONTESTED_DOMAIN__INIT, *contested[] = {&torn};
    char *ids[] = {ctl_text("s1"), ctl_text("s2")};

    domain.topology_key = ctl_text("zone");
    domain.topology_value = ctl_text("a");
    domain.shard_id = ctl_text("s1");
    healthy(CANNED_WORDS(NULL));
    ownership.leaving = leaving;
    ownership.n_leaving = ownership.leaving_count = 1;
    check_finding("warn  domains: 1 wait until their last shard gives them up (zone=a: s1)", 1);
    domain.owner_id = ctl_text("s2");
    healthy(CANNED_WORDS(NULL));
    ownership.leaving = leaving;
    ownership.n_leaving = ownership.leaving_count = 1;
    check_finding("fail  domain zone=a: s2 owns it, and s1 has not given it up", 1);
    twice.shard_id = ctl_text("s1");
    healthy(CANNED_WORDS(NULL));
    ownership.duplicates = duplicates;
    ownership.n_duplicates = 1;
    check_finding("fail  shard s1: 0 processes report under this id (?, ?)", 1);
    both.provider_address = ctl_text("p:1");
    healthy(CANNED_WORDS(NULL));
    ownership.unscoped = unscoped;
    ownership.n_unscoped = 1;
    check_finding("fail  provider p:1: 0 shards without domains use it (?)", 1);
    both.shard_ids = ids;
    both.n_shard_ids = both.n_other_ids = 1;
    both.other_ids = ids + 1;
    healthy(CANNED_WORDS(NULL));
    ownership.unscoped = unscoped;
    ownership.n_unscoped = 1;
    check_finding("fail  provider p:1: 1 shard without domains uses it (s1) beside s2", 1);
    torn.topology_key = ctl_text("zone");
    torn.topology_value = ctl_text("a");
    torn.shard_id = ctl_text("s1");
    healthy(CANNED_WORDS(NULL));
    ownership.contested = contested;
    ownership.n_contested = ownership.contested_count = 1;
    check_finding("fail  domain zone=a: nobody owns it, and s1 acts on it (1 such domains)", 1);
}

TEST(a_shard_that_is_silent_late_or_held)
{
    healthy(CANNED_WORDS(NULL));
    doctor.survey.shards[0].said = NULL;
    note_set(&doctor.survey.shards[0].why, "refused");
    check_finding("fail  shard shard-0: refused  -- is it running?", 1);
    healthy(CANNED_WORDS(NULL));
    shard.cycle = 0;
    check_finding("fail  shard shard-0: it has decided nothing yet", 1);
    healthy(CANNED_WORDS(NULL));
    shard.computed_at_unix_ns = (int64_t)(NOW_MS - 61500) * 1000000;
    check_finding("fail  shard shard-0: the last cycle was 1m1s ago", 1);
    healthy(CANNED_WORDS(NULL));
    shard.paused = shard.dry_run = true;
    check_finding("warn  shard shard-0: the kill switch and dry-run are on, so nothing is done", 1);
    healthy(CANNED_WORDS(NULL));
    shard.in_doubt = 2;
    check_finding("warn  shard shard-0: of 2 machines nobody knows how a call ended", 1);
    healthy(CANNED_WORDS(NULL));
    shard.shortfalls = 4;
    check_finding("warn  shard shard-0: 4 Needs are not met", 1);
    healthy(CANNED_WORDS(NULL));
    shard.fenced = true;
    shard.epoch = 7;
    shard.newest_epoch = 9;
    check_finding(
        "fail  shard shard-0: fenced: its epoch 7 is not newer than 9, so nothing is done  "
        "-- a newer process of the same shard runs? Stop this one. It lost its data directory? "
        "Stop it, "
        "`muster shard set-epoch --data-dir DIR 9` there, start it",
        1);
    healthy(CANNED_WORDS(NULL));
    doctor.survey.shards_left_out = 3;
    check_finding("warn  3 more shards were not looked at", 1);
}

/* The whole command over answered calls: it asks every part, and parts without an answer get no
 * finding. */
TEST(the_command_asks_every_part)
{
    healthy(CANNED_WORDS("--data-dir", "/nowhere"));
    replicas.n_replicas = 0;
    canned_answer("/muster.v1.Fleet/ListReplicas", &replicas.base);
    CHECK_OK("it runs", doctor_act(&canned.ctl));
    CHECK_HAS("no voters", canned_printed(&canned),
              "warn  quorum: 0 voters; none of them may fail");
    CHECK_HAS("this machine", canned.ctl.out.data, "fail  /nowhere: ");
    CHECK("no store", strstr(canned.ctl.out.data, "store:") == NULL);
    CHECK_HAS("claims below muster/", canned_asked("/muster.v1.Coordination/Range"),
              "\"keys_only\":true");
    CHECK_I64("wrong", canned.ctl.exit_code, 1);
    canned_close(&canned);
}
