/* SPDX-License-Identifier: Apache-2.0 */
/* The process backend with real processes: their life cycle, unexpected deaths, and a provider that
 * finds the processes of an earlier one. */
#include "provider/host/process.h"

#include <signal.h>

#include "fake_host.h"
#include "provider/host/hosted.h"

static struct fake_host host;
static struct process_backend_options usual;

/* Another provider over the same directory. */
static void open_again(void)
{
    struct note note = {""};
    struct backend *backend;

    fake_open(&host);
    usual.io = host.rig.io;
    usual.directory = in_dir("machines");
    usual.offer = fake_offer;
    /* Bounded: a process that outlives a failed test exits by itself. */
    if (!usual.host_command) usual.host_command = "exec sleep 300";
    if (!usual.node_command) usual.node_command = "exec sleep 300";
    CHECK_OK(note.text, process_backend_open(&usual, &backend, &note));
    fake_take(&host, backend);
}

static void open_with(struct process_backend_options options)
{
    usual = options;
    host.number = 0;
    open_again();
}

static void adopt(const char *id, enum machine_state state)
{
    const struct backend_machine machine = {
        .id = str_from(id), .state = state, .offer = &fake_offer};

    host.inside = true;
    host.backend->ops->adopt(host.backend, &machine);
    host.inside = false;
}

static int pid_in(const char *file)
{
    return atoi(read_text(in_dir(file)));
}

static bool runs(int pid)
{
    struct process_name name;
    return process_name_of(pid, &name) == ERR_OK;
}

static void kill_and_wait(int pid)
{
    struct timespec pause = {.tv_nsec = 1000000};

    kill(pid, SIGKILL);
    for (int i = 0; i < 60000 && runs(pid); i++) nanosleep(&pause, NULL);
    CHECK("dead", !runs(pid));
}

static bool exists(const char *file)
{
    return access(in_dir(file), F_OK) == 0;
}

static void do_well(struct backend_operation operation, const char *id)
{
    const struct reported *reported = fake_do(&host, operation, id);
    CHECK(reported->text, !reported->failed);
}

static const struct backend_operation create = {.kind = OPERATION_CREATE};
static const struct backend_operation drain = {.kind = OPERATION_DRAIN, .grace_ms = 60000};
static const struct backend_operation delete_it = {.kind = OPERATION_DELETE};
static struct backend_operation configure(void)
{
    static const struct label metadata[] = {{{"group", 5}, {"a\0b", 3}}};
    return (struct backend_operation){.kind = OPERATION_CONFIGURE,
                                      .machine = {.cluster = STR("prod")},
                                      .blob = STR("the blob"),
                                      .metadata = metadata,
                                      .metadata_count = 1};
}

TEST(a_machine_lives_as_two_processes_in_a_directory)
{
    int host_pid, node_pid;

    setenv("MUSTER_SECRET", "x", 1);
    open_with((struct process_backend_options){
        .machines = 2,
        .host_command = "env > part; mv part env; exec sleep 300",
        .node_command =
            "trap 'echo bye > bye; exit 0' TERM; env > node-env; cp $MUSTER_BLOB_FILE got; "
            "> ready; sleep 300 & wait",
        .ready_file = "ready",
    });
    host.backend->ops->ready(host.backend);
    CHECK("offered", fake_sighting(&host, "local-1", SEEN_OFFERED) &&
                         fake_sighting(&host, "local-2", SEEN_OFFERED));
    do_well(create, "local-1");
    host_pid = pid_in("machines/local-1/host.pid");
    CHECK("it runs", runs(host_pid));
    FAKE_UNTIL("it begins", &host, strstr(read_text(in_dir("machines/local-1/env")), "ZONE"));
    CHECK_HAS("its id", read_text(in_dir("machines/local-1/env")), "MUSTER_MACHINE_ID=local-1\n");
    CHECK("nothing of the provider's own",
          !strstr(read_text(in_dir("machines/local-1/env")), "SECRET"));
    do_well(configure(), "local-1");
    node_pid = pid_in("machines/local-1/node.pid");
    CHECK("its node runs, and is another", runs(node_pid) && node_pid != host_pid);
    CHECK_TEXT("the blob", read_text(in_dir("machines/local-1/got")), "the blob");
    CHECK_HAS("its cluster", read_text(in_dir("machines/local-1/node-env")),
              "MUSTER_CLUSTER=prod\n");
    CHECK_TEXT("the metadata", read_text(in_dir("machines/local-1/metadata.json")),
               "{\"group\":\"a\\u0000b\"}\n");
    do_well(drain, "local-1");
    CHECK("the node was asked to go", exists("machines/local-1/bye") && !runs(node_pid));
    CHECK("nothing of its cluster stays",
          !exists("machines/local-1/blob") && !exists("machines/local-1/metadata.json") &&
              !exists("machines/local-1/ready") && !exists("machines/local-1/node.pid"));
    CHECK("the host does", runs(host_pid));
    do_well(delete_it, "local-1");
    CHECK("it is gone", !runs(host_pid) && !exists("machines/local-1"));
    CHECK("nobody was surprised", !fake_sighting(&host, "local-1", SEEN_FAILED));
    fake_close(&host);
    unsetenv("MUSTER_SECRET");
}

TEST(a_process_that_outlives_its_grace_is_killed)
{
    open_with((struct process_backend_options){
        .node_command = "trap '' TERM; > ready; exec sleep 300",
        .ready_file = "ready",
    });
    do_well(create, "m");
    do_well(configure(), "m");
    int node = pid_in("machines/m/node.pid");
    do_well((struct backend_operation){.kind = OPERATION_DRAIN, .grace_ms = 50}, "m");
    CHECK("gone", !runs(node));
    do_well(delete_it, "m");
    fake_close(&host);
}

TEST(a_process_that_dies_is_reported_as_such)
{
    static const struct {
        const char *why, *file, *says;
    } cases[] = {
        {"the host, with its node", "machines/m/host.pid", "its host"},
        {"the node, with its host", "machines/m/node.pid", "its node"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        open_with((struct process_backend_options){0});
        host.backend->ops->ready(host.backend);
        do_well(create, "m");
        do_well(configure(), "m");
        int pids[] = {pid_in("machines/m/host.pid"), pid_in("machines/m/node.pid")};
        kill(pid_in(cases[i].file), SIGKILL);
        FAKE_UNTIL(cases[i].why, &host, fake_sighting(&host, "m", SEEN_FAILED));
        CHECK_HAS(cases[i].why, fake_sighting(&host, "m", SEEN_FAILED)->text, cases[i].says);
        CHECK_HAS(cases[i].why, fake_sighting(&host, "m", SEEN_FAILED)->text, "killed by signal 9");
        FAKE_UNTIL("all of it ends", &host, !runs(pids[0]) && !runs(pids[1]));
        CHECK("its directory stays", exists("machines/m/host.log"));
        do_well(delete_it, "m");
        CHECK("until it is deleted", !exists("machines/m"));
        fake_close(&host);
    }
}

TEST(a_node_that_does_not_start_fails_the_operation)
{
    const struct reported *reported;

    open_with((struct process_backend_options){.node_command = "exit 3", .ready_file = "ready"});
    host.backend->ops->ready(host.backend);
    do_well(create, "m");
    fake_start(&host, configure(), "m");
    FAKE_UNTIL("reported", &host, fake_sighting(&host, "m", SEEN_FAILED));
    CHECK_HAS("how", fake_sighting(&host, "m", SEEN_FAILED)->text, "exit status 3");
    fake_close(&host);
    open_with((struct process_backend_options){.ready_file = "ready", .ready_within_ms = 50});
    do_well(create, "m");
    reported = fake_do(&host, configure(), "m");
    CHECK("one that never reports ready", reported->failed);
    CHECK_HAS("why", reported->text, "configure: the node did not say that it is ready");
    int pid = pid_in("machines/m/host.pid");
    FAKE_UNTIL("and nothing of it stays", &host, !runs(pid));
    reported = fake_do(&host, configure(), "m");
    CHECK("without a host there is no node", reported->failed);
    do_well(delete_it, "m");
    fake_close(&host);
}

TEST(a_later_provider_finds_what_runs)
{
    const struct reported *reported;

    open_with((struct process_backend_options){0});
    do_well(create, "idle");
    do_well(create, "busy");
    do_well(configure(), "busy");
    int idle = pid_in("machines/idle/host.pid"), node = pid_in("machines/busy/node.pid");
    fake_close(&host);
    CHECK("they live on", runs(idle) && runs(node));
    open_again();
    adopt("idle", MACHINE_IDLE);
    adopt("busy", MACHINE_CONFIGURED);
    host.backend->ops->ready(host.backend);
    for (int i = 0; i < 20; i++) real_io_turn(host.rig.real, false);
    CHECK_SIZE("all is as it was", host.count, 0);
    /* An operation that was running when the provider died: no process is started twice. */
    reported =
        fake_do(&host, (struct backend_operation){.kind = OPERATION_CREATE, .again = true}, "idle");
    CHECK("done", !reported->failed);
    CHECK("the same process", pid_in("machines/idle/host.pid") == idle && runs(idle));
    kill(node, SIGKILL);
    FAKE_UNTIL("a death is seen", &host, fake_sighting(&host, "busy", SEEN_FAILED));
    do_well(delete_it, "idle");
    do_well(delete_it, "busy");
    fake_close(&host);
}

TEST(an_exit_while_no_provider_ran_is_reported)
{
    open_with((struct process_backend_options){0});
    do_well(create, "idle");
    do_well(create, "busy");
    do_well(configure(), "busy");
    int host_pid = pid_in("machines/busy/host.pid");
    kill_and_wait(pid_in("machines/idle/host.pid"));
    kill_and_wait(pid_in("machines/busy/node.pid"));
    fake_close(&host);
    open_again();
    adopt("idle", MACHINE_IDLE);
    adopt("busy", MACHINE_CONFIGURED);
    adopt("third", MACHINE_CREATING);
    CHECK("done", !fake_do(&host, create, "third")->failed);
    CHECK_SIZE("nothing else before all were adopted", host.count, 1);
    host.backend->ops->ready(host.backend);
    FAKE_UNTIL("both", &host,
               fake_sighting(&host, "idle", SEEN_FAILED) &&
                   fake_sighting(&host, "busy", SEEN_FAILED));
    CHECK_HAS("why", fake_sighting(&host, "busy", SEEN_FAILED)->text, "ended while no provider");
    FAKE_UNTIL("its host is not left running", &host, !runs(host_pid));
    do_well(delete_it, "idle");
    do_well(delete_it, "busy");
    do_well(delete_it, "third");
    fake_close(&host);
}

TEST(a_reused_process_number_is_not_the_machine)
{
    struct process_name self;
    char text[128];

    open_with((struct process_backend_options){0});
    do_well(create, "m");
    kill(pid_in("machines/m/host.pid"), SIGKILL);
    fake_close(&host);
    /* The kernel reused the number for this process: the start time differs. */
    CHECK_OK("we", process_name_of(getpid(), &self));
    snprintf(text, sizeof text, "%d %llu %s\n", self.pid,
             (unsigned long long)(self.start_ticks + 1), self.boot);
    write_text(in_dir("machines/m/host.pid"), text, 0600);
    open_again();
    adopt("m", MACHINE_IDLE);
    host.backend->ops->ready(host.backend);
    FAKE_UNTIL("it is gone", &host, fake_sighting(&host, "m", SEEN_FAILED));
    do_well(delete_it, "m"); /* and we are still here */
    fake_close(&host);
    write_text(in_dir("garbage"), "", 0600);
    for (const char *const *file =
             (const char *const[]){"", "x", "1 1 b", "-5 1 b", "99999999 1", NULL};
         *file; file++) {
        open_again();
        do_well(create, "m");
        int pid = pid_in("machines/m/host.pid");
        fake_close(&host);
        write_text(in_dir("machines/m/host.pid"), *file, 0600);
        open_again();
        adopt("m", MACHINE_IDLE);
        host.backend->ops->ready(host.backend);
        FAKE_UNTIL(*file, &host, fake_sighting(&host, "m", SEEN_FAILED));
        do_well(delete_it, "m");
        fake_close(&host);
        kill(pid, SIGKILL); /* only the file named the process */
    }
}

TEST(operations_of_a_crashed_provider_are_resumed)
{
    open_with((struct process_backend_options){.node_command = "> ready; exec sleep 300",
                                               .ready_file = "ready"});
    do_well(create, "m");
    do_well(configure(), "m");
    int node = pid_in("machines/m/node.pid");
    fake_close(&host);
    open_again();
    adopt("m", MACHINE_CONFIGURING);
    struct backend_operation again = configure();
    again.again = true;
    uint64_t number = fake_start(&host, again, "m");
    host.backend->ops->ready(host.backend);
    CHECK("done", !fake_await(&host, number)->failed);
    CHECK("once", pid_in("machines/m/node.pid") == node && runs(node));
    fake_close(&host);
    open_again();
    adopt("m", MACHINE_DRAINING);
    number =
        fake_start(&host, (struct backend_operation){.kind = OPERATION_DRAIN, .again = true}, "m");
    host.backend->ops->ready(host.backend);
    CHECK("drained", !fake_await(&host, number)->failed && !runs(node));
    fake_close(&host);
    open_again();
    adopt("m", MACHINE_DELETING);
    number =
        fake_start(&host, (struct backend_operation){.kind = OPERATION_DELETE, .again = true}, "m");
    host.backend->ops->ready(host.backend);
    CHECK("deleted", !fake_await(&host, number)->failed && !exists("machines/m"));
    CHECK("nobody was surprised", !fake_sighting(&host, "m", SEEN_FAILED));
    fake_close(&host);
}

TEST(an_id_that_is_no_name_of_a_directory_is_refused)
{
    static const char *const ids[] = {"../m", ".", ".hidden", "a/b", "a b", "\xc3\xa9"};

    open_with((struct process_backend_options){0});
    for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
        const struct reported *reported = fake_do(&host, create, ids[i]);
        CHECK(ids[i], reported->failed);
        adopt(ids[i], MACHINE_IDLE);
    }
    fake_close(&host);
    CHECK("nothing was made", !exists("m"));
}

TEST(in_a_cgroup_nothing_gets_away)
{
    char root[FS_PATH_CAP];

    hosted_cgroup_root(root);
    if (!root[0]) return; /* not ours to make */
    open_with((struct process_backend_options){
        .cgroups = true,
        .node_command = "setsid sleep 300 & echo $! > away; > ready; exec sleep 300",
        .ready_file = "ready",
    });
    do_well(create, "m");
    do_well(configure(), "m");
    int away = pid_in("machines/m/away");
    char file[64];
    snprintf(file, sizeof file, "/proc/%d/cgroup", away);
    if (!strstr(read_text(file), "/muster-")) { /* created, but processes cannot be moved there */
        kill(away, SIGKILL);
        do_well(delete_it, "m");
        fake_close(&host);
        return;
    }
    CHECK("it runs, in a session of its own", runs(away) && getsid(away) != getsid(0));
    do_well(drain, "m");
    FAKE_UNTIL("it ends with the node", &host, !runs(away));
    do_well(delete_it, "m");
    fake_close(&host);
}
