/* SPDX-License-Identifier: Apache-2.0 */
/* The roster's table, encoding and state machine. The table has at most ROSTER_ENTRIES_MAX entries,
 * sorted by id. Runs on the event loop's thread, while a log entry is applied. */
#include "fleet/roster.h"

#include <stdlib.h>
#include <string.h>

#include "section/section.h"

enum {
    SNAPSHOT_FORMAT = 1,
    SNAPSHOT_FORMAT_TAILS = 2,
    PUT_WITH_TAIL = 3, /* in encoded commands only; decoded as ROSTER_PUT */
    SNAPSHOT_HEAD = 8,
    SNAPSHOT_MAX = SNAPSHOT_HEAD + ROSTER_ENTRIES_MAX * ROSTER_ENTRY_BYTES_MAX,
};
enum reply_code { REPLY_DONE, REPLY_FULL, REPLY_NOT_UNDERSTOOD };
static_assert(REPLICA_NAME_MAX <= UINT8_MAX && REPLICA_ADDRESS_MAX <= UINT8_MAX,
              "each length is one byte");

struct roster {
    struct roster_entry entries[ROSTER_ENTRIES_MAX]; /* in ascending order of ids */
    size_t count;
    uint64_t hash;      /* hash of all entries, independent of their order */
    struct buf pending; /* bytes of an incomplete snapshot being restored */
};

/* -- encoding -- */

static bool text_is_plain(const char *text, size_t max)
{
    size_t len = strnlen(text, max + 1);

    for (size_t i = 0; i < len; i++)
        if (text[i] <= ' ' || text[i] > '~') return false;
    return len <= max;
}

bool roster_entry_valid(const struct roster_entry *entry)
{
    return entry->id != 0 && entry->name[0] && text_is_plain(entry->name, REPLICA_NAME_MAX) &&
           text_is_plain(entry->grpc, REPLICA_ADDRESS_MAX) &&
           text_is_plain(entry->http, REPLICA_ADDRESS_MAX) &&
           text_is_plain(entry->etcd, REPLICA_ADDRESS_MAX);
}

bool roster_entry_equal(const struct roster_entry *a, const struct roster_entry *b)
{
    return a->id == b->id && strcmp(a->name, b->name) == 0 && strcmp(a->grpc, b->grpc) == 0 &&
           strcmp(a->http, b->http) == 0 && strcmp(a->etcd, b->etcd) == 0;
}

struct roster_entry roster_entry_at(const struct roster_entry *entry, uint32_t level)
{
    struct roster_entry known = *entry;

    if (level < ROSTER_MACHINE_VERSION) known.etcd[0] = '\0';
    return known;
}

uint32_t roster_command_version(const struct roster_command *command)
{
    return command->op == ROSTER_PUT && command->entry.etcd[0] ? ROSTER_MACHINE_VERSION
                                                               : ROSTER_FIRST_VERSION;
}

static void write_entry(const struct roster_entry *entry, struct encoder *out)
{
    const char *const texts[] = {entry->name, entry->grpc, entry->http};

    encode_u64(out, entry->id);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) encode_u8(out, (unsigned)strlen(texts[i]));
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) encode_bytes(out, texts[i], strlen(texts[i]));
}

static void write_tail(const struct roster_entry *entry, struct encoder *out)
{
    encode_u8(out, (unsigned)strlen(entry->etcd));
    encode_bytes(out, entry->etcd, strlen(entry->etcd));
}

/* A text that is cut, too long or contains a NUL makes the input bad. */
static void read_text(struct decoder *in, size_t len, char *to, size_t max)
{
    if (len > max || len > in->left.len || memchr(in->left.at, '\0', len)) in->good = false;
    decode_copy(in, to, len);
}

static bool read_entry(struct decoder *in, struct roster_entry *entry)
{
    size_t name, grpc, http;

    *entry = (struct roster_entry){.id = decode_u64(in)};
    name = decode_u8(in);
    grpc = decode_u8(in);
    http = decode_u8(in);
    read_text(in, name, entry->name, REPLICA_NAME_MAX);
    read_text(in, grpc, entry->grpc, REPLICA_ADDRESS_MAX);
    read_text(in, http, entry->http, REPLICA_ADDRESS_MAX);
    return in->good && roster_entry_valid(entry);
}

static bool read_tail(struct decoder *in, struct roster_entry *entry)
{
    size_t len = decode_u8(in);

    read_text(in, len, entry->etcd, REPLICA_ADDRESS_MAX);
    return in->good && roster_entry_valid(entry);
}

/* Without an etcd address, the hash equals that of older releases. */
static uint64_t entry_hash(const struct roster_entry *entry)
{
    uint64_t hash = str_hash(str_from(entry->name), entry->id);

    hash = str_hash(str_from(entry->grpc), hash);
    hash = str_hash(str_from(entry->http), hash);
    return entry->etcd[0] ? str_hash(str_from(entry->etcd), hash) : hash;
}

/* -- the table -- */

static size_t roster_place_of(const struct roster *roster, uint64_t id)
{
    size_t at = 0;
    while (at < roster->count && roster->entries[at].id < id) at++;
    return at;
}

static bool roster_is_at(const struct roster *roster, size_t at, uint64_t id)
{
    return at < roster->count && roster->entries[at].id == id;
}

static enum reply_code roster_put(struct roster *roster, const struct roster_entry *entry)
{
    size_t at = roster_place_of(roster, entry->id);

    if (roster_is_at(roster, at, entry->id)) {
        roster->hash -= entry_hash(&roster->entries[at]);
    } else {
        if (roster->count == ROSTER_ENTRIES_MAX) return REPLY_FULL;
        memmove(&roster->entries[at + 1], &roster->entries[at],
                (roster->count - at) * sizeof roster->entries[0]);
        roster->count++;
    }
    roster->entries[at] = *entry;
    roster->hash += entry_hash(entry);
    return REPLY_DONE;
}

static void roster_forget(struct roster *roster, uint64_t id)
{
    size_t at = roster_place_of(roster, id);

    if (!roster_is_at(roster, at, id)) return; /* the entry is already gone */
    roster->hash -= entry_hash(&roster->entries[at]);
    roster->count--;
    memmove(&roster->entries[at], &roster->entries[at + 1],
            (roster->count - at) * sizeof roster->entries[0]);
}

static void roster_clear(struct roster *roster)
{
    roster->count = 0;
    roster->hash = 0;
}

size_t roster_entries(const struct roster *roster, const struct roster_entry **ret_entries)
{
    *ret_entries = roster->entries;
    return roster->count;
}

const struct roster_entry *roster_find(const struct roster *roster, uint64_t id)
{
    size_t at = roster_place_of(roster, id);
    return roster_is_at(roster, at, id) ? &roster->entries[at] : NULL;
}

const char *roster_grpc(const struct roster *roster, uint64_t id)
{
    const struct roster_entry *entry = roster_find(roster, id);
    return entry ? entry->grpc : "";
}

/* -- commands -- */

enum err roster_encode(const struct roster_command *command, struct buf *into)
{
    const struct roster_entry *entry = &command->entry;
    struct encoder out = {into, ERR_OK};
    bool has_tail = command->op == ROSTER_PUT && entry->etcd[0];
    size_t before = into->len;

    if (command->op == ROSTER_FORGET ? entry->id == 0
                                     : command->op != ROSTER_PUT || !roster_entry_valid(entry))
        return ERR_INVALID;
    encode_u8(&out, has_tail ? PUT_WITH_TAIL : (unsigned)command->op);
    if (command->op == ROSTER_FORGET)
        encode_u64(&out, entry->id);
    else
        write_entry(entry, &out);
    if (has_tail) write_tail(entry, &out);
    if (out.err) into->len = before;
    return out.err;
}

enum err roster_decode(struct str bytes, struct roster_command *ret_command)
{
    struct roster_command command = {.op = ROSTER_PUT};
    struct roster_entry *entry = &command.entry;
    struct decoder in = {bytes, true};
    unsigned op = decode_u8(&in);
    bool good = false;

    if (op == ROSTER_FORGET) {
        command.op = ROSTER_FORGET;
        entry->id = decode_u64(&in);
        good = entry->id != 0;
    } else if (op == ROSTER_PUT || op == PUT_WITH_TAIL) {
        good = read_entry(&in, entry);
        if (op == PUT_WITH_TAIL) good = good && read_tail(&in, entry) && entry->etcd[0];
    }
    if (!good || !decode_done(&in)) return ERR_PARSE;
    *ret_command = command;
    return ERR_OK;
}

enum err roster_reply(struct str reply)
{
    if (reply.len != 1) return ERR_PARSE;
    switch (reply.at[0]) {
    case REPLY_DONE: return ERR_OK;
    case REPLY_FULL: return ERR_FULL;
    case REPLY_NOT_UNDERSTOOD: return ERR_INVALID;
    default: return ERR_PARSE;
    }
}

/* -- the state machine -- */

static enum err roster_apply(void *state, const struct machine_entry *entry, struct buf *reply,
                             struct note *)
{
    struct roster *roster = state;
    struct roster_command command;
    enum reply_code code = REPLY_DONE;

    if (roster_decode(entry->command, &command))
        code = REPLY_NOT_UNDERSTOOD;
    else if (command.op == ROSTER_PUT)
        code = roster_put(roster, &command.entry);
    else
        roster_forget(roster, command.entry.id);
    (void)buf_append_byte(reply, (char)code); /* one byte fits every limit */
    return ERR_OK;
}

static bool has_tails(const struct roster *roster)
{
    for (size_t i = 0; i < roster->count; i++)
        if (roster->entries[i].etcd[0]) return true;
    return false;
}

/* The whole snapshot is written in one piece: it has only a few kilobytes. */
static enum err roster_snapshot_begin(void *state, uint64_t, void **ret_view)
{
    const struct roster *roster = state;
    bool tails = has_tails(roster);
    struct section_view *view;
    struct encoder *out;
    enum err err = section_view_open(NULL, &view);

    if (err) return err;
    out = section_view_encoder(view);
    encode_u32(out, tails ? SNAPSHOT_FORMAT_TAILS : SNAPSHOT_FORMAT);
    encode_u32(out, (uint32_t)roster->count);
    for (size_t i = 0; i < roster->count; i++) {
        write_entry(&roster->entries[i], out);
        if (tails) write_tail(&roster->entries[i], out);
    }
    return section_view_ready(view, ERR_OK, ret_view);
}

static enum err roster_restore_begin(void *state, uint64_t, struct note *)
{
    struct roster *roster = state;

    roster_clear(roster);
    buf_clear(&roster->pending);
    return ERR_OK;
}

static enum err roster_restore_next(void *state, struct str bytes, struct note *note)
{
    struct roster *roster = state;
    enum err err = buf_append(&roster->pending, bytes);

    if (err == ERR_FULL)
        err = note_fail(note, ERR_CORRUPT, "roster: more than %d bytes", (int)SNAPSHOT_MAX);
    return err;
}

static enum err roster_corrupt(const struct roster *roster, struct str rest, struct note *note,
                               const char *what)
{
    return note_fail(note, ERR_CORRUPT, "roster: byte %zu: %s", roster->pending.len - rest.len,
                     what);
}

static enum err roster_restore_bytes(struct roster *roster, struct note *note)
{
    struct decoder in = {buf_peek(&roster->pending), true};
    struct roster_entry entry;
    uint64_t before = 0;
    uint32_t format, count;
    bool tails;

    if (in.left.len == 0) return ERR_OK; /* does not occur in snapshots */
    if (in.left.len < SNAPSHOT_HEAD) return roster_corrupt(roster, in.left, note, "cut short");
    format = decode_u32(&in);
    count = decode_u32(&in);
    tails = format == SNAPSHOT_FORMAT_TAILS;
    if (format != SNAPSHOT_FORMAT && !tails)
        return note_fail(note, ERR_VERSION, "roster: format %u is not known here", format);
    if (count > ROSTER_ENTRIES_MAX)
        return roster_corrupt(roster, in.left, note, "too many entries");
    for (uint32_t i = 0; i < count; i++) {
        struct str at = in.left;
        if (!read_entry(&in, &entry)) return roster_corrupt(roster, at, note, "no entry");
        if (tails && !read_tail(&in, &entry))
            return roster_corrupt(roster, at, note, "no address for etcd's clients");
        if (entry.id <= before) return roster_corrupt(roster, at, note, "out of order");
        before = entry.id;
        if (roster_put(roster, &entry)) return roster_corrupt(roster, at, note, "too many entries");
    }
    if (in.left.len > 0) return roster_corrupt(roster, in.left, note, "more than it says");
    if (tails && !has_tails(roster))
        return roster_corrupt(roster, in.left, note, "format 2, and nobody serves etcd's clients");
    return ERR_OK;
}

static enum err roster_restore_end(void *state, struct note *note)
{
    struct roster *roster = state;
    enum err err = roster_restore_bytes(roster, note);

    if (err) roster_clear(roster);
    buf_deinit(&roster->pending);
    buf_init(&roster->pending, SNAPSHOT_MAX);
    return err;
}

static uint64_t roster_hash(const void *state)
{
    return ((const struct roster *)state)->hash;
}

static uint64_t roster_size(const void *state)
{
    return ((const struct roster *)state)->count * sizeof(struct roster_entry);
}

static const struct machine_ops roster_ops = {
    .apply = roster_apply,
    .snapshot_begin = roster_snapshot_begin,
    .snapshot_next = section_view_next,
    .snapshot_end = section_view_close,
    .restore_begin = roster_restore_begin,
    .restore_next = roster_restore_next,
    .restore_end = roster_restore_end,
    .hash = roster_hash,
    .size = roster_size,
};

/* -- life -- */

enum err roster_open(struct roster **ret_roster)
{
    struct roster *roster = calloc(1, sizeof *roster);

    if (!roster) return ERR_NOMEM;
    buf_init(&roster->pending, SNAPSHOT_MAX);
    *ret_roster = roster;
    return ERR_OK;
}

void roster_close(struct roster *roster)
{
    if (!roster) return;
    buf_deinit(&roster->pending);
    free(roster);
}

struct state_machine roster_registration(struct roster *roster)
{
    return (struct state_machine){.id = ROSTER_MACHINE_ID,
                                  .name = "roster",
                                  .version = ROSTER_MACHINE_VERSION,
                                  .ops = &roster_ops,
                                  .state = roster};
}
