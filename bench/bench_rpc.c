/* SPDX-License-Identifier: Apache-2.0 */
/* A unary echo of 16 bytes, 64 calls always under way on one connection: our server beside gRPC's
 * C-core (peer_grpc_core.c), plaintext and mutual TLS, under the same load generator in the same
 * run.
 *
 * The number that counts is the server's CPU per call, all its threads: on shared cores the rate is
 * mostly the neighbours'. Rounds alternate between the two servers and the best of each figure is
 * shown. Ours decodes and encodes protobuf, checks access, counts metrics; the peer returns the
 * bytes as they came, once by the shortest way its library has and once as a generic server. Calls
 * carry the headers of a stock gRPC client; the 55 characters of traceparent that our own client
 * adds are measured beside it. Where h2load is installed it measures both again, as an independent
 * client.
 *
 * Servers and generator are child processes: they die with us, and we end them by their own id. */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cert/cert.h"
#include "io/clock.h"

enum { ROUNDS = 4, ARGS_MAX = 24, OUTPUT_MAX = 8192, BUDGET_IDLE_KIB = 10 * 1024 };
#define SECONDS           "2"
#define WARMUP            "0.5"
#define H2LOAD_CALLS      60000
#define H2LOAD_CALLS_TEXT "60000"
#define BUDGET_CPU        0.25

struct child {
    pid_t pid;
    int output;
};
struct figures {
    double rate, p50_us, p99_us, cpu_us, client_cpu_us;
};
struct subject {
    const char *name, *program;
    bool tls, generic;
    struct child child;
    char address[64];
    long idle_kib, loaded_kib;
    struct figures best, traced;
};
static char dir[] = "/tmp/muster-bench-rpc-XXXXXX";
static const char *const files[] = {"ca.pem",     "ca.key.pem",     "server.pem", "server.key.pem",
                                    "client.pem", "client.key.pem", "body"};
static char paths[7][PATH_MAX];
enum { CA, CA_KEY, SERVER, SERVER_KEY, CLIENT, CLIENT_KEY, BODY };

static void must(bool good, const char *what)
{
    if (good) return;
    fprintf(stderr, "bench_rpc: %s\n", what);
    exit(1); /* children get SIGKILL by the kernel */
}

/* -- child processes -- */

static struct child start(const char *const *argv)
{
    int ends[2];
    pid_t parent = getpid();
    struct child child;

    must(pipe2(ends, O_CLOEXEC) == 0, "pipe");
    child.pid = fork();
    must(child.pid >= 0, "fork");
    if (child.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(1);
        dup2(ends[1], STDOUT_FILENO);
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    close(ends[1]);
    child.output = ends[0];
    return child;
}

/* The output of a child, up to the end of its first line or, with `whole`, until the child closes
 * its output. */
static void read_output(struct child *child, char text[OUTPUT_MAX], bool whole)
{
    size_t len = 0;

    text[0] = '\0';
    while (len < OUTPUT_MAX - 1) {
        ssize_t got = read(child->output, text + len, OUTPUT_MAX - 1 - len);
        if (got <= 0) break;
        len += (size_t)got;
        text[len] = '\0';
        if (!whole && strchr(text, '\n')) break;
    }
}

static int await(struct child *child)
{
    int status = 0;

    close(child->output);
    must(waitpid(child->pid, &status, 0) == child->pid, "waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static long resident_kib(pid_t pid)
{
    char path[64], line[256];
    long kib = 0;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    file = fopen(path, "r");
    must(file != NULL, path);
    while (fgets(line, sizeof line, file))
        if (!strncmp(line, "VmRSS:", 6)) kib = strtol(line + 6, NULL, 10);
    fclose(file);
    return kib;
}

static double cpu_us(pid_t pid)
{
    char path[300];
    double total = 0, ns;
    DIR *tasks;
    const struct dirent *entry;

    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    tasks = opendir(path);
    must(tasks != NULL, path);
    while ((entry = readdir(tasks)) != NULL) {
        FILE *file;
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "/proc/%d/task/%.20s/schedstat", (int)pid, entry->d_name);
        file = fopen(path, "r");
        if (!file) continue;
        if (fscanf(file, "%lf", &ns) == 1) total += ns / 1000;
        fclose(file);
    }
    closedir(tasks);
    return total;
}

/* -- certificates: one authority, a server and an administrator -- */

static void make_leaf(enum cert_kind kind, int cert, int key)
{
    struct note note = {0};
    struct cert_report report;
    enum err err = cert_leaf_ensure(
        fs_real(),
        &(struct cert_leaf_options){
            .ca_dir = dir, .cert_file = paths[cert], .key_file = paths[key]},
        &(struct cert_request){.kind = kind}, clock_wall(clock_real()), &report, &note);

    must(!err, note.text);
}

static void make_files(void)
{
    static const char body[] = "\0\0\0\0\x12\x12\x10xxxxxxxxxxxxxxxx"; /* a frame, an EchoRequest */
    struct note note = {0};
    struct cert_report report;
    FILE *file;

    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        snprintf(paths[i], sizeof paths[i], "%s/%s", dir, files[i]);
    must(!cert_ca_ensure(fs_real(), &(struct cert_ca_options){.dir = dir}, clock_wall(clock_real()),
                         &report, &note),
         note.text);
    make_leaf(CERT_SERVER, SERVER, SERVER_KEY);
    make_leaf(CERT_ADMIN, CLIENT, CLIENT_KEY);
    file = fopen(paths[BODY], "wb");
    must(file && fwrite(body, sizeof body - 1, 1, file) == 1 && !fclose(file), paths[BODY]);
}

/* All files, because the authority leaves a lock file, too. */
static void remove_files(void)
{
    DIR *all = opendir(dir);
    const struct dirent *entry;

    while (all && (entry = readdir(all)) != NULL)
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            unlinkat(dirfd(all), entry->d_name, 0);
    if (all) closedir(all);
    rmdir(dir);
}

/* -- one subject -- */

static void start_subject(struct subject *s)
{
    const char *argv[ARGS_MAX] = {s->program, "--listen", "127.0.0.1:0"};
    char text[OUTPUT_MAX];

    if (s->tls) {
        const char *const more[] = {"--tls-cert",      paths[SERVER], "--tls-key",
                                    paths[SERVER_KEY], "--tls-ca",    paths[CA]};
        memcpy(argv + 3, more, sizeof more);
    }
    for (size_t i = 0; s->generic && i < ARGS_MAX - 2; i++) {
        if (argv[i]) continue;
        argv[i] = "--generic";
        argv[i + 1] = "yes";
        break;
    }
    s->child = start(argv);
    read_output(&s->child, text, false);
    must(sscanf(text, "listening on %63s", s->address) == 1, s->program);
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL); /* it settles: this is "idle" */
    s->idle_kib = resident_kib(s->child.pid);
}

static void stop_subject(struct subject *s)
{
    kill(s->child.pid, SIGTERM);
    await(&s->child);
}

static double number(const char *json, const char *name)
{
    char key[64];
    const char *at;

    snprintf(key, sizeof key, "\"%s\":", name);
    at = strstr(json, key);
    must(at != NULL, name);
    return strtod(at + strlen(key), NULL);
}

static void load(struct subject *s, bool traced)
{
    char pid[16], text[OUTPUT_MAX];
    const char *argv[ARGS_MAX] = {LOAD_PROGRAM, "--json", "--target",  s->address,
                                  "--pid",      pid,      "--streams", "64",
                                  "--seconds",  SECONDS,  "--warmup",  WARMUP};
    const char *const tls[] = {"--tls-ca",  paths[CA],         "--tls-cert", paths[CLIENT],
                               "--tls-key", paths[CLIENT_KEY], "--tls-name", "localhost"};
    struct child child;
    struct figures *best = traced ? &s->traced : &s->best, now;

    snprintf(pid, sizeof pid, "%d", (int)s->child.pid);
    if (s->tls) memcpy(argv + 12, tls, sizeof tls);
    if (traced) argv[12 + (s->tls ? ARRAY_LEN(tls) : 0)] = "--trace";
    child = start(argv);
    read_output(&child, text, true);
    must(await(&child) == 0, "the load generator failed");
    now = (struct figures){number(text, "rate"), number(text, "p50_us"), number(text, "p99_us"),
                           number(text, "server_cpu_us_per_call"),
                           number(text, "client_cpu_us_per_call")};
    if (best->rate == 0) *best = now;
    if (now.rate > best->rate) best->rate = now.rate;
    if (now.p50_us < best->p50_us) best->p50_us = now.p50_us;
    if (now.p99_us < best->p99_us) best->p99_us = now.p99_us;
    if (now.cpu_us < best->cpu_us) best->cpu_us = now.cpu_us;
    if (now.client_cpu_us < best->client_cpu_us) best->client_cpu_us = now.client_cpu_us;
    s->loaded_kib = resident_kib(s->child.pid);
}

/* CPU per call under h2load, or 0 where it is not installed. */
static double h2load(struct subject *s, double *ret_rate)
{
    char url[128], text[OUTPUT_MAX];
    const char *argv[ARGS_MAX] = {"h2load",    "-n",           H2LOAD_CALLS_TEXT,
                                  "-c1",       "-m64",         "-d",
                                  paths[BODY], "-H",           "content-type: application/grpc",
                                  "-H",        "te: trailers", url};
    double before = cpu_us(s->child.pid);
    const char *at;
    struct child child;
    int code, good = 0;

    snprintf(url, sizeof url, "http://%s/muster.test.v1.Echo/Unary", s->address);
    child = start(argv);
    read_output(&child, text, true);
    code = await(&child);
    if (code == 127) return 0;
    at = strstr(text, "status codes: ");
    must(code == 0 && at && sscanf(at, "status codes: %d", &good) == 1 && good == H2LOAD_CALLS,
         "h2load: not all were answered");
    at = strstr(text, "finished in ");
    at = at ? strstr(at, ", ") : NULL;
    *ret_rate = at ? strtod(at + 2, NULL) : 0;
    return (cpu_us(s->child.pid) - before) / H2LOAD_CALLS;
}

/* -- printing -- */

static void print_subject(const struct subject *s)
{
    printf("  %-24s %6.2f us CPU per call   %7.0f /s   p50 %5.0f us   p99 %6.0f us   "
           "RSS idle %5.1f MiB, after load %5.1f MiB\n",
           s->name, s->best.cpu_us, s->best.rate, s->best.p50_us, s->best.p99_us,
           (double)s->idle_kib / 1024, (double)s->loaded_kib / 1024);
}

static void print_ratios(const struct subject *ours, const struct subject *peer)
{
    double cpu = ours->best.cpu_us / peer->best.cpu_us;

    printf(
        "  ours to %-18s %4.2f x CPU (budget %.2f: %s)   %.2f x rate   %.2f x p50   %.2f x p99   "
        "%.2f x RSS idle\n",
        peer->name, cpu, BUDGET_CPU, cpu <= BUDGET_CPU ? "met" : "missed",
        ours->best.rate / peer->best.rate, ours->best.p50_us / peer->best.p50_us,
        ours->best.p99_us / peer->best.p99_us, (double)ours->idle_kib / (double)peer->idle_kib);
}

static void print_h2load(struct subject *ours, struct subject *peer)
{
    double our_rate = 0, peer_rate = 0;
    double our_cpu = h2load(ours, &our_rate);
    double peer_cpu = our_cpu > 0 && peer ? h2load(peer, &peer_rate) : 0;

    if (our_cpu > 0) printf("  h2load: ours %.2f us CPU, %.0f /s", our_cpu, our_rate);
    if (peer_cpu > 0)
        printf("; C-core %.2f us CPU, %.0f /s; %.2f x", peer_cpu, peer_rate, our_cpu / peer_cpu);
    printf("%s\n", our_cpu > 0 ? "" : "  h2load is not installed (nghttp2-client)");
}

static void compare(bool tls)
{
    struct subject subjects[] = {
        {.name = "ours", .program = ECHO_PROGRAM, .tls = tls},
        {.name = "C-core, registered", .program = PEER_PROGRAM, .tls = tls},
        {.name = "C-core, generic", .program = PEER_PROGRAM, .tls = tls, .generic = true},
    };
    size_t count = PEER_PROGRAM[0] ? ARRAY_LEN(subjects) : 1;

    for (size_t i = 0; i < count; i++) start_subject(&subjects[i]);
    for (int round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < count; i++) {
            load(&subjects[i], false);
            load(&subjects[i], true);
        }
    printf("unary echo, 64 streams, %s\n", tls ? "mutual TLS 1.3" : "plaintext");
    for (size_t i = 0; i < count; i++) print_subject(&subjects[i]);
    for (size_t i = 1; i < count; i++) print_ratios(&subjects[0], &subjects[i]);
    printf("  with a traceparent in each call: ours %.2f us CPU", subjects[0].traced.cpu_us);
    for (size_t i = 1; i < count; i++)
        printf("; %s %.2f us, %.2f x", subjects[i].name, subjects[i].traced.cpu_us,
               subjects[0].traced.cpu_us / subjects[i].traced.cpu_us);
    printf("\n");
    if (count == 1) printf("  no peer: built without libgrpc-dev (scripts/setup bench)\n");
    printf("  idle RSS budget %d MiB: %s; the generator itself: %.2f us CPU per call\n",
           BUDGET_IDLE_KIB / 1024, subjects[0].idle_kib < BUDGET_IDLE_KIB ? "met" : "missed",
           subjects[0].best.client_cpu_us);
    if (!tls) print_h2load(&subjects[0], count > 1 ? &subjects[1] : NULL);
    for (size_t i = 0; i < count; i++) stop_subject(&subjects[i]);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    must(mkdtemp(dir) != NULL, "mkdtemp");
    atexit(remove_files); /* also when a check fails */
    make_files();
    compare(false);
    compare(true);
    return 0;
}
