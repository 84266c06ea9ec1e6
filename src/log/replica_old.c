/* SPDX-License-Identifier: Apache-2.0 */
/* Reads entries that are no longer in memory: for the machines at start, and for followers that
 * lag. The bulk thread reads a few MiB at a time from the segments. The entries stay in memory
 * until the next read. */
#include "log/replica_internal.h"

#include <stdlib.h>

static enum err replica_old_run(struct replica_job *job)
{
    struct replica_old *old = CONTAINER_OF(job, struct replica_old, job);
    struct replica *replica = job->replica;

    return wal_read(replica->io->fs, replica->dir, old->places, old->count, &old->bytes,
                    old->entries, &job->note);
}

bool replica_old_read(struct replica_old *old, uint64_t first, uint64_t last)
{
    struct replica *replica = old->job.replica;
    size_t bytes = 0;

    assert(!old->job.busy);
    buf_clear(&old->bytes);
    old->first = first;
    for (old->count = 0; old->count < REPLICA_READ_ENTRIES && bytes < REPLICA_READ_BYTES;) {
        uint64_t index = first + old->count;
        struct entry entry;

        if (index > last ||
            !entries_get(replica->entries, index, &entry, &old->places[old->count]) ||
            entry.bytes.at)
            break;
        bytes += old->places[old->count].size;
        old->count++;
    }
    if (old->count == 0 || replica_job_start(&old->job, replica->bulk_worker)) {
        old->count = 0;
        return false;
    }
    replica_count(replica, COUNT_OLD_READS);
    return true;
}

const struct entry *replica_old_entry(const struct replica_old *old, uint64_t index)
{
    if (old->job.busy || index < old->first || index >= old->first + old->count) return NULL;
    return &old->entries[index - old->first];
}

enum err replica_old_open(struct replica_old *old, struct replica *replica,
                          void (*done)(struct replica_job *job))
{
    struct entry *entries = calloc(REPLICA_READ_ENTRIES, sizeof *entries);
    struct wal_place *places = calloc(REPLICA_READ_ENTRIES, sizeof *places);

    if (!entries || !places) {
        free(entries);
        free(places);
        return ERR_NOMEM;
    }
    *old = (struct replica_old){.entries = entries, .places = places};
    replica_job_init(&old->job, replica, replica_old_run, done);
    buf_init(&old->bytes, REPLICA_READ_BYTES + ENTRY_BYTES_MAX);
    return ERR_OK;
}

void replica_old_close(struct replica_old *old)
{
    assert(!old->job.busy);
    buf_deinit(&old->bytes);
    free(old->entries);
    free(old->places);
}
