/* SPDX-License-Identifier: Apache-2.0 */
/* What an archive holds, and a data directory made out of it. Offline and blocking.
 *
 * Three kinds are read (coordinator.md 6.4 to 6.6, docs/formats/backup.md): a directory with
 * meta.json and state, as the export loop writes it (`latest` works); a tar of the two, as
 * `snapshot save` writes it, the original's as well; and a backup, which has the bytes of a snapshot
 * of the log (log/snapfile.h) and in section 0 when it was made.
 *
 * All of it is read into the state machines themselves before anything is changed, so an archive
 * that cannot be restored is refused here, naming file and offset, and not at the next start. Rows
 * that the rules of writing refuse are left out and reported, as the original leaves them out. */
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
    uint64_t index, term;            /* of the last entry contained */
    uint64_t cluster_id, created_ms; /* of a backup */
    uint64_t clock_ns;
    uint32_t level;
    struct archive_section {
        const char *name;
        uint64_t bytes, hash;
    } sections[ARCHIVE_SECTIONS_MAX];
    size_t section_count;
    struct fleet_counts rows, dropped;
    /* Known to this program and not in the archive; static texts. */
    const char *lacks[ARCHIVE_SECTIONS_MAX];
    size_t lacks_count;
};
struct archive;
/* Reads all of it. `more`: machines of other modules by growing id, all larger than ours, ended by
 * one of id 0; borrowed until archive_close, and each then holds its section, or nothing. May be
 * NULL. ERR_NOT_FOUND, ERR_PARSE and ERR_CORRUPT (file and offset in the note), ERR_INVALID (index
 * 0), ERR_VERSION (a section or a cluster level this program does not know), ERR_NOMEM. */
enum err archive_open(struct fs *fs, const char *path, const struct state_machine *more,
                      struct archive **ret_archive, struct note *note);
void archive_close(struct archive *archive); /* NULL is fine */
const struct archive_facts *archive_facts(const struct archive *archive);

struct archive_restore_options {
    struct fs *fs;
    struct entropy *entropy;
    const char *dir;     /* what it holds is removed; see datadir_restore */
    const char *address; /* of the replica's Raft port, as others reach it */
    uint64_t wall_ms;    /* now; 0: not known */
};
/* What was committed after the copy was made is lost, and nobody may take this state for that one:
 * the term and every number of the machines go on above it (base/recovery.h), and identities
 * are drawn anew. Who was a replica of the old cluster is not restored: they join anew.
 * What datadir_restore answers. */
enum err archive_restore(struct archive *archive, const struct archive_restore_options *options,
                         struct datadir *ret_datadir, struct note *note);
#endif
