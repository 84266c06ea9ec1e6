/* SPDX-License-Identifier: Apache-2.0 */
/* A fleet whose content follows from a number, in all file formats, on a simulated disk. */
#ifndef TESTS_UNIT_FLEET_ARCHIVE_RIG_H
#define TESTS_UNIT_FLEET_ARCHIVE_RIG_H
#include "base/buf.h"
#include "base/prng.h"
#include "fleet/archive.h"
#include "fleet/core/fleet.h"
#include "fleet/export_dir.h"
#include "fleet/save_file.h"
#include "lib/test.h"
#include "sim/sim_fs.h"

enum { SAMPLE_TERM = 2 };

struct sample_entropy {
    struct entropy base;
    struct prng prng;
};
void sample_entropy_init(struct sample_entropy *entropy, uint64_t seed);

/* `index` shards, each with a domain and a cluster, and one provider and quota. */
struct fleet *sample_fleet(uint64_t index);
uint64_t sample_hash(uint64_t index);
struct fleet_meta sample_meta(uint64_t index); /* with the size of sample_state */
void sample_state(uint64_t index, struct buf *into);
/* As muster.v1.Fleet/Backup streams it; a roster of one. */
void sample_backup(uint64_t index, struct buf *into);

/* The functions under test, over any file system. */
enum err sample_export(struct fs *fs, const char *dir, uint64_t index, struct note *note);
void sample_export_name(uint64_t index, char name[EXPORT_NAME_CAP]);
enum err sample_save(struct fs *fs, const char *path, enum save_kind kind, uint64_t index,
                     struct note *note);
void sample_put(struct fs *fs, const char *path, struct str bytes); /* durable */
/* Opens the file and returns the index of its content; 0: no sample's, and the note says why. */
uint64_t sample_index_of(struct fs *fs, const char *path, struct note *note);
#endif
