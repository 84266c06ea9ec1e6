/* SPDX-License-Identifier: Apache-2.0 */
/* One owner of a partition of a checkpoint store, as a process: claims, then runs commands.
 *
 *     store_driver URL PARTITION TOKEN WORKER
 *
 * Prints "claimed N" (number of loaded records), then for each line "commit N" its result:
 * "committed REFERENCE" or an error's name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/clock.h"
#include "io/fs.h"
#include "worker/checkpoint.h"

static bool yes(void *owner)
{
    (void)owner;
    return true;
}

static int failed(enum err err, const struct note *note)
{
    printf("%s %s\n", err_name(err), note->text);
    return 0;
}

static void commit(struct checkpoint_store *store, struct checkpoint *at, const char *worker,
                   uint64_t records)
{
    char reference[CHECKPOINT_REFERENCE_CAP];
    struct tally_record record = {.key = "k", .key_len = 1, .number = 1};
    struct note note = {""};
    struct partition_tally *tally;
    enum err err = tally_open(&tally);

    for (uint64_t i = 0; !err && i < records; i++) err = tally_add(tally, &record);
    if (!err)
        err =
            checkpoint_commit(store, at, worker, clock_wall(clock_real()), tally, yes, NULL, &note);
    checkpoint_reference(store, at, reference);
    if (err)
        failed(err, &note);
    else
        printf("committed %s\n", reference);
    tally_close(tally);
}

int main(int argc, char **argv)
{
    struct checkpoint_store *store;
    struct checkpoint at = {0};
    struct note note = {""};
    struct partition_tally *tally;
    char line[64];
    enum err err;

    if (argc != 5) return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    err = checkpoint_store_open(fs_real(), argv[1], &store, &note);
    if (err) return failed(err, &note);
    err = tally_open(&tally);
    if (!err)
        err = checkpoint_claim(store, (uint32_t)strtoul(argv[2], NULL, 10),
                               strtoull(argv[3], NULL, 10), argv[4], clock_wall(clock_real()),
                               tally, &at, &note);
    if (err)
        failed(err, &note);
    else
        printf("claimed %llu\n", (unsigned long long)tally->records);
    tally_close(tally);
    while (!err && fgets(line, sizeof line, stdin))
        if (strncmp(line, "commit ", 7) == 0)
            commit(store, &at, argv[4], strtoull(line + 7, NULL, 10));
    checkpoint_store_close(store);
    return 0;
}
