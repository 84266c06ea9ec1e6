/* SPDX-License-Identifier: Apache-2.0 */
/* The command lines of `muster dev`'s processes, and the input files of its workers. */
#ifndef MUSTER_DEV_PARTS_H
#define MUSTER_DEV_PARTS_H
#include "base/note.h"
#include "io/fs.h"
#include "muster/dev_child.h"
#include "muster/dev_ports.h"

enum { DEV_PATH_CAP = 4096, DEV_ZONES = 3, DEV_INPUTS = 16 };
#define DEV_RUN        "01JDEV00000000000000000000"
#define DEV_TOKEN_FILE "dashboard-token" /* shared by all coordinators */
#define DEV_NOTES_FILE "notes.ndjson"
/* Limits for the demo, which stays below 100 MB of disk. Production's 64 MiB segments would take
 * 576 MiB. */
#define DEV_SEGMENT_SIZE "4MiB" /* each coordinator allocates three segments */
#define DEV_EVENTS_MAX   "4MiB" /* one older file is kept */
#define DEV_ZONE_KEY     "topology.kubernetes.io/zone"

struct dev_parts {
    const char *dir, *log_level;
    char program[DEV_PATH_CAP];
    char whole_dir[DEV_PATH_CAP]; /* from the root */
    size_t replicas, shards, workers;
    struct dev_ports ports;
};
enum dev_part { DEV_COORDINATOR, DEV_PROVIDER, DEV_SHARD, DEV_OPERATOR, DEV_WORKER, DEV_PARTS };

/* The command line of one process, valid until the next call with the same `line`. */
struct dev_line {
    const char *argv[DEV_ARGS_MAX + 1];
    size_t count;
    char name[32];
    char texts[24][DEV_PATH_CAP + 64];
    size_t text_count;
};
void dev_line_make(const struct dev_parts *parts, enum dev_part part, size_t number,
                   struct dev_line *ret_line);
void dev_address(char text[32], uint16_t port); /* "127.0.0.1:7790" */

const char *dev_zone(size_t number);
size_t dev_zone_shard(size_t zone, size_t shards);
const char *dev_cluster(size_t number);
size_t dev_cluster_shard(size_t cluster, size_t shards);
/* Writes the missing input files of the workers: DIR/input/00000000.txt and so on. */
enum err dev_input_write(const struct dev_parts *parts, struct fs *fs, uint64_t unique,
                         struct note *note);
/* Writes the file only if it does not exist, so that a user's edits stay. */
enum err dev_write_once(struct fs *fs, const char *path, struct str text, uint64_t unique,
                        struct note *note);
#endif
