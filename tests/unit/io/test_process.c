/* SPDX-License-Identifier: Apache-2.0 */
#include "io/process.h"
#include "io/process_look.h"
#include "io/signals.h"
#include "rig.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct rig rig;
struct child {
    struct process *process;
    unsigned lines, exits;
    struct process_exit exit;
    char text[4096]; /* "1:line|2:line|" */
    size_t longest;
};
static struct child child;

static void on_line(void *owner, int fd, struct str line)
{
    struct child *c = owner;
    size_t len = strlen(c->text);
    CHECK("no line after the exit", c->exits == 0);
    c->lines++;
    c->longest = max_size(c->longest, line.len);
    snprintf(c->text + len, sizeof c->text - len, "%d:%.*s|", fd, STR_ARG(line));
}
static void on_exit_of(void *owner, struct process_exit exit)
{
    struct child *c = owner;
    c->exits++;
    c->exit = exit;
    c->process = NULL;
}
static enum err start(const char *const *argv, struct process_options options, struct note *note)
{
    child = (struct child){0};
    options.argv = argv;
    options.on_exit = on_exit_of;
    options.owner = &child;
    return process_start(rig.loop, &options, &child.process, note);
}
static void run(const char *script, struct process_options options)
{
    struct note note = {""};
    options.on_line = on_line;
    CHECK_OK("start", start((const char *const[]){"sh", "-c", script, NULL}, options, &note));
    RIG_UNTIL("it ends", &rig, child.exits);
}

TEST(lines_of_both_outputs_come_whole_and_before_the_exit)
{
    rig_open(&rig);
    run("echo one; echo two; echo; printf unfinished", (struct process_options){0});
    CHECK_TEXT("lines", child.text, "1:one|1:two|1:|1:unfinished|");
    CHECK("exit", !child.exit.signalled && child.exit.code == 0);
    run("echo oops >&2; exit 3", (struct process_options){0});
    CHECK_TEXT("lines", child.text, "2:oops|");
    CHECK("exit", !child.exit.signalled && child.exit.code == 3);
    rig_close(&rig);
}

TEST(a_long_line_is_cut_and_the_next_is_whole)
{
    rig_open(&rig);
    run("echo 1234567890123; echo 12345678; echo 123456789; printf 1234567890",
        (struct process_options){.output_line_max = 8});
    CHECK_TEXT("cut at eight", child.text, "1:12345678|1:12345678|1:12345678|1:12345678|");
    run("head -c 300000 /dev/zero | tr '\\0' x; echo; echo end", (struct process_options){0});
    CHECK_SIZE("64 KiB by default", child.longest, 64 * 1024);
    CHECK_U64("two lines", child.lines, 2);
    rig_close(&rig);
}

TEST(much_output_passes)
{
    rig_open(&rig);
    run("i=0; while [ $i -lt 2000 ]; do echo line-$i; i=$((i+1)); done",
        (struct process_options){0});
    CHECK_U64("each line once", child.lines, 2000);
    rig_close(&rig);
}

TEST(directory_and_environment_are_as_asked)
{
    static const char *const env[] = {"COLOUR=green", NULL};
    char want[128];

    rig_open(&rig);
    snprintf(want, sizeof want, "1:%s|1:green|1:|", test_dir());
    run("pwd; echo $COLOUR; echo $MUSTER_TEST_LEAK",
        (struct process_options){.directory = test_dir(), .env = env});
    CHECK_TEXT("as asked", child.text, want);
    setenv("MUSTER_TEST_LEAK", "inherited", 1);
    run("echo $MUSTER_TEST_LEAK", (struct process_options){0});
    CHECK_TEXT("inherited without", child.text, "1:inherited|");
    unsetenv("MUSTER_TEST_LEAK");
    rig_close(&rig);
}

/* The set of signals that the child ignores. 32 and 33 belong to the C library: the parent of this
 * test may have ignored them, and no program can change that. */
static uint64_t ignored_signals(void)
{
    const char *mask = strstr(child.text, "SigIgn:\t");
    uint64_t bits = mask ? strtoull(mask + strlen("SigIgn:\t"), NULL, 16) : UINT64_MAX;

    return bits & ~(3ull << 31);
}

TEST(a_child_starts_clean)
{
    int leak = dup(2); /* not close-on-exec, like a careless library's */

    rig_open(&rig);
    run("cat; ls /proc/self/fd | tr '\\n' ' '; echo; grep -E 'Sig(Blk|Ign)' /proc/self/status",
        (struct process_options){0});
    CHECK_HAS("standard input is empty; only the three files and ls's own", child.text,
              "1:0 1 2 3 |");
    CHECK_HAS("no signal is blocked", child.text, "SigBlk:\t0000000000000000");
    CHECK_U64("none is ignored, SIGPIPE neither", ignored_signals(), 0);
    rig_close(&rig);
    close(leak);
}

TEST(without_on_line_the_outputs_are_inherited)
{
    struct note note = {""};

    rig_open(&rig);
    CHECK_OK("start", start((const char *const[]){"sh", "-c", "exit 7", NULL},
                            (struct process_options){0}, &note));
    CHECK("pid", process_pid(child.process) > 0);
    RIG_UNTIL("it ends", &rig, child.exits);
    CHECK_I64("exit", child.exit.code, 7);
    rig_close(&rig);
}

/* The parent process may have ignored SIGCHLD; the kernel then keeps no exit status. */
TEST(an_exit_is_reported_though_our_launcher_ignored_sigchld)
{
    static const int flags[] = {0, SA_NOCLDWAIT};

    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        struct sigaction odd = {.sa_flags = flags[i]}, before;
        odd.sa_handler = flags[i] ? SIG_DFL : SIG_IGN;
        CHECK("set", sigaction(SIGCHLD, &odd, &before) == 0);
        rig_open(&rig);
        run("exit 3", (struct process_options){0});
        CHECK("exit", !child.exit.unknown && !child.exit.signalled && child.exit.code == 3);
        rig_close(&rig);
        CHECK("reset", sigaction(SIGCHLD, &before, NULL) == 0);
    }
}

TEST(an_exit_whose_status_was_already_read_is_reported_as_unknown)
{
    struct note note = {""};

    rig_open(&rig);
    CHECK_OK("start", start((const char *const[]){"sh", "-c", "exit 3", NULL},
                            (struct process_options){0}, &note));
    CHECK("taken", waitpid(process_pid(child.process), NULL, 0) == process_pid(child.process));
    RIG_UNTIL("it ends", &rig, child.exits);
    CHECK("unknown", child.exit.unknown);
    rig_close(&rig);
}

TEST(a_signal_ends_a_process_and_is_reported_as_a_signal)
{
    struct note note = {""};

    rig_open(&rig);
    CHECK_OK("start", start((const char *const[]){"sleep", "100", NULL},
                            (struct process_options){0}, &note));
    CHECK_OK("alive", process_signal(child.process, 0));
    CHECK_OK("signal", process_signal(child.process, SIGTERM));
    RIG_UNTIL("it ends", &rig, child.exits);
    CHECK("signalled", child.exit.signalled && child.exit.code == SIGTERM);
    rig_close(&rig);
}

static enum err late_signal;
static void signals_late(void *owner, int fd, struct str line)
{
    (void)owner, (void)fd;
    if (str_equal(line, STR("go"))) late_signal = process_signal(child.process, SIGKILL);
}

TEST(an_ended_process_is_not_found)
{
    struct note note = {""};

    /* The child exits at once; later a grandchild writes "go", when only its pipe is left. */
    rig_open(&rig);
    late_signal = ERR_OK;
    CHECK_OK("start", start((const char *const[]){"sh", "-c", "(sleep 0.3; echo go) &", NULL},
                            (struct process_options){.on_line = signals_late}, &note));
    RIG_UNTIL("it ends", &rig, child.exits);
    CHECK_ERR("ended", late_signal, ERR_NOT_FOUND);
    rig_close(&rig);
}

TEST(a_grandchild_that_keeps_the_pipe_is_not_waited_for)
{
    rig_open(&rig);
    run("sleep 20 & echo $!",
        (struct process_options){0}); /* ends after the grace, not after 20 s */
    CHECK_U64("the line came", child.lines, 1);
    kill((pid_t)atoi(child.text + 2), SIGKILL);
    rig_close(&rig);
}

TEST(the_unfinished_line_of_a_pipe_that_stays_open_is_reported_after_the_grace)
{
    rig_open(&rig);
    run("sleep 20 & echo $!; printf 'last words'", (struct process_options){0});
    CHECK_U64("both lines came", child.lines, 2);
    CHECK_HAS("the last one, too", child.text, "|1:last words|");
    kill((pid_t)atoi(child.text + 2), SIGKILL);
    rig_close(&rig);
}

TEST(a_directory_in_path_is_no_program)
{
    char dir[256], path[512], *before = strdup(getenv("PATH"));
    struct note note = {""};

    rig_open(&rig);
    snprintf(dir, sizeof dir, "%s/bin", test_dir());
    snprintf(path, sizeof path, "%s/sh", dir);
    CHECK("made", mkdir(dir, 0755) == 0 && mkdir(path, 0755) == 0);
    snprintf(path, sizeof path, "%s:%s", dir, before);
    setenv("PATH", path, 1);
    run("exit 4", (struct process_options){0});
    CHECK_I64("the next one is taken", child.exit.code, 4);
    setenv("PATH", dir, 1);
    CHECK_ERR("nothing but a directory",
              start((const char *const[]){"sh", NULL}, (struct process_options){0}, &note),
              ERR_DENIED);
    setenv("PATH", before, 1);
    free(before);
    rig_close(&rig);
}

static char long_name[8000];
static const struct {
    const char *why, *program, *directory;
    enum err want;
} failures[] = {
    {"no such program in PATH", "muster-no-such-program", NULL, ERR_NOT_FOUND},
    {"no such path", "/no/such/program", NULL, ERR_NOT_FOUND},
    {"not executable", "/etc/passwd", NULL, ERR_DENIED},
    {"an empty name", "", NULL, ERR_NOT_FOUND},
    {"no such directory", "true", "/no/such/directory", ERR_INVALID},
    {"a name that is too long", long_name, NULL, ERR_INVALID},
};
TEST(a_failed_start_reports_the_reason)
{
    memset(long_name, '/', sizeof long_name - 1);
    rig_open(&rig);
    for (size_t i = 0; i < ARRAY_LEN(failures); i++) {
        struct note note = {""};
        struct process_options options = {.on_line = on_line, .directory = failures[i].directory};
        enum err err = start((const char *const[]){failures[i].program, NULL}, options, &note);
        CHECK_ERR(failures[i].why, err, failures[i].want);
        CHECK("output untouched", child.process == NULL);
        CHECK_HAS(failures[i].why, note.text, "start ");
        if (failures[i].directory) CHECK_HAS("named", note.text, failures[i].directory);
    }
    CHECK_ERR("no program at all",
              start((const char *const[]){NULL}, (struct process_options){0}, NULL), ERR_INVALID);
    real_io_turn(rig.real, false);
    CHECK_U64("a process that never started is not reported", child.exits, 0);
    CHECK("no child is left", waitpid(-1, NULL, WNOHANG) == -1);
    rig_close(&rig);
}

/* Forks a process that starts a child and is killed. */
static pid_t parent_that_dies(bool die_with_parent)
{
    int fds[2];
    pid_t parent, grandchild = 0;

    CHECK("pipe", pipe(fds) == 0);
    parent = fork();
    if (parent == 0) {
        struct note note;
        struct process_options options = {.die_with_parent = die_with_parent};
        rig_open(&rig);
        if (start((const char *const[]){"sleep", "100", NULL}, options, &note)) _exit(1);
        grandchild = process_pid(child.process);
        if (write(fds[1], &grandchild, sizeof grandchild) < 0) _exit(1);
        for (;;) pause();
    }
    close(fds[1]);
    CHECK("started", read(fds[0], &grandchild, sizeof grandchild) == sizeof grandchild);
    close(fds[0]);
    CHECK("alive", kill(grandchild, 0) == 0);
    kill(parent, SIGKILL);
    waitpid(parent, NULL, 0);
    return grandchild;
}
static bool is_alive(pid_t pid)
{
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file) return false;
    size_t got = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    const char *state = strrchr(text, ')');
    return got > 0 && state && state[2] != 'Z' && state[2] != 'X';
}

static bool dies(pid_t pid)
{
    struct timespec pause = {.tv_nsec = 1000000};

    for (int i = 0; i < 60000 && is_alive(pid); i++) nanosleep(&pause, NULL);
    return !is_alive(pid);
}

TEST(a_child_dies_with_its_parent_when_asked_to)
{
    pid_t orphan = parent_that_dies(true);

    CHECK("dead", dies(orphan));
    orphan = parent_that_dies(false);
    CHECK("and not otherwise", is_alive(orphan));
    kill(orphan, SIGKILL);
}

TEST(children_of_a_process_with_its_own_group_end_with_it)
{
    struct note note = {""};

    rig_open(&rig);
    run("sleep 1000 & echo $!", (struct process_options){.own_group = true});
    CHECK("the grandchild is killed", dies(atoi(child.text + 2)));
    CHECK_OK("start",
             start((const char *const[]){"sh", "-c", "sleep 1000 & echo $!; wait", NULL},
                   (struct process_options){.own_group = true, .on_line = on_line}, &note));
    RIG_UNTIL("it runs", &rig, child.lines);
    CHECK_OK("signal", process_signal(child.process, SIGTERM));
    RIG_UNTIL("it ends", &rig, child.exits);
    CHECK("by the signal", child.exit.signalled && child.exit.code == SIGTERM);
    CHECK("and the grandchild", dies(atoi(child.text + 2)));
    rig_close(&rig);
}

TEST(the_given_bytes_arrive_on_standard_input)
{
    enum { MANY = 300000 };
    char *text = malloc(MANY);

    if (!text) abort();
    memset(text, 'x', MANY);
    rig_open(&rig);
    run("cat", (struct process_options){.input = STR("one\ntwo\n")});
    CHECK_TEXT("as it was", child.text, "1:one|1:two|");
    run("wc -c", (struct process_options){.input = str_of(text, MANY)});
    CHECK_TEXT("more than a pipe holds", child.text, "1:300000|");
    run("exit 0", (struct process_options){.input = str_of(text, MANY)});
    CHECK("nobody has to read it", child.exit.code == 0);
    run("cat", (struct process_options){0});
    CHECK_TEXT("and nothing else", child.text, "");
    rig_close(&rig);
    free(text);
}

TEST(a_line_without_end_is_reported_when_it_is_too_long)
{
    const char *const argv[] = {"sh", "-c", "tr '\\0' x </dev/zero", NULL};
    struct note note = {""};

    rig_open(&rig);
    CHECK_OK("start",
             start(argv, (struct process_options){.on_line = on_line, .own_group = true}, &note));
    RIG_UNTIL("its beginning comes", &rig, child.lines);
    CHECK_SIZE("so much of it", child.longest, 64 * 1024);
    CHECK_OK("killed", process_signal(child.process, SIGKILL));
    RIG_UNTIL("it ends", &rig, child.exits);
    CHECK_U64("the rest is not notified", child.lines, 1);
    rig_close(&rig);
}

TEST(an_abandoned_process_is_killed_and_not_reported)
{
    const char *const argv[] = {"sh", "-c", "trap '' TERM; echo up; while :; do sleep 100; done",
                                NULL};
    struct note note = {""};
    pid_t pid;

    rig_open(&rig);
    CHECK_OK("start",
             start(argv, (struct process_options){.on_line = on_line, .own_group = true}, &note));
    RIG_UNTIL("it runs", &rig, child.lines);
    pid = process_pid(child.process);
    process_abandon(child.process);
    CHECK("gone at once", !is_alive(pid));
    rig_close(&rig); /* and nothing is left open */
    CHECK_U64("nobody was notified", child.exits, 0);
}

/* -- processes that outlive their parent -- */

static char output_file[512];
static struct process_name recorded;

static enum err record(void *owner, int pid, struct note *note)
{
    const enum err *answer = owner;

    (void)note;
    CHECK_OK("it is there", process_name_of(pid, &recorded));
    return *answer;
}

static enum err start_detached(const char *script, enum err answer, int *ret_pid, struct note *note)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    const struct process_detached options = {.argv = argv,
                                             .directory = test_dir(),
                                             .output = output_file,
                                             .record = record,
                                             .owner = &answer};

    snprintf(output_file, sizeof output_file, "%s/output", test_dir());
    return process_start_detached(&options, ret_pid, note);
}

static void ends(int pidfd)
{
    struct timespec pause = {.tv_nsec = 1000000};

    for (int i = 0; i < 60000 && !process_watch_ended(pidfd); i++) nanosleep(&pause, NULL);
    CHECK("it ends", process_watch_ended(pidfd));
}

TEST(a_detached_process_runs_only_after_it_was_written_down)
{
    struct note note = {""};
    char end[PROCESS_END_CAP], text[512] = "", go_file[512];
    int pid, pidfd;

    snprintf(go_file, sizeof go_file, "%s/go", test_dir());
    remove(output_file);
    CHECK_ERR("refused", start_detached("echo ran", ERR_NO_SPACE, &pid, &note), ERR_NO_SPACE);
    CHECK("it is gone", process_watch(&recorded, &pidfd) == ERR_NOT_FOUND);
    remove(go_file);
    CHECK_OK("started", start_detached("pwd; cut -d' ' -f6 /proc/$$/stat; "
                                       "while [ ! -e go ]; do sleep 0.01; done",
                                       ERR_OK, &pid, &note));
    CHECK("under the number that was written down", pid == recorded.pid);
    CHECK_OK("it can be watched", process_watch(&recorded, &pidfd));
    fclose(fopen(go_file, "w"));
    ends(pidfd);
    CHECK("the starter is notified of the exit", process_watch_reap(pidfd, end));
    CHECK_TEXT("by itself", end, "exit status 0");
    CHECK("once", !process_watch_reap(pidfd, end));
    close(pidfd);
    FILE *file = fopen(output_file, "r");
    if (!file) abort();
    CHECK("a line", fgets(text, sizeof text, file) != NULL);
    CHECK_HAS("in its directory, and never the refused one", text, "/");
    CHECK("another", fgets(text, sizeof text, file) != NULL);
    CHECK_I64("a session of its own", atoi(text), pid);
    fclose(file);
    CHECK_ERR("a program that is none",
              process_start_detached(
                  &(struct process_detached){.argv = (const char *const[]){"/no/such", NULL},
                                             .record = record,
                                             .owner = &(enum err){ERR_OK}},
                  &pid, &note),
              ERR_NOT_FOUND);
}

TEST(a_number_alone_is_not_a_process)
{
    struct note note = {""};
    struct process_name other;
    char end[PROCESS_END_CAP];
    int pid, pidfd;

    CHECK_OK("started", start_detached("exec sleep 1000", ERR_OK, &pid, &note));
    other = recorded;
    other.start_ticks++;
    CHECK_ERR("another start", process_watch(&other, &pidfd), ERR_NOT_FOUND);
    other = recorded;
    other.boot[0] ^= 1;
    CHECK_ERR("another boot", process_watch(&other, &pidfd), ERR_NOT_FOUND);
    CHECK_OK("it", process_watch(&recorded, &pidfd));
    CHECK("it runs", !process_watch_ended(pidfd));
    kill(pid, SIGKILL);
    ends(pidfd);
    CHECK_ERR("one that waits for its parent", process_name_of(pid, &other), ERR_NOT_FOUND);
    CHECK("reported", process_watch_reap(pidfd, end));
    CHECK_TEXT("how", end, "killed by signal 9");
    close(pidfd);
    CHECK_ERR("nobody", process_watch(&(struct process_name){0}, &pidfd), ERR_NOT_FOUND);
}

TEST(fields_of_a_stat_line_are_counted_after_the_name)
{
    const struct str line = STR("7 (a) b (c) S 1 22 33 0");

    CHECK_U64("field 4", process_stat_field(line, 4), 1);
    CHECK_U64("field 6", process_stat_field(line, 6), 33);
    CHECK_U64("a line", process_stat_field(line, 3), 0);
    CHECK_U64("past the end", process_stat_field(line, 30), 0);
    CHECK_U64("garbage", process_stat_field(STR("no bracket"), 4), 0);
}
