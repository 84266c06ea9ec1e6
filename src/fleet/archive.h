/* SPDX-License-Identifier: Apache-2.0 */
/* Reads archives, and makes a data directory from an archive. Offline and blocking.
 *
 * Three kinds are read (coordinator.md 6.4 to 6.6, docs/formats/backup.md): a directory with
 * meta.json and state, written by the export loop (`latest` works); a tar of the two files, written
 * by `snapshot save`, also by the original's; and a backup, which contains the bytes of a snapshot
 * of the log (log/snapfile.h) and its creation time in section 0.
 *
 * The whole archive is read into state machines before anything is changed. An archive that cannot
 * be restored is therefore refused here, with file and offset, and not at the next start. Rows that
 * break the rules of commands are left out and reported, as in the original. */
#ifndef FLEET_ARCHIVE_H
#define FLEET_ARCHIVE_H
#include "fleet/core/fleet.h"
#include "io/clock.h"
#include "io/fs.h"
#include "log/datadir.h"
#include "log/log.h"

enum archive_kind { ARCHIVE_EXPORT, ARCHIVE_SNAPSHOT, ARCHIVE_BACKUP };
const char *archive_kind_word(enum archive_kind kind); /* "export", "snapshot", "backup" */

enum { BACKUP_SECTION_MADE = 0, BACKUP_MADE_BYTES = 8 }; /* milliseconds since 1970 */

enum { ARCHIVE_SECTIONS_MAX = REPLICA_MACHINES_MAX };
struct archive_facts {
    enum archive_kind kind;
    uint64_t index, term;            /* index and term of the last contained entry */
    uint64_t cluster_id, created_ms; /* for backups */
    uint64_t clock_ns;
    uint32_t level;
    struct archive_section {
        const char *name;
        uint64_t bytes, hash;
    } sections[ARCHIVE_SECTIONS_MAX];
    size_t section_count;
    struct fleet_counts rows, dropped;
    /* Sections that this program knows and the archive lacks; static texts. */
    const char *lacks[ARCHIVE_SECTIONS_MAX];
    size_t lacks_count;
};
struct archive;
/* Reads the whole archive. `more`: machines of other modules by ascending id, all larger than the
 * fleet's ids, ended by a machine with id 0. They must be valid until archive_close, and each
 * machine is restored from its section, if there is one. May be NULL. ERR_NOT_FOUND, ERR_PARSE and
 * ERR_CORRUPT (file and offset in the note), ERR_INVALID (index 0), ERR_VERSION (a section or a
 * cluster level this program does not know), ERR_NOMEM. */
enum err archive_open(struct fs *fs, const char *path, const struct state_machine *more,
                      struct archive **ret_archive, struct note *note);
void archive_close(struct archive *archive); /* NULL is fine */
const struct archive_facts *archive_facts(const struct archive *archive);

struct archive_restore_options {
    struct fs *fs;
    struct entropy *entropy;
    const char *dir;     /* the directory's content is removed; see datadir_restore */
    const char *address; /* Raft address of the replica, as other replicas reach it */
    uint64_t wall_ms;    /* the current time; 0: unknown */
};
/* Makes a data directory from the archive. Entries committed after the copy are lost, so the
 * restored state must not be taken for theirs. The term and every number of the machines continue
 * above the old ones (base/recovery.h), and identities are drawn again. Replicas of the old cluster
 * are not restored; they join again. Returns the errors of datadir_restore. */
enum err archive_restore(struct archive *archive, const struct archive_restore_options *options,
                         struct datadir *ret_datadir, struct note *note);
#endif
