/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/dev_parts.h"

#include <stdio.h>

/* -- who is whose -- */

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

static void word(struct dev_line *line, const char *text)
{
    assert(line->count < DEV_ARGS_MAX);
    line->argv[line->count++] = text;
    line->argv[line->count] = NULL;
}

static char *room(struct dev_line *line)
{
    assert(line->text_count < ARRAY_LEN(line->texts));
    return line->texts[line->text_count++];
}

static void option(struct dev_line *line, const char *name, const char *value)
{
    word(line, name);
    word(line, value);
}

static void option_path(struct dev_line *line, const char *name, const char *dir, const char *file,
                        const char *ending)
{
    char *text = room(line);

    snprintf(text, sizeof line->texts[0], "%s/%s%s", dir, file, ending);
    option(line, name, text);
}

static void option_port(struct dev_line *line, const char *name, uint16_t port)
{
    char *text = room(line);

    dev_address(text, port);
    option(line, name, text);
}

/* What coordinators and workers must agree on. */
static void options_run(struct dev_line *line, const struct dev_parts *parts)
{
    option(line, "--run-id", DEV_RUN);
    option_path(line, "--transport-tls-dir", parts->dir, "worker-tls", "");
}

/* "127.0.0.1:7790,127.0.0.1:7800", each with the scheme in front. */
static void option_replicas(struct dev_line *line, const char *name, const char *scheme,
                            const uint16_t *ports, const struct dev_parts *parts)
{
    char *text = room(line), one[32];
    size_t len = 0;

    text[0] = '\0';
    for (size_t i = 0; i < parts->replicas; i++) {
        dev_address(one, ports[i]);
        len += (size_t)snprintf(text + len, sizeof line->texts[0] - len, "%s%s%s", i ? "," : "",
                                scheme, one);
    }
    option(line, name, text);
}

static void coordinator_line(const struct dev_parts *parts, size_t n, struct dev_line *line)
{
    snprintf(line->name, sizeof line->name, "node-%zu", n);
    option(line, "--id", line->name);
    option_port(line, "--listen", parts->ports.grpc[n]);
    option_port(line, "--raft-bind", parts->ports.raft[n]);
    option_port(line, "--http-listen", parts->ports.http[n]);
    if (parts->replicas > 1) { /* a single one has no peers */
        char *expect = room(line);
        snprintf(expect, sizeof line->texts[0], "%zu", parts->replicas);
        option_replicas(line, "--join-addr", "", parts->ports.grpc, parts);
        option(line, "--bootstrap-expect", expect);
    }
    option(line, "--segment-size", DEV_SEGMENT_SIZE);
    option(line, "--events-file-max", DEV_EVENTS_MAX);
    option(line, "--events-files-kept", "1");
    option_path(line, "--dashboard-token-file", parts->dir, DEV_TOKEN_FILE, "");
    option_path(line, "--dashboard-notes-file", parts->dir, DEV_NOTES_FILE, "");
    word(line, "--no-insecure");
    if (!parts->workers) return;
    options_run(line, parts);
    option_port(line, "--transport-listen-addr", parts->ports.workers[n]);
    option_path(line, "--storage-path", parts->dir, line->name, "-workers.db");
    option(line, "--events-worker-sink", "file");
}

static_assert(sizeof DEV_RUN - 1 == 26, "a ULID");
static void worker_line(const struct dev_parts *parts, size_t n, struct dev_line *line)
{
    char *id = room(line), *store = room(line);

    snprintf(line->name, sizeof line->name, "worker-%02zu", n);
    snprintf(id, sizeof line->texts[0], "%.24s%02zu", DEV_RUN, n);
    snprintf(store, sizeof line->texts[0], "file://%s/checkpoints", parts->whole_dir);
    options_run(line, parts);
    option(line, "--worker-id", id);
    option_replicas(line, "--coordinator-addr", "https://", parts->ports.workers, parts);
    option(line, "--checkpoint-store", store);
    option_path(line, "--process-input", parts->dir, "input", "");
    option_path(line, "--storage-path", parts->dir, line->name, ".db");
}

static void provider_line(const struct dev_parts *parts, struct dev_line *line)
{
    snprintf(line->name, sizeof line->name, "provider");
    option_port(line, "--listen", parts->ports.provider_grpc);
    option_port(line, "--http-listen", parts->ports.provider_http);
}

static void shard_line(const struct dev_parts *parts, size_t n, struct dev_line *line)
{
    char *domains = room(line);
    size_t len = 0;

    snprintf(line->name, sizeof line->name, "shard-%zu", n);
    option(line, "--id", line->name);
    option_port(line, "--listen", parts->ports.shard_grpc[n]);
    option_port(line, "--http-listen", parts->ports.shard_http[n]);
    option_port(line, "--provider-addr", parts->ports.provider_grpc);
    if (parts->replicas) option_replicas(line, "--coordinator-addr", "", parts->ports.grpc, parts);
    option(line, "--coordinator-heartbeat-interval", "2s");
    option(line, "--cycle-interval", "2s");
    /* For so long a shard that was killed and started again begins nothing. */
    option(line, "--execute-timeout", "5s");
    option(line, "--audit-log", "audit.ndjson");
    for (size_t i = 0; i < DEV_ZONES; i++)
        if (dev_zone_shard(i, parts->shards) == n)
            len += (size_t)snprintf(domains + len, sizeof line->texts[0] - len, "%s%s=%s",
                                    len ? "," : "", DEV_ZONE_KEY, dev_zone(i));
    option(line, "--domains", domains);
}

static void operator_line(const struct dev_parts *parts, size_t n, struct dev_line *line)
{
    snprintf(line->name, sizeof line->name, "operator-%c", (char)('a' + n));
    option(line, "--cluster-id", dev_cluster(n));
    option_port(line, "--shard-addr", parts->ports.shard_grpc[dev_cluster_shard(n, parts->shards)]);
    option_port(line, "--http-listen", parts->ports.operator_http[n]);
    option_path(line, "--demand", parts->dir, dev_cluster(n), ".toml");
}

void dev_line_make(const struct dev_parts *parts, enum dev_part part, size_t number,
                   struct dev_line *ret_line)
{
    static const char *const roles[] = {"coordinator", "provider", "shard", "operator", "worker"};
    struct dev_line *line = ret_line;

    line->count = line->text_count = 0;
    word(line, parts->program);
    word(line, roles[part]);
    word(line, "run");
    switch (part) {
    case DEV_COORDINATOR: coordinator_line(parts, number, line); break;
    case DEV_PROVIDER: provider_line(parts, line); break;
    case DEV_SHARD: shard_line(parts, number, line); break;
    case DEV_OPERATOR: operator_line(parts, number, line); break;
    case DEV_WORKER: worker_line(parts, number, line); break;
    case DEV_PARTS: break; /* no part */
    }
    option_path(line, "--data-dir", parts->dir, line->name, "");
    option_path(line, "--log-file", parts->dir, line->name, ".log");
    option(line, "--log-level", parts->log_level);
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
