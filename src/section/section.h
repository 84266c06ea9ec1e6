/* SPDX-License-Identifier: Apache-2.0 */
/* The frame of a state machine's section of a snapshot: written from the view of one moment while
 * commands go on, and read back in any portions.
 *
 *     store, member   head record, ..., records of rows, record of the hash
 *     fleet           a line of JSON, the answers to recent requests
 *     roster          one run of bytes
 *
 * A record is its kind (1 byte), the length of its content (4, little-endian) and the content.
 *
 * Rows: a state keeps a `struct section`, and each row that a snapshot contains a `struct
 * section_row`. Rows that the open view has not written yet come first on the list of their kind. A
 * row that changes or goes before its turn is copied as it was. So a view begins and ends at once,
 * a slice costs what it writes, and a command what it changes. Rows of a kind come in any order. */
#ifndef SECTION_SECTION_H
#define SECTION_SECTION_H
#include "base/list.h"
#include "base/note.h"
#include "section/codec.h"

enum {
    SECTION_KINDS_MAX = 4,        /* of rows */
    SECTION_RECORD_MAX = 4 << 20, /* content of one record */
    SECTION_RECORD_HEAD = 5,
};

/* -- rows -- */
struct section_view;
struct section_row {
    struct list link;
    uint32_t stamp; /* of the last view that wrote it, or that it came after */
    uint8_t kind;   /* a place in section.kinds */
};
typedef void section_write_fn(const struct section_row *row, struct encoder *into);
struct section {
    const char *kinds; /* of records, by kind of row, in the order they are written; static */
    section_write_fn *write;
    struct list rows[SECTION_KINDS_MAX];
    struct section_view *view; /* one at a time; NULL: none is open */
    uint32_t stamp;            /* how many were ever opened */
};
void section_init(struct section *section, const char *kinds, section_write_fn *write);
/* The state goes: the reader of an open view gets ERR_CLOSED. Before the rows are freed. */
void section_close(struct section *section);
void section_row_born(struct section *section, struct section_row *row, unsigned kind);
/* Before the row changes or goes. Without memory the open view fails, never the command. */
void section_row_keep(struct section *section, struct section_row *row);
static inline void section_row_gone(struct section_row *row)
{
    list_remove(&row->link);
}

/* -- a view: parts in order; made by the functions below, then section_view_ready() -- */
struct section_part {
    /* Appends about `budget` bytes, at least one unless done. */
    enum err (*next)(void *opaque, size_t budget, struct buf *into, bool *ret_done);
    void (*end)(void *opaque); /* with the view, or earlier; may be NULL */
    void *opaque;
};
/* section: of the rows; NULL: there are none. ERR_FULL: a view is open. ERR_NOMEM. */
enum err section_view_open(struct section *section, struct section_view **ret_view);
/* For bytes that come next and are fixed now; valid until a part is added. */
struct encoder *section_view_encoder(struct section_view *view);
void section_view_add(struct section_view *view, struct section_part own_part);
void section_view_rows(struct section_view *view); /* a part for each kind */
/* The last record: what section_reader has in `hash`. */
void section_view_hash(struct section_view *view, char kind, uint64_t hash);
/* What went wrong on the way, `err` or in the parts; then the view is gone. */
enum err section_view_ready(struct section_view *own_view, enum err err, void **ret_view);
/* As the log's snapshot_next and snapshot_end want them; of a struct section_view. A failure is
 * final. */
enum err section_view_next(void *view, size_t budget, struct buf *into, bool *ret_done);
void section_view_close(void *view); /* NULL is fine */

/* -- records: of a row or a head -- */
size_t section_record_begin(struct encoder *out, char kind);
void section_record_end(struct encoder *out, size_t start);

/* -- reading -- */
/* Takes whole records from the front of `bytes` and says how many bytes that was. */
typedef enum err section_take_fn(void *owner, struct str bytes, size_t *ret_taken,
                                 struct note *note);
/* Bytes in any portions. `rest` holds what was not taken; its ceiling must be above the largest
 * one. What `take` answers, ERR_NOMEM, ERR_FULL. */
enum err section_feed(struct buf *rest, struct str bytes, section_take_fn *take, void *owner,
                      struct note *note);

/* A head record first and once, the hash's last, the others in the order of their kinds. */
typedef enum err section_record_fn(void *owner, char kind, struct decoder *content);
struct section_reader {
    const char *name,
        *order; /* of the machine; kinds of records, the first and the last as above */
    section_record_fn *record;
    void *owner;
    struct buf rest; /* the record that is not whole yet */
    uint64_t at;     /* bytes read so far */
    uint64_t hash;   /* of the last record */
    char kind;
    bool ended;
};
void section_read_begin(struct section_reader *reader, const char *name, const char *order,
                        section_record_fn *record, void *owner);
void section_read_close(struct section_reader *reader);
/* ERR_CORRUPT, what `record` answers and ERR_NOMEM, with a note that says at which byte; final. */
enum err section_read(struct section_reader *reader, struct str bytes, struct note *note);
bool section_read_any(const struct section_reader *reader); /* a byte ever came */
/* After the last byte. ERR_CORRUPT: the last record did not come whole. */
enum err section_read_end(const struct section_reader *reader);
/* Notes what went wrong, and where. Returns err. */
enum err section_read_failed(const struct section_reader *reader, enum err err, struct note *note);
#endif
