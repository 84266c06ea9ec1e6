/* SPDX-License-Identifier: Apache-2.0 */
/* One function per kind of process makes its options. Options of all kinds are appended. Every word
 * is stored in the caller's struct dev_line. One thread. */
#include "muster/dev_parts.h"

#include <stdarg.h>
#include <stdio.h>

/* -- zones and clusters of each shard -- */

const char *dev_zone(size_t number)
{
    static const char *const zones[DEV_ZONES] = {"eu-1a", "eu-1b", "eu-1c"};
    return zones[number];
}

size_t dev_zone_shard(size_t zone, size_t shards)
{
    return zone == DEV_ZONES - 1 && shards > 1 ? 1 : 0;
}

const char *dev_cluster(size_t number)
{
    static const char *const clusters[DEV_OPERATORS] = {"cluster-a", "cluster-b", "cluster-c"};
    return clusters[number];
}

size_t dev_cluster_shard(size_t cluster, size_t shards)
{
    return cluster == DEV_OPERATORS - 1 && shards > 1 ? 1 : 0;
}

/* -- command lines -- */

void dev_address(char text[32], uint16_t port)
{
    snprintf(text, 32, "127.0.0.1:%u", port);
}

static void parts_word(struct dev_line *line, const char *text)
{
    assert(line->count < DEV_ARGS_MAX);
    line->argv[line->count++] = text;
    line->argv[line->count] = NULL;
}

__attribute__((format(printf, 3, 4))) static void parts_option(struct dev_line *line,
                                                               const char *name, const char *format,
                                                               ...)
{
    char *text = line->texts[line->text_count++];
    va_list args;

    assert(line->text_count <= ARRAY_LEN(line->texts));
    va_start(args, format);
    vsnprintf(text, sizeof line->texts[0], format, args);
    va_end(args);
    parts_word(line, name);
    parts_word(line, text);
}

static void parts_port(struct dev_line *line, const char *name, uint16_t port)
{
    parts_option(line, name, "127.0.0.1:%u", port);
}

/* Options that must be equal for coordinators and workers. */
static void parts_run_options(struct dev_line *line, const struct dev_parts *parts)
{
    parts_option(line, "--run-id", "%s", DEV_RUN);
    parts_option(line, "--transport-tls-dir", "%s/worker-tls", parts->dir);
}

/* Adds a list like "127.0.0.1:7790,127.0.0.1:7800"; workers need a scheme before each. */
static void parts_replicas(struct dev_line *line, const char *name, bool workers,
                           const struct dev_parts *parts)
{
    char text[DEV_REPLICAS_MAX * 32] = "";
    size_t len = 0;

    for (size_t i = 0; i < parts->replicas; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%s127.0.0.1:%u", i ? "," : "",
                                workers ? "https://" : "",
                                workers ? parts->ports.workers[i] : parts->ports.replicas[i].grpc);
    parts_option(line, name, "%s", text);
}

static void coordinator_line(const struct dev_parts *parts, size_t n, struct dev_line *line)
{
    snprintf(line->name, sizeof line->name, "node-%zu", n);
    parts_option(line, "--id", "%s", line->name);
    parts_port(line, "--listen", parts->ports.replicas[n].grpc);
    parts_port(line, "--raft-bind", parts->ports.replicas[n].raft);
    parts_port(line, "--http-listen", parts->ports.replicas[n].http);
    if (parts->replicas > 1) {
        parts_replicas(line, "--join-addr", false, parts);
        parts_option(line, "--bootstrap-expect", "%zu", parts->replicas);
    }
    parts_option(line, "--segment-size", "%s", DEV_SEGMENT_SIZE);
    parts_option(line, "--events-file-max", "%s", DEV_EVENTS_MAX);
    parts_option(line, "--events-files-kept", "1");
    parts_option(line, "--dashboard-token-file", "%s/%s", parts->dir, DEV_TOKEN_FILE);
    parts_option(line, "--dashboard-notes-file", "%s/%s", parts->dir, DEV_NOTES_FILE);
    parts_word(line, "--no-insecure");
    if (!parts->workers) return;
    parts_run_options(line, parts);
    parts_port(line, "--transport-listen-addr", parts->ports.workers[n]);
    parts_option(line, "--storage-path", "%s/%s-workers.db", parts->dir, line->name);
    parts_option(line, "--events-worker-sink", "file");
}

static_assert(sizeof DEV_RUN - 1 == 26, "a ULID");
static void worker_line(const struct dev_parts *parts, size_t n, struct dev_line *line)
{
    snprintf(line->name, sizeof line->name, "worker-%02zu", n);
    parts_run_options(line, parts);
    parts_option(line, "--worker-id", "%.24s%02zu", DEV_RUN, n);
    parts_replicas(line, "--coordinator-addr", true, parts);
    parts_option(line, "--checkpoint-store", "file://%s/checkpoints", parts->whole_dir);
    parts_option(line, "--process-input", "%s/input", parts->dir);
    parts_option(line, "--storage-path", "%s/%s.db", parts->dir, line->name);
}

static void provider_line(const struct dev_parts *parts, size_t, struct dev_line *line)
{
    snprintf(line->name, sizeof line->name, "provider");
    parts_port(line, "--listen", parts->ports.provider_grpc);
    parts_port(line, "--http-listen", parts->ports.provider_http);
}

static void shard_line(const struct dev_parts *parts, size_t n, struct dev_line *line)
{
    char domains[DEV_ZONES * 64];
    size_t len = 0;

    snprintf(line->name, sizeof line->name, "shard-%zu", n);
    parts_option(line, "--id", "%s", line->name);
    parts_port(line, "--listen", parts->ports.shards[n].grpc);
    parts_port(line, "--http-listen", parts->ports.shards[n].http);
    parts_port(line, "--provider-addr", parts->ports.provider_grpc);
    if (parts->replicas) parts_replicas(line, "--coordinator-addr", false, parts);
    parts_option(line, "--coordinator-heartbeat-interval", "2s");
    parts_option(line, "--cycle-interval", "2s");
    /* A restarted shard starts no action for this time. */
    parts_option(line, "--execute-timeout", "5s");
    parts_option(line, "--audit-log", "audit.ndjson");
    for (size_t i = 0; i < DEV_ZONES; i++)
        if (dev_zone_shard(i, parts->shards) == n)
            len += (size_t)snprintf(domains + len, sizeof domains - len, "%s%s=%s", len ? "," : "",
                                    DEV_ZONE_KEY, dev_zone(i));
    parts_option(line, "--domains", "%.*s", (int)len, domains);
}

static void operator_line(const struct dev_parts *parts, size_t n, struct dev_line *line)
{
    size_t shard = dev_cluster_shard(n, parts->shards);

    snprintf(line->name, sizeof line->name, "operator-%c", (char)('a' + n));
    parts_option(line, "--cluster-id", "%s", dev_cluster(n));
    parts_port(line, "--shard-addr", parts->ports.shards[shard].grpc);
    parts_port(line, "--http-listen", parts->ports.operator_http[n]);
    parts_option(line, "--demand", "%s/%s.toml", parts->dir, dev_cluster(n));
}

void dev_line_make(const struct dev_parts *parts, enum dev_part part, size_t number,
                   struct dev_line *ret_line)
{
    static const struct {
        const char *role;
        void (*options)(const struct dev_parts *parts, size_t n, struct dev_line *line);
    } roles[DEV_PARTS] = {
        [DEV_COORDINATOR] = {"coordinator", coordinator_line},
        [DEV_PROVIDER] = {"provider", provider_line},
        [DEV_SHARD] = {"shard", shard_line},
        [DEV_OPERATOR] = {"operator", operator_line},
        [DEV_WORKER] = {"worker", worker_line},
    };
    struct dev_line *line = ret_line;

    line->count = line->text_count = 0;
    parts_word(line, parts->program);
    parts_word(line, roles[part].role);
    parts_word(line, "run");
    roles[part].options(parts, number, line);
    parts_option(line, "--data-dir", "%s/%s", parts->dir, line->name);
    parts_option(line, "--log-file", "%s/%s.log", parts->dir, line->name);
    parts_option(line, "--log-level", "%s", parts->log_level);
}

/* -- input -- */

enum err dev_write_once(struct fs *fs, const char *path, struct str text, uint64_t unique,
                        struct note *note)
{
    struct fs_info info;
    enum err err = fs_stat(fs, path, &info);

    if (err == ERR_NOT_FOUND) err = fs_publish(fs, path, text, 0644, unique);
    if (err) note_set(note, "%s: %s", path, err_text(err));
    return err;
}

enum err dev_input_write(const struct dev_parts *parts, struct fs *fs, uint64_t unique,
                         struct note *note)
{
    static const char *const words[] = {"apple", "pear", "plum", "quince", "cherry"};
    char path[DEV_PATH_CAP + 64], text[1024];
    enum err err;

    snprintf(path, sizeof path, "%s/input", parts->dir);
    err = fs_make_dirs(fs, path, 0755);
    for (size_t i = 0; !err && i < DEV_INPUTS; i++) {
        size_t len = 0;
        for (size_t n = 0; n < 40; n++)
            len += (size_t)snprintf(text + len, sizeof text - len, "%s %zu\n",
                                    words[(i + n) % ARRAY_LEN(words)], n);
        snprintf(path, sizeof path, "%s/input/%08zu.txt", parts->dir, i);
        err = dev_write_once(fs, path, str_of(text, len), unique + i, note);
    }
    return err;
}
