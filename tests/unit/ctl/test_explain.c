/* SPDX-License-Identifier: Apache-2.0 */
/* ctl/explain.h: what is said of a Need, a machine and a worker, from canned answers. */
#include <stdio.h>

#include "canned.h"
#include "ctl/explain.h"

#define ULID "01JFEAVS7C5DE5XEAEAB91EBT6"

static struct canned canned;

/* Lines are broken to fit a terminal; the rules are about words. */
static const char *said(void)
{
    static char text[8192];
    const char *from = canned_printed(&canned);
    size_t len = 0;

    for (; *from && len + 1 < sizeof text; from++) {
        if (*from == '\n' && strncmp(from, "\n             ", 14) == 0) {
            text[len++] = ' ';
            from += 13;
        } else {
            text[len++] = *from;
        }
    }
    text[len] = '\0';
    return text;
}

/* -- machines -- */

static Muster__V1__ShardMachineResponse machine;
static Muster__V1__ShardStatusResponse shard;

static void some_machine(const char *state)
{
    canned_open(&canned, CANNED_WORDS("m-1"));
    muster__v1__shard_machine_response__init(&machine);
    muster__v1__shard_status_response__init(&shard);
    machine.machine_id = ctl_text("m-1");
    machine.shard_id = ctl_text("s-0");
    machine.cycle = 9;
    machine.state = ctl_text(state);
    machine.cluster = ctl_text("c");
    machine.capacity_type = ctl_text("spot");
    machine.price_per_hour = 0.25;
    machine.interruption_probability = 0.05;
}

static void check_machine(const char *line)
{
    explain_machine_say(&canned.ctl, &machine, &shard);
    CHECK_HAS("said", said(), line);
    canned_close(&canned);
}

TEST(a_machine_in_full)
{
    some_machine("Idle");
    machine.cluster = ctl_text("");
    machine.instance_type = ctl_text("m5.large");
    machine.zone = ctl_text("eu-1a");
    machine.idle_ms = 125000;
    explain_machine_say(&canned.ctl, &machine, &shard);
    CHECK_TEXT(
        "all of it", said(),
        "machine m-1, of shard s-0 in cycle 9\n"
        "  is         m5.large in eu-1a, spot, 0.25 an hour, interrupted with probability 0.05\n"
        "  state      Idle for 2 minutes: bought, and serves nobody\n"
        "  lately     nothing among the shard's newest actions; the file of --audit-log goes "
        "back further\n"
        "  change     a Need that it fits: then it is configured; none for long: then it is "
        "given back\n");
    canned_close(&canned);
}

TEST(what_a_machine_is_for_and_waits_for)
{
    some_machine("Creating");
    machine.bought_for = ctl_text("cpu=4");
    machine.priority = 900;
    machine.destination = ctl_text("c");
    check_machine("  bought     for a Need of priority 900 of c, cpu=4\n");
    some_machine("Draining");
    machine.promised_to = ctl_text("d");
    check_machine("  promised   to d, whose more important Need it is emptied for\n");
    some_machine("Draining");
    machine.operator_drains = true;
    machine.operator_left_ms = 90000;
    check_machine(
        "  waits      for the operator of c to drain it; the provider drains it in 90.0 s at "
        "the latest\n");
    some_machine("Draining");
    machine.operator_drains = machine.operator_away = true;
    check_machine("  waits      for the operator of c, which is not connected, to drain it;");
    some_machine("Idle");
    machine.planned_state = ctl_text("Configuring");
    check_machine("  planned    an action is queued that makes it Configuring\n");
    some_machine("Idle");
    machine.pending = true;
    check_machine("  planned    a call to its provider or operator is under way\n");
}

TEST(what_a_machine_runs)
{
    static const struct {
        uint32_t evictable, held;
        bool no_room;
        const char *line;
    } cases[] = {
        {0, 0, false, "  runs       nothing, so that it is taken back before busy machines\n"},
        {1, 0, false, "  runs       1 pod that may be evicted\n"},
        {3, 2, false,
         "  runs       5 pods, of which 2 may not be evicted now (without a controller, or held by "
         "a "
         "PodDisruptionBudget): only a preemption takes it\n"},
        {2, 0, true,
         "  runs       2 pods without room on the cluster's other machines: only a preemption "
         "takes "
         "it\n"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        some_machine("Configured");
        machine.occupancy_known = true;
        machine.evictable_pods = cases[i].evictable;
        machine.held_pods = cases[i].held;
        machine.no_room = cases[i].no_room;
        check_machine(cases[i].line);
    }
}

TEST(a_machine_whose_domain_was_taken)
{
    some_machine("Configured");
    machine.outside = true;
    check_machine(
        "  leaves     its domain was taken from the shard, which keeps the domain until the "
        "machine serves nobody\n");
}

TEST(why_a_machine_rests)
{
    some_machine("Idle");
    machine.resting = ctl_text("refused");
    machine.refusals = 1;
    machine.rest_left_ms = 500;
    check_machine(
        "  rests      an action with it was refused, 1 time in a row; nobody tries again for "
        "500 ms\n");
    some_machine("Idle");
    machine.resting = ctl_text("doubt");
    machine.asked = 3;
    check_machine("the provider was asked 3 times without an answer");
    some_machine("Failed");
    machine.resting = ctl_text("failed");
    machine.last_error = ctl_text("quota\033[2J");
    check_machine("  error      quota\\x1B[2J\n");
}

TEST(what_would_change_a_machine)
{
    static const struct {
        bool fenced, paused, dry_run;
        const char *state, *resting, *change;
    } cases[] = {
        {true, true, true, "Idle", "doubt", "the shard is fenced and does nothing"},
        {false, true, true, "Idle", "doubt", "the shard's kill switch is on"},
        {false, false, true, "Idle", "doubt", "the shard only logs what it would do"},
        {false, false, false, "Idle", "doubt", "an answer of the provider"},
        {false, false, false, "Idle", "refused", "the end of its rest"},
        {false, false, false, "Speculative", "", "a Need that it fits and that no idle machine"},
        {false, false, false, "Configured", "", "less demand of its cluster"},
        {false, false, false, "Creating", "", "the end of what is under way"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        some_machine(cases[i].state);
        shard.fenced = cases[i].fenced;
        shard.paused = cases[i].paused;
        shard.dry_run = cases[i].dry_run;
        machine.resting = ctl_text(cases[i].resting);
        check_machine(cases[i].change);
    }
}

/* -- the audit -- */

TEST(the_newest_actions_of_a_cluster_in_words)
{
    static char *const lines[] = {
        "{\"kind\":\"Create\",\"machine\":\"m-1\",\"cluster\":\"c\",\"reason\":\"phase1."
        "speculative\","
        "\"outcome\":\"success\",\"time\":\"2026-01-01T00:00:00.1Z\",\"cycle\":1}",
        "{\"kind\":\"Drain\",\"machine\":\"m-2\",\"cluster\":\"d\",\"reason\":\"phase3.excess\","
        "\"outcome\":\"success\",\"time\":\"2026-01-01T00:00:01.1Z\",\"cycle\":2}",
        "not JSON",
        "{\"kind\":\"Delete\",\"machine\":\"m-3\",\"cluster\":\"c\",\"reason\":\"odd\","
        "\"outcome\":\"failed\",\"error\":\"no\",\"time\":\"2026-01-01T00:00:02.1Z\",\"cycle\":3}",
    };

    canned_open(&canned, CANNED_WORDS("x"));
    explain_audit(&canned.ctl, ARRAY_LEN(lines), lines, "c", 1);
    CHECK_TEXT(
        "the newest one", said(),
        "  lately     for all Needs of c:\n"
        "  lately     2026-01-01T00:00:02Z, cycle 3: Delete of m-3 for c, because odd: failed: "
        "no\n");
    canned_close(&canned);
    canned_open(&canned, CANNED_WORDS("x"));
    explain_audit(&canned.ctl, ARRAY_LEN(lines), lines, NULL, 9);
    CHECK_HAS("the oldest first", said(),
              "  lately     2026-01-01T00:00:00Z, cycle 1: Create of m-1 for c, because no idle "
              "machine fitted, so one is bought: success\n  lately     2026-01-01T00:00:01Z");
    canned_close(&canned);
}

/* -- workers -- */

static Muster__V1__Worker worker;
static Muster__V1__ListPartitionsResponse partitions;
static Muster__V1__ClusterStatusResponse status;

static void some_worker(void)
{
    canned_open(&canned, CANNED_WORDS(ULID));
    muster__v1__worker__init(&worker);
    muster__v1__list_partitions_response__init(&partitions);
    muster__v1__cluster_status_response__init(&status);
    worker.worker_id = ctl_text(ULID);
    worker.incarnation = 2;
    worker.registered_at_ms = worker.received_at_ms = 1767225600000;
    worker.standing = MUSTER__V1__STANDING__STANDING_ACTIVE;
    worker.phase = 3;
    worker.weight = 1;
    worker.grant_capable = true;
    worker.silent_ms = 1500;
    worker.partitions = 1;
    status.active = 2;
    status.total_partitions = 8;
}

static void check_worker(const char *line)
{
    explain_worker_say(&canned.ctl, &worker, &partitions, &status);
    CHECK_HAS("said", said(), line);
    canned_close(&canned);
}

TEST(a_worker_in_full)
{
    Muster__V1__Partition rows[4], *list[] = {&rows[0], &rows[1], &rows[2], &rows[3]};

    some_worker();
    for (size_t i = 0; i < 4; i++) {
        muster__v1__partition__init(&rows[i]);
        rows[i].partition = (uint32_t)i;
        rows[i].owner = worker.worker_id;
        rows[i].state = MUSTER__V1__PARTITION_STATE__PARTITION_OWNED;
    }
    rows[1].state = MUSTER__V1__PARTITION_STATE__PARTITION_REVOKING;
    rows[1].next_owner = ctl_text("w2");
    rows[1].revoke_deadline_in_ms = 1000;
    rows[2].state = MUSTER__V1__PARTITION_STATE__PARTITION_FENCING;
    rows[3].owner = ctl_text("w3");
    rows[3].next_owner = worker.worker_id;
    partitions.partitions = list;
    partitions.n_partitions = 4;
    explain_worker_say(&canned.ctl, &worker, &partitions, &status);
    CHECK_TEXT(
        "all of it", said(),
        "worker " ULID "\n"
        "  is         incarnation 2 of run (none), registered 2026-01-01T00:00:00Z, weight 1\n"
        "  standing   active: its last beat came 1.5 s ago; it says running, load 0.00 (0.00 "
        "over a minute)\n"
        "  has        1 partition: 0\n"
        "  gives up   partition 1 to w2: it has 1.0 s to finish, checkpoint and let go\n"
        "  fenced     partition 2: nobody gets it before a process that was cut off has "
        "stopped by its own clock\n"
        "  waits for  partition 3, which w3 still has\n"
        "  change     silence past its time makes it suspected, then dead; `musterctl worker "
        "drain` "
        "takes it out in peace; other workers that come or go move partitions\n");
    canned_close(&canned);
}

TEST(the_standing_of_a_worker)
{
    some_worker();
    worker.received_at_ms = 0;
    check_worker("active; this leader has heard no beat of it yet and waits for one");
    some_worker();
    worker.standing = MUSTER__V1__STANDING__STANDING_SUSPECTED;
    check_worker("suspected: silent for 1.5 s, and its beat is overdue");
    some_worker();
    worker.standing = MUSTER__V1__STANDING__STANDING_DEAD;
    worker.reason = ctl_text("evicted");
    check_worker("dead: evicted. This incarnation never comes back");
    some_worker();
    worker.standing = MUSTER__V1__STANDING__STANDING_REMOVED;
    check_worker("removed: no reason was given. Only its tombstone is left");
    some_worker();
    worker.standing = (Muster__V1__Standing)9;
    check_worker("in a way that this program does not know");
    some_worker();
    worker.assignment_epoch = 3;
    status.assignment_epoch = 5;
    check_worker("  behind     it has applied assignment 3 of 5, and fetches the newer one");
}

TEST(why_a_worker_has_nothing_and_what_would_change_that)
{
    some_worker();
    worker.partitions = 0;
    worker.standing = MUSTER__V1__STANDING__STANDING_DEAD;
    check_worker("  why        it is not active\n  change     a start of the process");
    some_worker();
    worker.partitions = 0;
    worker.draining = true;
    check_worker("  why        it drains: what it had goes to others\n  change     it leaves when");
    some_worker();
    worker.partitions = 0;
    worker.grant_capable = false;
    check_worker("  why        it did not promise to stop by its own clock");
    some_worker();
    worker.partitions = 0;
    status.active = 9;
    check_worker("  why        there are more active workers than partitions\n");
    some_worker();
    worker.partitions = 0;
    check_worker("  why        the ring gave it none;");
    some_worker();
    status.hold = true;
    check_worker("  change     so many failed at once that no verdict is given");
}

TEST(a_worker_is_found_on_a_later_page_or_among_the_removed)
{
    Muster__V1__Worker other = MUSTER__V1__WORKER__INIT, *first[] = {&other}, *second[] = {&worker};
    Muster__V1__ListWorkersResponse one = MUSTER__V1__LIST_WORKERS_RESPONSE__INIT, two = one;

    other.worker_id = ctl_text("01AAAAAAAAAAAAAAAAAAAAAAAA");
    some_worker();
    one.workers = first;
    one.n_workers = 1;
    one.more = true;
    two.workers = second;
    two.n_workers = 1;
    canned_answer("/muster.v1.Membership/ClusterStatus", &status.base);
    canned_answer("/muster.v1.Membership/ListPartitions", &partitions.base);
    canned_answer("/muster.v1.Membership/ListWorkers", &one.base);
    canned_answer("/muster.v1.Membership/ListWorkers", &two.base);
    CHECK_OK("found", explain_worker(&canned.ctl));
    CHECK_HAS("behind the first page", canned_asked("/muster.v1.Membership/ListWorkers"),
              "\"after\":\"01AAAAAAAAAAAAAAAAAAAAAAAA\"");
    CHECK_HAS("it", said(), "worker " ULID "\n");
    canned_close(&canned);
}

TEST(a_worker_that_nobody_knows_has_a_hint)
{
    Muster__V1__Worker *first[] = {&worker};
    Muster__V1__ListWorkersResponse list = MUSTER__V1__LIST_WORKERS_RESPONSE__INIT;

    some_worker();
    worker.worker_id = ctl_text("01JFEAVS7C5DE5XEAEAB91EBT7");
    list.workers = first;
    list.n_workers = 1;
    canned_answer("/muster.v1.Membership/ClusterStatus", &status.base);
    canned_answer("/muster.v1.Membership/ListWorkers", &list.base);
    CHECK_ERR("none", explain_worker(&canned.ctl), ERR_NOT_FOUND);
    CHECK_TEXT("near", canned.ctl.note.text,
               "no worker " ULID " is known (did you mean 01JFEAVS7C5DE5XEAEAB91EBT7?); `musterctl "
               "worker list` lists all");
    CHECK_HAS("the tombstones were read", canned_asked("/muster.v1.Membership/ListWorkers"),
              "\"STANDING_REMOVED\"");
    canned_close(&canned);
}

/* -- Needs -- */

static Bigfleet__V1alpha1__CapacityNeed need;
static Bigfleet__V1alpha1__NeedView view;
static const struct explain_cycle cycle = {
    .shard = "s-0", .said = &shard, .number = 7, .age_ms = 400};

static void some_need(void)
{
    static Bigfleet__V1alpha1__CapacityNeed__AggregateResourcesEntry cpu, *amounts[] = {&cpu};
    static Bigfleet__V1alpha1__NodeSelectorRequirement zone, *requirements[] = {&zone};
    static char *zones[] = {(char *)(uintptr_t) "a", (char *)(uintptr_t) "b"};

    canned_open(&canned, CANNED_WORDS("c/900"));
    muster__v1__shard_status_response__init(&shard);
    bigfleet__v1alpha1__capacity_need__init(&need);
    bigfleet__v1alpha1__need_view__init(&view);
    bigfleet__v1alpha1__capacity_need__aggregate_resources_entry__init(&cpu);
    bigfleet__v1alpha1__node_selector_requirement__init(&zone);
    cpu.key = ctl_text("cpu");
    cpu.value = ctl_text("8");
    zone.key = ctl_text("zone");
    zone.operator_ = 1;
    zone.values = zones;
    zone.n_values = 2;
    need.priority = 900;
    need.aggregate_resources = amounts;
    need.n_aggregate_resources = 1;
    need.requirements = requirements;
    need.n_requirements = 1;
    view.cluster_id = ctl_text("c");
    view.need = &need;
    view.profile_fingerprint = ctl_text("cpu=8");
    view.arrival_unix_nanos = 1767225600 * (int64_t)1000000000;
    view.claimed_machine_count = 1;
}

static void check_need(const char *line)
{
    explain_need_say(&canned.ctl, &cycle, &view);
    CHECK_HAS("said", said(), line);
    canned_close(&canned);
}

TEST(a_need_that_is_met_in_full)
{
    some_need();
    view.satisfied = true;
    need.group.data = (uint8_t *)(uintptr_t) "ns\0job";
    need.group.len = 6;
    explain_need_say(&canned.ctl, &cycle, &view);
    CHECK_TEXT("all of it", said(),
               "need of c with priority 900, group ns/job\n"
               "  asks       for machines whose zone is one of a, b, with 8 cpu in all\n"
               "  decided    by shard s-0 in cycle 7, 400 ms ago; it is asked for since "
               "2026-01-01T00:00:00Z\n"
               "  has        1 machine that serves it\n"
               "  lacks      nothing\n"
               "  change     demand of its operator; a more important Need that lacks machines of "
               "this shape could take them\n");
    canned_close(&canned);
}

TEST(why_a_need_is_not_met)
{
    static const struct {
        int reason;
        const char *why;
    } cases[] = {
        {1, "  why        machines of a fitting shape are there (0 idle, 0 that could be bought, 0 "
            "that serve somebody), and more important Needs have them\n  change     a higher"},
        {2, "  why        no machine of a fitting shape is there"},
        {3, "  why        all of it must be in one domain, and there is none\n"},
        {4, "  why        0 machines are being taken from less important Needs"},
        {99, "  why        the shard gives no reason that this program knows\n"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        some_need();
        view.unmet_reason = (Bigfleet__V1alpha1__UnmetReason)cases[i].reason;
        check_need(cases[i].why);
    }
    some_need();
    view.bootstrap_count = 1;
    view.provision_count = 2;
    view.age_cycles_unmet = 4;
    check_need(
        "  coming     in that cycle 1 idle and 2 to be bought were taken for it\n  lacks      , "
        "for 4 cycles\n");
}

TEST(what_holds_a_shard_holds_its_needs)
{
    some_need();
    shard.fenced = shard.paused = true;
    check_need("  held       the shard is fenced");
    some_need();
    shard.paused = shard.dry_run = true;
    check_need("  held       the shard's kill switch is on");
    some_need();
    shard.dry_run = true;
    check_need("  held       the shard runs dry");
    some_need();
    shard.drains_waiting = 2;
    check_need("  waits      for operators: they drain 2 machines of this shard");
}

/* The whole command: one shard that answers, one that does not. */
static enum err explain_c(const char *argument)
{
    static Bigfleet__V1alpha1__ShardRegistryEntry entry[2], *entries[] = {&entry[0], &entry[1]};
    static Bigfleet__V1alpha1__ListShardsResponse list;
    static Bigfleet__V1alpha1__InspectNeedsResponse head, frame;
    static Bigfleet__V1alpha1__InspectNeedsHeader header;

    some_need();
    canned_close(&canned);
    canned_open(&canned, CANNED_WORDS(argument));
    for (size_t i = 0; i < 2; i++) bigfleet__v1alpha1__shard_registry_entry__init(&entry[i]);
    bigfleet__v1alpha1__list_shards_response__init(&list);
    bigfleet__v1alpha1__inspect_needs_response__init(&head);
    bigfleet__v1alpha1__inspect_needs_response__init(&frame);
    bigfleet__v1alpha1__inspect_needs_header__init(&header);
    entry[0].shard_id = ctl_text("s-0");
    entry[0].address = ctl_text("a:1");
    entry[1].shard_id = ctl_text("s-1"); /* without an address */
    list.shards = entries;
    list.n_shards = 2;
    header.cycle = 7;
    head.frame_case = BIGFLEET__V1ALPHA1__INSPECT_NEEDS_RESPONSE__FRAME_HEADER;
    head.header = &header;
    frame.frame_case = BIGFLEET__V1ALPHA1__INSPECT_NEEDS_RESPONSE__FRAME_NEED;
    frame.need = &view;
    canned_answer("/bigfleet.v1alpha1.Coordinator/ListShards", &list.base);
    canned_answer("/muster.v1.ShardView/Status", &shard.base);
    canned_answer("/bigfleet.v1alpha1.ShardRead/InspectNeeds", &head.base);
    canned_answer("/bigfleet.v1alpha1.ShardRead/InspectNeeds", &frame.base);
    return explain_need(&canned.ctl);
}

TEST(a_need_is_found_by_priority_and_the_silent_are_named)
{
    CHECK_OK("found", explain_c("c/900"));
    CHECK_HAS("it", said(), "need of c with priority 900\n");
    CHECK_HAS(
        "who may know more", said(),
        "  missing    shard s-1 does not answer, and may know more: its address is not known\n");
    canned_close(&canned);
}

TEST(a_need_is_found_by_its_fingerprint)
{
    CHECK_OK("found", explain_c("c/cpu="));
    canned_close(&canned);
}

TEST(a_need_that_is_not_there)
{
    CHECK_ERR("none", explain_c("c/7"), ERR_NOT_FOUND);
    CHECK_TEXT("which there are", canned.ctl.note.text,
               "c has no Need '7'; it has those of priority 900");
    canned_close(&canned);
    CHECK_ERR("none", explain_c("d"), ERR_NOT_FOUND);
    CHECK_TEXT(
        "near", canned.ctl.note.text,
        "no Need of a cluster d is known (did you mean c?); its operator may not be connected");
    canned_close(&canned);
}

TEST(a_machine_that_no_shard_knows)
{
    CHECK_ERR("none", explain_c("x"), ERR_NOT_FOUND);
    canned_failure("/muster.v1.ShardView/Machine", ERR_NOT_FOUND, "no such machine");
    CHECK_ERR("none", explain_machine(&canned.ctl), ERR_NOT_FOUND);
    CHECK_TEXT("who was not asked", canned.ctl.note.text,
               "no shard that answers knows machine x; shard s-1 does not answer");
    canned_close(&canned);
}

TEST(ages)
{
    static const struct {
        uint64_t ms;
        const char *text;
    } cases[] = {{0, "0 ms"},          {999, "999 ms"},         {1000, "1.0 s"},
                 {119999, "120.0 s"},  {120000, "2 minutes"},   {7199999, "119 minutes"},
                 {7200000, "2 hours"}, {172799999, "47 hours"}, {172800000, "2 days"}};
    char text[EXPLAIN_AGE_CAP];

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        CHECK_TEXT("an age", explain_age(cases[i].ms, text), cases[i].text);
}
