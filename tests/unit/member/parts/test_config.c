/* SPDX-License-Identifier: Apache-2.0 */
/* member/config/config.h: the cases of workers.md 24.12, by number. */
#include "member/config/config.h"

#include <string.h>

#include "lib/option_table.h"
#include "lib/test.h"
#include "member/config/options.h"

#define RUN  "01JFEAVS7C5DE5XEAEAB91EBT5"
#define HEAD "run_id = '" RUN "'\n"

static const struct option coordinator_options[] = {
    {.name = "id", .kind = OPTION_STRING, .fallback = "node-0", .help = "x"},
    MEMBER_OPTIONS_TOP,
    MEMBER_OPTIONS_EVENTS,
    MEMBER_OPTIONS_SECTIONS,
};
static const struct option_table coordinator = {coordinator_options,
                                                ARRAY_LEN(coordinator_options)};
static const struct option worker_options[] = {WORKER_OPTIONS_TOP, WORKER_OPTIONS_SECTIONS};
static const struct option_table worker = {worker_options, ARRAY_LEN(worker_options)};

/* The problems of a file, and its settings when there are none. */
struct loaded {
    struct conf *conf;
    struct buf problems, warnings;
    struct member_config coordinator;
    struct worker_config worker;
    enum err err;
};

static struct loaded load(const struct option_table *table, const char *file,
                          const char *const *flags, size_t flag_count)
{
    struct loaded l = {0};

    buf_init(&l.problems, 64 << 10);
    buf_init(&l.warnings, 64 << 10);
    CHECK_OK("open", conf_open(table, &l.conf));
    (void)conf_add_flags(l.conf, flag_count, flags);
    (void)conf_add_file(l.conf, "c.toml", str_from(file));
    l.err = conf_finish(l.conf);
    if (l.err)
        CHECK_OK("kept", buf_append(&l.problems, conf_problems(l.conf)));
    else if (table == &worker)
        l.err = worker_config_read(l.conf, &l.worker, &l.problems, &l.warnings);
    else
        l.err = member_config_read(l.conf, &l.coordinator, &l.problems, &l.warnings);
    CHECK_OK("text", buf_append_byte(&l.problems, '\0'));
    CHECK_OK("text", buf_append_byte(&l.warnings, '\0'));
    return l;
}

static void unload(struct loaded *l)
{
    buf_deinit(&l->problems);
    buf_deinit(&l->warnings);
    conf_close(l->conf);
}

TEST(both_tables_are_well_formed)
{
    struct note note = {""};

    CHECK(note.text, option_table_valid(&coordinator, &note));
    CHECK(note.text, option_table_valid(&worker, &note));
}

TEST(case_177_the_defaults_are_the_specifications_and_validate)
{
    struct loaded l = load(&coordinator, HEAD "[transport]\n", NULL, 0);
    const struct member_config *c = &l.coordinator;

    CHECK_OK(l.problems.data, l.err);
    CHECK_TEXT("nothing to warn of", l.warnings.data, "");
    CHECK("on", c->enabled);
    CHECK_U64("heartbeat_interval", c->transport.heartbeat_interval_ms, 500);
    CHECK_U64("worker_self_fence_timeout", c->transport.worker_self_fence_timeout_ms, 4000);
    CHECK_U64("coordinator_failure_timeout", c->transport.coordinator_failure_timeout_ms, 5000);
    CHECK_U64("clock_skew_budget", c->transport.clock_skew_budget_ms, 250);
    CHECK_TEXT("listen_addr", c->transport.listen_addr, "127.0.0.1:50051");
    CHECK_TEXT("tls_dir", c->transport.tls_dir, "./data/tls");
    CHECK_TEXT("path", c->storage.path, "./data/rollout.db");
    CHECK_U64("flush", c->storage.heartbeat_flush_interval_ms, 1000);
    CHECK_U64("max_connections", c->transport.max_connections, 100000);
    CHECK("events", c->events.heartbeat == 0 && c->events.ids && !c->events.rollout_only &&
                        c->events.heartbeat_event_limit == 5000 && c->events.queue == 100000 &&
                        c->events.sink == CONFIG_SINK_STDOUT);
    CHECK("start", c->start_timeout_ms == 60000 && c->loser_exit == 3);
    CHECK("no strictness", !c->transport.strict_permissions && !c->transport.ca_file);
    unload(&l);
}

static const struct {
    const char *why, *file;
    const char *says[3]; /* each is in the message */
} refused[] = {
    {"178: the fence after the failure",
     HEAD "[transport]\nworker_self_fence_timeout = '6s'\ncoordinator_failure_timeout = '5s'\n",
     {"worker_self_fence_timeout 6s", "coordinator_failure_timeout 5s", "split-brain prevention"}},
    {"178: equal is not less",
     HEAD "[transport]\nworker_self_fence_timeout = '5s'\n",
     {"worker_self_fence_timeout 5s", "coordinator_failure_timeout 5s", "split-brain prevention"}},
    {"179: more skew than two beats",
     HEAD "[transport]\nclock_skew_budget = '2s'\n",
     {"clock_skew_budget 2s", "heartbeat_interval 500ms", "1s"}},
    {"179: equal is not less",
     HEAD "[transport]\nclock_skew_budget = '1s'\n",
     {"clock_skew_budget 1s", "heartbeat_interval", "1s"}},
    {"180: a beat as long as the failure timeout",
     HEAD "[transport]\nheartbeat_interval = '5s'\n",
     {"renew cadence", "heartbeat_interval 5s", "coordinator_failure_timeout 5s"}},
    {"a fence as long as the interval",
     HEAD "[transport]\nworker_self_fence_timeout = '500ms'\n",
     {"worker_self_fence_timeout 500ms must be longer than", "heartbeat_interval 500ms", ""}},
    {"a fence shorter than the interval",
     HEAD "[transport]\nworker_self_fence_timeout = '300ms'\n",
     {"worker_self_fence_timeout 300ms must be longer than", "heartbeat_interval 500ms", ""}},
    {"182: unknown at the top", HEAD "[transport]\n[transprot]\n", {"transprot", "", ""}},
    {"182: unknown in storage",
     HEAD "[transport]\n[storage]\npaht = 'x'\n",
     {"storage.paht", "did you mean 'storage.path'?", "c.toml:4:1"}},
    {"182: unknown in transport",
     HEAD "[transport]\nheartbeat_intervall = '1s'\n",
     {"transport.heartbeat_intervall", "did you mean 'transport.heartbeat_interval'?", ""}},
    {"182: the key in the wrong section",
     HEAD "heartbeat_interval = '1s'\n[transport]\n",
     {"'heartbeat_interval'", "did you mean 'transport.heartbeat_interval'?", ""}},
    {"183: a bare number",
     HEAD "[transport]\nheartbeat_interval = 500\n",
     {"transport.heartbeat_interval", "duration", "c.toml:3:22"}},
    {"184: a name",
     HEAD "[transport]\nlisten_addr = 'localhost:50051'\n",
     {"transport.listen_addr 'localhost:50051'", "invalid socket address", ""}},
    {"184: no port",
     HEAD "[transport]\nlisten_addr = '127.0.0.1'\n",
     {"transport.listen_addr", "invalid socket address", ""}},
    {"185: no run", "[transport]\n", {"run_id is missing", "", ""}},
    {"185: no ULID",
     "run_id = 'nope'\n[transport]\n",
     {"run_id 'nope'", "not a valid ulid", "invalid length"}},
    {"a silence shorter than two beats",
     HEAD "[transport]\nheartbeat_interval = '500ms'\n[detector]\nheartbeat_timeout_sec = 1\n",
     {"heartbeat_timeout_sec 1s", "heartbeat_interval 500ms", "1s"}},
    {"a revocation shorter than two beats",
     HEAD "[transport]\n[placement]\nrevoke_timeout = '999ms'\n",
     {"revoke_timeout 999ms", "heartbeat_interval 500ms", "1s"}},
    {"nobody may fail",
     HEAD "[transport]\n[detector]\nmax_fail_fraction = 0.0\n",
     {"max_fail_fraction", "more than 0", ""}},
    {"nobody could ever serve",
     HEAD "[transport]\n[detector]\nsuspect_ratio = 0.0\n",
     {"suspect_ratio", "more than 0", ""}},
    {"everybody suspected",
     HEAD "[transport]\n[detector]\nsuspect = 'phi'\nphi_threshold = 0.0\n",
     {"phi_threshold", "more than 0", ""}},
    {"more than all may fail",
     HEAD "[transport]\n[detector]\nmax_fail_fraction = 1.1\n",
     {"max_fail_fraction", "1", ""}},
    {"a negative bound",
     HEAD "[transport]\n[placement]\nepsilon = -0.1\n",
     {"placement.epsilon", "negative", ""}},
    {"no partitions",
     HEAD "[transport]\n[placement]\ntotal_partitions = 0\n",
     {"total_partitions", "at least 1", ""}},
    {"too many nodes",
     HEAD "[transport]\n[placement]\nvirtual_nodes = 4097\n",
     {"virtual_nodes 4097", "between 1 and 4096", ""}},
    {"no interval at all",
     HEAD "[transport]\nheartbeat_interval = '0s'\n",
     {"transport.heartbeat_interval", "1ms", ""}},
    {"two of the three files",
     HEAD "[transport]\nca_file = 'a'\nkey_file = 'b'\n",
     {"ca_file", "cert_file", "2 of 3"}},
    {"an empty path", HEAD "[transport]\n[storage]\npath = ''\n", {"storage.path", "empty", ""}},
    {"the key that does not exist here",
     HEAD "[transport]\n[cluster]\nleader_lease = '1s'\n",
     {"cluster", "", ""}},
};

TEST(cases_178_to_185_refusals_give_both_numbers_and_the_rule)
{
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        struct loaded l = load(&coordinator, refused[i].file, NULL, 0);
        CHECK_ERR(refused[i].why, l.err, ERR_INVALID);
        for (size_t j = 0; j < ARRAY_LEN(refused[i].says); j++)
            CHECK_HAS(refused[i].why, l.problems.data, refused[i].says[j]);
        unload(&l);
    }
}

static const struct {
    const char *why, *file;
} accepted[] = {
    {"179: a little less than two beats", HEAD "[transport]\nclock_skew_budget = '999ms'\n"},
    {"183: two parts and a blank", HEAD "[transport]\nbeat_reply_max = '30s'\n[detector]\n"
                                        "mass_failure_hold = '1m 30s'\n"},
    {"75: suspicion by history", HEAD "[transport]\n[detector]\nsuspect = 'phi'\nphi_samples = 50\n"
                                      "phi_min_std = '20ms'\nphi_threshold = 5.5\n"},
    {"an IPv6 address", HEAD "[transport]\nlisten_addr = '[::1]:0'\n"},
    {"lower case", "run_id = '01jfeavs7c5de5xeaeab91ebt5'\n[transport]\n"},
    {"two beats exactly", HEAD "[transport]\n[placement]\nrevoke_timeout = '1s'\n"},
    {"all of them may fail", HEAD "[transport]\n[detector]\nmax_fail_fraction = 1.0\n"},
    {"the seed's own file", HEAD "[storage]\npath = \"./data/rollout.db\"\n[transport]\n"
                                 "listen_addr = \"127.0.0.1:50051\"\ntls_dir = \"./data/tls\"\n"},
};

TEST(cases_179_183_what_is_just_allowed)
{
    for (size_t i = 0; i < ARRAY_LEN(accepted); i++) {
        struct loaded l = load(&coordinator, accepted[i].file, NULL, 0);
        char run[ULID_TEXT_CAP];

        CHECK(accepted[i].why, l.problems.len == 1);
        CHECK_OK(accepted[i].why, l.err);
        ulid_text(&l.coordinator.run_id, run);
        CHECK_TEXT("canonical", run, RUN);
        if (strstr(accepted[i].file, "1m 30s"))
            CHECK_U64("183: 90 s", conf_number(l.conf, "detector.mass_failure_hold"), 90000);
        unload(&l);
    }
}

TEST(case_181_every_violation_is_reported_not_only_the_first)
{
    struct loaded l = load(&coordinator,
                           "run_id = 'x'\n[transport]\nworker_self_fence_timeout = '6s'\n"
                           "clock_skew_budget = '3s'\nlisten_addr = 'here'\n",
                           NULL, 0);
    size_t lines = 0;

    CHECK_ERR("refused", l.err, ERR_INVALID);
    for (const char *c = l.problems.data; *c; c++) lines += *c == '\n';
    CHECK_SIZE(l.problems.data, lines, 4);
    unload(&l);
}

TEST(without_a_transport_section_there_are_no_workers_and_nothing_is_asked)
{
    struct loaded l = load(&coordinator, "[storage]\npath = ''\n", NULL, 0);

    CHECK_OK("fine", l.err);
    CHECK("off", !l.coordinator.enabled);
    unload(&l);
    l = load(&coordinator, "", (const char *const[]){"--transport-listen-addr", "127.0.0.1:0"}, 2);
    CHECK_ERR("a flag of the section asks for it, too", l.err, ERR_INVALID);
    CHECK_HAS("and then for the run", l.problems.data, "run_id is missing");
    unload(&l);
    l = load(&coordinator, "",
             (const char *const[]){"--transport-tls-dir=x", "--run-id=" RUN, "--heartbeat-events",
                                   "sampled"},
             4);
    CHECK_OK("by flags alone", l.err);
    CHECK_I64("the short flag: sampled", l.coordinator.events.heartbeat, 1);
    unload(&l);
}

TEST(unwise_values_are_reported_and_accepted)
{
    struct loaded l = load(&coordinator,
                           HEAD "[transport]\nworker_self_fence_timeout = '1s'\n"
                                "[placement]\ngrant_to_legacy = true\n",
                           NULL, 0);

    CHECK_OK(l.problems.data, l.err);
    CHECK_HAS("the fence", l.warnings.data, "worker_self_fence_timeout 1s");
    CHECK_HAS("old workers", l.warnings.data, "grant_to_legacy");
    unload(&l);
}

TEST(a_configuration_without_workers_prints_as_one)
{
    struct loaded l = load(&coordinator, "", NULL, 0);
    struct buf text;

    buf_init(&text, 1 << 20);
    CHECK_OK("printed", conf_print(l.conf, "muster", &text));
    CHECK_OK("text", buf_append_byte(&text, '\0'));
    CHECK("no section that would switch them on", !strstr(text.data, "[transport]"));
    CHECK_HAS("the others are there", text.data, "[placement]");
    unload(&l);
    l = load(&coordinator, text.data, NULL, 0);
    CHECK_OK("loads again", l.err);
    CHECK("off", !l.coordinator.enabled);
    unload(&l);
    buf_deinit(&text);
}

/* -- worker -- */

#define DIAL "coordinator_addr = 'https://127.0.0.1:50051'\n"

TEST(case_186_the_two_defaults_of_storage_path)
{
    static const struct {
        const char *why, *file, *want;
    } cases[] = {
        {"no table", HEAD DIAL, "./data/worker.db"},
        {"an empty table", HEAD DIAL "[storage]\n", "./data/rollout.db"},
        {"a path", HEAD DIAL "[storage]\npath = '/x'\n", "/x"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct loaded l = load(&worker, cases[i].file, NULL, 0);
        CHECK_OK(l.problems.data, l.err);
        CHECK_TEXT(cases[i].why, l.worker.storage_path, cases[i].want);
        unload(&l);
    }
}

TEST(case_187_a_worker_must_know_whom_to_dial)
{
    static const struct {
        const char *why, *file, *says;
    } cases[] = {
        {"missing", HEAD, "coordinator"},
        {"no run", DIAL, "run-id"},
        {"no scheme", HEAD "coordinator_addr = '127.0.0.1:1'\n", "https://"},
        {"plain text", HEAD "coordinator_addr = 'http://127.0.0.1:1'\n", "https://"},
        {"port 0", HEAD "coordinator_addr = 'https://host:0'\n", "no host and port"},
        {"no port", HEAD "coordinator_addr = 'https://host'\n", "coordinator_addr"},
        {"a path", HEAD "coordinator_addr = 'https://host:1/x'\n", "coordinator_addr"},
        {"an empty URL", HEAD "coordinator_addr = 'https://'\n", "coordinator_addr"},
        {"one of two", HEAD "coordinator_addr = ['https://a:1', 'b']\n", "'b'"},
        {"the fence", HEAD DIAL "[transport]\nworker_self_fence_timeout = '6s'\n",
         "split-brain prevention"},
        {"no such store", HEAD DIAL "[checkpoint]\nstore = 'ftp://x'\n", "checkpoint.store"},
        {"a coordinator's key", HEAD DIAL "[detector]\nkind = 'silence'\n", "detector"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct loaded l = load(&worker, cases[i].file, NULL, 0);
        CHECK_ERR(cases[i].why, l.err, ERR_INVALID);
        CHECK_HAS(cases[i].why, l.problems.data, cases[i].says);
        unload(&l);
    }
}

TEST(case_171_a_worker_id_is_a_ulid)
{
    struct loaded l = load(&worker, HEAD DIAL, (const char *const[]){"--worker-id", "xyz"}, 2);

    CHECK_ERR("refused", l.err, ERR_INVALID);
    CHECK_HAS("names the flag", l.problems.data, "--worker-id");
    CHECK_HAS("and the kind", l.problems.data, "ulid");
    unload(&l);
}

TEST(a_worker_may_know_several_coordinators)
{
    static const char *const flags[] = {"--worker-id", RUN,      "--plugin",    "a.toml",
                                        "--plugin",    "b.toml", "--hot-reload"};
    struct loaded l = load(&worker,
                           HEAD "coordinator_addr = ['https://127.0.0.1:1', 'https://[::1]:2/']\n"
                                "[worker]\nfence_action = 'exit'\ndrain_deadline = '5s'\n"
                                "[checkpoint]\nstore = 's3://bucket/p'\n[transport]\n"
                                "listen_addr = 'ignored'\n",
                           flags, ARRAY_LEN(flags));

    CHECK_OK(l.problems.data, l.err);
    CHECK_SIZE("both", l.worker.coordinator_count, 2);
    CHECK_TEXT("first", l.worker.coordinators[0], "127.0.0.1:1");
    CHECK_TEXT("second", l.worker.coordinators[1], "[::1]:2");
    CHECK("its own name", l.worker.has_worker_id);
    CHECK_SIZE("plugins", l.worker.plugins.item_count, 2);
    CHECK_STR("in order", l.worker.plugins.items[1], STR("b.toml"));
    CHECK("reload", l.worker.hot_reload);
    CHECK_U64("exit", l.worker.fence_action, WORKER_FENCE_EXIT);
    CHECK_U64("drain", l.worker.drain_deadline_ms, 5000);
    CHECK_TEXT("store", l.worker.checkpoint_store, "s3://bucket/p");
    CHECK_TEXT("domain", l.worker.coordinator_domain, "localhost");
    unload(&l);
}
