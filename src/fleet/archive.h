/* SPDX-License-Identifier: Apache-2.0 */
/* Reads archives, and makes a data directory from an archive. Works offline; calls block.
 *
 * Three kinds of archive (coordinator.md 6.4 to 6.6, docs/formats/backup.md):
 * - a directory with the files meta.json and state, as the export loop writes it (also `latest`)
 * - a tar file of the same two files, written by `snapshot save` of muster or the original
 * - a backup: a file with a snapshot of the log (log/snapfile.h) and its creation time in section 0
 *
 * The whole archive is read before anything is changed, so that damage is found here. Table rows
 * that break the rules of commands are left out and reported, as in the original program. */
#ifndef FLEET_ARCHIVE_H
#define FLEET_ARCHIVE_H
#include "fleet/core/fleet.h"
#include "io/clock.h"
#include "io/fs.h"
#include "log/datadir.h"
#include "log/log.h"

enum archive_kind { ARCHIVE_EXPORT, ARCHIVE_SNAPSHOT, ARCHIVE_BACKUP };
const char *archive_kind_word(enum archive_kind kind); /* "export", "snapshot", "backup" */

enum { BACKUP_SECTION_MADE = 0, BACKUP_MADE_BYTES = 8 }; /* 8 bytes: milliseconds since 1970 */

enum { ARCHIVE_SECTIONS_MAX = REPLICA_MACHINES_MAX };
struct archive_facts {
    enum archive_kind kind;
    uint64_t index, term;            /* of the last log entry in the archive */
    uint64_t cluster_id, created_ms; /* for backups only */
    uint64_t clock_ns;
    uint32_t level;
    struct archive_section {
        const char *name;
        uint64_t bytes, hash;
    } sections[ARCHIVE_SECTIONS_MAX];
    size_t section_count;
    struct fleet_counts rows, dropped;
    /* Sections that this program knows but the archive does not contain. Static texts. */
    const char *lacks[ARCHIVE_SECTIONS_MAX];
    size_t lacks_count;
};
struct archive;
/* Reads the whole archive. `more` may be NULL, or lists further state machines: by ascending id,
 * above the fleet's ids, ended by id 0. The state machines must outlive the archive.
 * ERR_PARSE, ERR_CORRUPT: with file and offset in the note. ERR_INVALID: index 0. ERR_VERSION: an
 * unknown section or cluster level. ERR_NOT_FOUND, ERR_NOMEM. */
enum err archive_open(struct fs *fs, const char *path, const struct state_machine *more,
                      struct archive **ret_archive, struct note *note);
void archive_close(struct archive *archive); /* NULL is allowed */
const struct archive_facts *archive_facts(const struct archive *archive);

struct archive_restore_options {
    struct fs *fs;
    struct entropy *entropy;
    const char *dir;     /* its content is removed (see datadir_restore) */
    const char *address; /* Raft address at which other replicas reach this replica */
    uint64_t wall_ms;    /* current time in ms since 1970; 0: unknown */
};
/* The new directory has new identities and a higher term, because the old cluster may have
 * committed entries after the archive was made (base/recovery.h). Replicas of the old cluster must
 * join again. Errors of datadir_restore. */
enum err archive_restore(struct archive *archive, const struct archive_restore_options *options,
                         struct datadir *ret_datadir, struct note *note);
#endif
