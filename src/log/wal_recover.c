/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the whole log at start.
 *
 * Segments are read in order of their numbers, in large pieces, and every record is checked. If a
 * record cannot be read, the question is whether it was ever acknowledged. If any later record says
 * that the unreadable record was durable (`synced`), or the log continues in a later segment, the
 * disk lost acknowledged data and the replica stops. Otherwise the rest of the log is a torn tail.
 * Every part of the tail with this segment's salt is zeroed, so that old records cannot reappear
 * later.
 *
 * The last records, which no later record calls durable, may have been in the kernel's memory only.
 * After a failed sync the kernel may return bytes that it will never write. So these records are
 * written again and synced before they are used. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log/wal_internal.h"

enum {
    READ_STEP = 4 << 20,
    WINDOW_MAX = 2 * READ_STEP + SEGMENT_HEAD, /* holds the largest record at any offset */
    SEGMENT_NAME_SIZE = 16 + 4 + 1,            /* "<sequence>.seg" with its NUL */
};
static_assert((int)WINDOW_MAX > (int)ENTRY_BYTES_MAX + RECORD_HEAD + RECORD_ALIGN, "it fits");

struct recovery {
    struct wal *wal;
    wal_found_fn *each;
    void *context;
    struct wal_report *report;
    struct note *note;
    struct buf names; /* names of the segments, sorted, each in SEGMENT_NAME_SIZE bytes */
    size_t count;

    /* A window of the segment being read. */
    struct fs_file *file;
    struct wal_segment segment;
    char path[FS_PATH_CAP];
    char *window;
    size_t window_cap, window_len;
    uint64_t window_at;

    uint64_t expected; /* serial of the next record; 0 if any serial is accepted */
    uint64_t covered;  /* highest value of `synced` in the records read */
    struct {
        size_t used; /* index in wal->used */
        uint64_t offset;
    } uncovered; /* place of the first record above `covered` */
    bool last_is_seal;
};

/* -- the list of segments -- */

static bool is_segment(struct str name, enum fs_kind kind)
{
    return kind == FS_REGULAR && wal_segment_parse(name) > 0;
}

static int compare_names(const void *a, const void *b)
{
    return memcmp(a, b, SEGMENT_NAME_SIZE);
}

static enum err list_segments(struct recovery *r)
{
    enum err err = fs_names(r->wal->fs, r->wal->dir, is_segment, &r->names, r->note);
    r->count = r->names.len / SEGMENT_NAME_SIZE;
    if (!err && r->count > 0) qsort(r->names.data, r->count, SEGMENT_NAME_SIZE, compare_names);
    return err;
}

static uint64_t sequence_at(const struct recovery *r, size_t i)
{
    return wal_segment_parse(str_from(r->names.data + i * SEGMENT_NAME_SIZE));
}

/* -- reading one segment through a window -- */

static void segment_leave(struct recovery *r)
{
    fs_close(r->wal->fs, r->file);
    r->file = NULL;
}

static enum err segment_enter(struct recovery *r, uint64_t sequence)
{
    struct wal *wal = r->wal;
    struct segment_head head = {0};
    segment_leave(r);
    r->segment = (struct wal_segment){.sequence = sequence};
    wal_segment_path(wal->dir, sequence, r->path);
    enum err err = wal_open_segment(wal, &r->segment, FS_READ, &r->file, r->note);
    if (err) return err;
    err = wal_read_head(wal->fs, r->file, sequence, &head);
    if (err)
        return note_fail(r->note, err, "%s: offset 0: head of a segment: %s", r->path,
                         err_text(err));
    if (head.replica_id != wal->replica_id)
        return note_fail(r->note, ERR_CORRUPT,
                         "%s: offset 0: of replica %016" PRIx64 ", not of %016" PRIx64, r->path,
                         head.replica_id, wal->replica_id);
    r->segment.salt = head.salt;
    r->window_len = 0;
    return fs_noted(fs_file_size(wal->fs, r->file, &r->segment.size), "size of", r->path, r->note);
}

static enum err window_make(struct recovery *r, size_t want)
{
    if (want <= r->window_cap) return ERR_OK;
    char *window = malloc(want);
    if (!window)
        return note_fail(r->note, ERR_NOMEM, "read %s: %s", r->wal->dir, err_text(ERR_NOMEM));
    free(r->window);
    r->window = window;
    r->window_cap = want;
    r->window_len = 0;
    return ERR_OK;
}

/* Returns the bytes from `offset` on: at least `want`, or fewer at the end of the file. `again`
 * reads from disk, not from the window. */
static enum err wal_recover_check(struct recovery *r, uint64_t offset, size_t want, bool again,
                                  struct str *ret_bytes)
{
    assert(offset <= r->segment.size && want <= WINDOW_MAX);
    uint64_t left = r->segment.size - offset;
    size_t need = (size_t)min_u64(want, left), got;
    enum err err = window_make(r, (size_t)min_u64(WINDOW_MAX, r->segment.size));
    if (err) return err;
    bool held = !again && offset >= r->window_at && offset - r->window_at + need <= r->window_len;
    if (!held) {
        /* Bytes already in the window move to its front and are not read again. */
        size_t keep = 0;
        if (!again && offset >= r->window_at && offset - r->window_at < r->window_len) {
            keep = r->window_len - (size_t)(offset - r->window_at);
            memmove(r->window, r->window + (offset - r->window_at), keep);
        }
        size_t more = (size_t)min_u64(left - keep, max_size(need - keep, READ_STEP));
        more = min_size(more, r->window_cap - keep);
        err = fs_read_at(r->wal->fs, r->file, offset + keep, r->window + keep, more, &got);
        if (!err && got < more) err = ERR_IO; /* the file was longer before */
        if (err) {
            note_set(r->note, "read %s at %" PRIu64 ": %s", r->path, offset + keep, err_text(err));
            r->window_len = 0;
            return err;
        }
        r->window_at = offset;
        r->window_len = keep + more;
    }
    size_t skip = (size_t)(offset - r->window_at);
    *ret_bytes = str_of(r->window + skip, r->window_len - skip);
    return ERR_OK;
}

/* Reads the record at `offset`. *ret_size is 0 if there is no valid record, even after the disk was
 * read a second time. */
static enum err record_at(struct recovery *r, uint64_t offset, struct log_record *ret_record,
                          size_t *ret_size)
{
    size_t want = RECORD_HEAD, size = 0;
    bool again = false;
    struct str bytes;
    *ret_size = 0;
    for (;;) {
        if (r->segment.size - offset < want) return ERR_OK; /* the record would exceed the file */
        enum err err = wal_recover_check(r, offset, want, again, &bytes);
        if (err) return err;
        err = record_read(bytes, r->segment.salt, ret_record, &size);
        if (!err) {
            *ret_size = size;
            return ERR_OK;
        }
        if (err == ERR_TOO_LARGE) {
            want = size;
            continue; /* happens once, because the head contains the size */
        }
        if (again) return ERR_OK;
        again = true;
        want = RECORD_HEAD;
    }
}

/* -- torn tail or damage -- */

static enum err damaged(struct recovery *r, uint64_t offset, uint64_t serial)
{
    return note_fail(r->note, ERR_CORRUPT,
                     "%s: offset %" PRIu64 ": damaged: record %" PRIu64 " says that it was durable",
                     r->path, offset, serial);
}

/* Returns true if `record`, found at `at` after the unreadable record at `offset`, proves that the
 * unreadable record was durable. If the unreadable record is the first of the log, its serial is
 * unknown. Then the proof is a record that began a later append, because all records before that
 * append were durable. */
static bool covers(const struct recovery *r, const struct log_record *record, uint64_t at,
                   uint64_t offset)
{
    if (r->expected > 0) return record->synced >= r->expected;
    return at > offset && record->synced > 0 && record->synced + 1 == record->serial;
}

/* Checks everything after the unreadable record at `offset`. Records may begin at any multiple of
 * 8, because a damaged length does not show where the next record begins. *ret_end: the end of the
 * last record with this segment's salt. */
static enum err judge_tail(struct recovery *r, uint64_t offset, uint64_t *ret_end)
{
    uint64_t end = offset, size = r->segment.size;
    for (uint64_t at = offset; at + RECORD_HEAD <= size;) {
        struct str bytes;
        enum err err = wal_recover_check(r, at, RECORD_HEAD, false, &bytes);
        if (err) return err;
        size_t i = 0;
        for (; i + RECORD_HEAD <= bytes.len; i += RECORD_ALIGN) {
            struct log_record record;
            size_t length;
            if (record_read_head(str_of(bytes.at + i, bytes.len - i), r->segment.salt, &record,
                                 &length))
                continue;
            if (record.serial < r->expected) continue; /* an old record: serials only grow */
            if (covers(r, &record, at + i, offset)) return damaged(r, offset, record.serial);
            end = max_u64(end, min_u64(at + i + length, size));
        }
        at += i;
    }
    *ret_end = end;
    return ERR_OK;
}

/* -- the whole log -- */

static enum err report_record(struct recovery *r, const struct log_record *record, uint64_t offset,
                              size_t size)
{
    struct wal *wal = r->wal;
    struct wal_found found = {
        .entry = {.index = record->index, .term = record->term, .bytes = record->bytes},
        .place = {.sequence = r->segment.sequence,
                  .offset = (uint32_t)offset,
                  .size = (uint32_t)size},
        .reset = record->kind == RECORD_RESET,
    };
    if (!found.reset) {
        if (record->index == 0 || (wal->next_index > 0 && record->index > wal->next_index))
            return note_fail(r->note, ERR_CORRUPT,
                             "%s: offset %" PRIu64 ": index %" PRIu64 " where %" PRIu64 " is due",
                             r->path, offset, record->index, wal->next_index);
        found.entry.kind = (enum entry_kind)record->kind;
    }
    wal->next_index = record->index + 1;
    return r->each ? r->each(r->context, &found) : ERR_OK;
}

/* Reads one segment to its end. *ret_next is the segment that its last record names, or 0. */
static enum err read_segment(struct recovery *r, uint64_t *ret_end, uint64_t *ret_next)
{
    struct log_record record = {0};
    uint64_t offset = SEGMENT_HEAD, next = 0;
    while (next == 0) {
        size_t size;
        enum err err = record_at(r, offset, &record, &size);
        if (err) return err;
        if (size == 0) break;
        /* The record is left over from earlier use of the file, or damaged. */
        if (r->expected > 0 && record.serial != r->expected) break;
        if (record.synced > r->covered || r->expected == 0) {
            r->covered = record.synced;
            if (record.synced + 1 == record.serial || r->expected == 0) {
                r->uncovered.used = r->wal->used_count - 1;
                r->uncovered.offset = offset;
            }
        }
        r->expected = record.serial + 1;
        r->last_is_seal = record.kind == RECORD_SEAL && record.synced + 1 == record.serial;
        if (record.kind == RECORD_SEAL)
            next = record.index;
        else if ((err = report_record(r, &record, offset, size)))
            return err;
        r->report->records++;
        r->report->bytes += size;
        offset += size;
    }
    *ret_end = offset;
    *ret_next = next;
    return ERR_OK;
}

/* Only spares may follow the current segment. A later segment with a record was in use, so the
 * record that named this segment is damaged. `muster check` reads whole spares; a start reads the
 * first record of each spare. */
static enum err take_spares(struct recovery *r, size_t from, uint64_t stop_offset)
{
    struct wal *wal = r->wal;
    for (size_t i = from; i < r->count; i++) {
        struct log_record record;
        size_t size;
        struct str bytes;
        enum err err = segment_enter(r, sequence_at(r, i));
        if (!err) err = wal_recover_check(r, SEGMENT_HEAD, RECORD_HEAD, false, &bytes);
        if (err) return err;
        bool in_use = record_read_head(bytes, r->segment.salt, &record, &size) == ERR_OK;
        if (!in_use && wal->read_only) {
            uint64_t expected = r->expected, end;
            r->expected = 1; /* so that judge_tail counts every record */
            err = judge_tail(r, SEGMENT_HEAD, &end);
            r->expected = expected;
            if (err && err != ERR_CORRUPT) return err;
            in_use = err || end > SEGMENT_HEAD;
        }
        if (in_use)
            return note_fail(r->note, ERR_CORRUPT,
                             "%s/%016" PRIx64 ".seg: offset %" PRIu64
                             ": damaged: the log goes on in %s",
                             wal->dir, wal_in_use(wal)->sequence, stop_offset, r->path);
        if (wal->spare_count == WAL_SPARES_MAX)
            return note_fail(r->note, ERR_CORRUPT, "%s: more than %d unused segments", r->path,
                             WAL_SPARES_MAX);
        wal->spares[wal->spare_count++] = r->segment;
    }
    return ERR_OK;
}

/* Writes the records from `from` to `to` again (0: to the seal that ends the segment). Each record
 * is checked first, because bytes of a bad read must not overwrite valid bytes. */
static enum err rewrite(struct recovery *r, const struct wal_segment *segment, struct fs_file *file,
                        uint64_t from, uint64_t to)
{
    struct wal *wal = r->wal;
    struct buf run; /* checked bytes not written yet, up to `offset` */
    bool ended = false;
    uint64_t offset = from;
    enum err err = segment_enter(r, segment->sequence);
    if (err) return err;
    buf_init(&run, READ_STEP + WINDOW_MAX);
    while (!err && !ended && (to == 0 || offset < to)) {
        struct log_record record;
        size_t size;
        err = record_at(r, offset, &record, &size);
        if (!err && size == 0) err = ERR_IO; /* the record was readable before */
        if (!err) err = buf_append(&run, str_of(record.bytes.at - RECORD_HEAD, size));
        if (err) break;
        offset += size;
        ended = record.kind == RECORD_SEAL && record.index != 0;
        if (run.len < READ_STEP && !ended && (to == 0 || offset < to)) continue;
        err = fs_write_at(wal->fs, file, offset - run.len, buf_peek(&run));
        buf_clear(&run);
    }
    buf_deinit(&run);
    if (!err) err = fs_sync(wal->fs, file);
    if (err)
        note_set(r->note, "make %s/%016" PRIx64 ".seg durable at %" PRIu64 ": %s", wal->dir,
                 segment->sequence, offset, err_text(err));
    return err;
}

/* Cuts the torn tail and makes the records before it durable. */
static enum err wal_recover_settle(struct recovery *r, uint64_t end, uint64_t torn_end)
{
    struct wal *wal = r->wal;
    enum err err = wal_open_segment(wal, wal_in_use(wal), FS_READ | FS_WRITE, &wal->file, r->note);
    if (err) return err;
    if (torn_end > end) {
        err = fs_allocate_zeroed(wal->fs, wal->file, end, torn_end - end);
        if (err)
            return note_fail(r->note, err, "cut %s/%016" PRIx64 ".seg at %" PRIu64 ": %s", wal->dir,
                             wal_in_use(wal)->sequence, end, err_text(err));
    }
    for (size_t i = r->uncovered.used; i + 1 < wal->used_count && !err; i++) {
        struct fs_file *file;
        uint64_t from = i == r->uncovered.used ? r->uncovered.offset : SEGMENT_HEAD;
        err = wal_open_segment(wal, &wal->used[i], FS_READ | FS_WRITE, &file, r->note);
        if (err) return err;
        err = rewrite(r, &wal->used[i], file, from, 0);
        fs_close(wal->fs, file);
    }
    if (err) return err;
    bool here = r->uncovered.used == wal->used_count - 1;
    return rewrite(r, wal_in_use(wal), wal->file, here ? r->uncovered.offset : SEGMENT_HEAD, end);
}

static enum err judge_durable(struct str bytes, void *context)
{
    struct recovery *r = context;
    struct log_record record;
    size_t size;
    enum err err = record_read(bytes, r->wal->replica_id, &record, &size);
    if (!err) r->wal->published = record.serial;
    return err ? ERR_CORRUPT : ERR_OK;
}

/* Refuses a log that ends at `end`, before the record that log/DURABLE names. Logs of earlier
 * releases have no such file. */
static enum err check_durable(struct recovery *r, uint64_t end)
{
    const struct wal *wal = r->wal;
    char path[FS_PATH_CAP];
    enum err err = fs_path(wal->dir, WAL_DURABLE, path, r->note);
    if (!err) err = fs_read_judged(wal->fs, path, RECORD_HEAD, judge_durable, r);
    if (err && err != ERR_NOT_FOUND) return fs_noted(err, "read", path, r->note);
    if (r->expected > wal->published || err) return ERR_OK;
    return note_fail(r->note, ERR_CORRUPT,
                     "%s/%016" PRIx64 ".seg: offset %" PRIu64 ": the log ends here, but %s names "
                     "record %" PRIu64 ": " WAL_LOST,
                     wal->dir, wal_in_use(wal)->sequence, end, path, wal->published);
}

static enum err begin_empty(struct recovery *r, bool create)
{
    struct wal *wal = r->wal;
    if (!create)
        return note_fail(r->note, ERR_CORRUPT, "%s: holds no segment: " WAL_LOST, wal->dir);
    if (wal->read_only) return ERR_OK;
    enum err err = wal_ensure_spare(wal, r->note);
    if (!err && (err = wal_use(wal, &wal->spares[0])))
        note_set(r->note, "begin %s: %s", wal->dir, err_text(err));
    if (err) return err;
    wal->spare_count = 0;
    wal->offset = SEGMENT_HEAD;
    return wal_open_segment(wal, wal_in_use(wal), FS_READ | FS_WRITE, &wal->file, r->note);
}

static enum err read_all(struct recovery *r)
{
    struct wal *wal = r->wal;
    uint64_t end = 0, next = 0, torn_end = 0;
    size_t i = 0;
    do {
        if (i > 0 && (i == r->count || sequence_at(r, i) != next))
            return note_fail(r->note, ERR_CORRUPT,
                             "%s/%016" PRIx64 ".seg: is missing; %s goes on there", wal->dir, next,
                             r->path);
        enum err err = segment_enter(r, sequence_at(r, i));
        if (err) return err;
        if ((err = wal_use(wal, &r->segment)))
            return note_fail(r->note, err, "read %s: %s", wal->dir, err_text(err));
        err = read_segment(r, &end, &next);
        if (err) return err;
        i++;
    } while (next != 0);

    enum err err = judge_tail(r, end, &torn_end);
    if (err) return err;
    r->report->segments = wal->used_count;
    r->report->torn_bytes = torn_end - end;
    r->report->torn_segment = wal_in_use(wal)->sequence;
    r->report->torn_offset = end;
    err = take_spares(r, i, end);
    if (!err) err = check_durable(r, end);
    if (err) return err;
    wal->last_sequence = sequence_at(r, r->count - 1);
    wal->serial = wal->synced = r->expected > 0 ? r->expected - 1 : 0;
    wal->offset = end;
    wal->sealed = r->last_is_seal;
    if (wal->read_only) return ERR_OK;
    err = wal_recover_settle(r, end, torn_end);
    return err ? err : wal_publish(wal, r->note);
}

enum err wal_recover(struct wal *wal, bool create, wal_found_fn *each, void *context,
                     struct wal_report *ret_report, struct note *note)
{
    struct recovery r = {
        .wal = wal, .each = each, .context = context, .report = ret_report, .note = note};
    r.uncovered.offset = SEGMENT_HEAD;
    buf_init(&r.names, SIZE_MAX / 4);
    enum err err = ERR_OK;
    if (!wal->read_only) err = fs_noted(fs_sweep_temps(wal->fs, wal->dir), "sweep", wal->dir, note);
    /* A visible file name may not be durable, because its writer may have died before the sync. */
    if (!err && !wal->read_only)
        err = fs_noted(fs_sync_dir(wal->fs, wal->dir), "sync", wal->dir, note);
    if (!err) err = list_segments(&r);
    if (!err) err = r.count > 0 ? read_all(&r) : begin_empty(&r, create);
    segment_leave(&r);
    free(r.window);
    buf_deinit(&r.names);
    return err;
}
