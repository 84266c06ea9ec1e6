/* SPDX-License-Identifier: Apache-2.0 */
/* Encoding of an entry's envelope; docs/formats/log.md has the bytes. Later versions may use the
 * zero bytes of the head, so a nonzero byte means another version. */
#include "log/envelope.h"

#include "base/bytes.h"
#include "log/log.h"

static_assert(REPLICA_ACTOR_MAX <= UINT8_MAX, "its length has one byte");
static_assert(REPLICA_REQUEST_ID_MAX <= UINT16_MAX, "its length has two");

enum { ZEROS_AT = 28 };

size_t envelope_size(const struct log_envelope *envelope)
{
    return ENVELOPE_HEAD + envelope->actor.len + envelope->request_id.len + envelope->command.len;
}

enum err envelope_append(const struct log_envelope *envelope, struct buf *into)
{
    size_t size = envelope_size(envelope);
    char *head, *at;
    enum err err;

    assert(envelope->actor.len <= REPLICA_ACTOR_MAX);
    assert(envelope->request_id.len <= REPLICA_REQUEST_ID_MAX);
    assert(envelope->command.len <= REPLICA_COMMAND_MAX);
    assert(envelope->version > 0 && envelope->level > 0);
    err = buf_reserve(into, size, &head);
    if (err) return err;
    memset(head, 0, ENVELOPE_HEAD);
    head[0] = ENVELOPE_FORMAT;
    head[1] = (char)(uint8_t)envelope->actor.len;
    store_le16(head + 2, (uint16_t)envelope->request_id.len);
    store_le32(head + 4, envelope->machine);
    store_le32(head + 8, envelope->version);
    store_le32(head + 12, envelope->level);
    store_le64(head + 16, envelope->advance_ns);
    store_le32(head + 24, (uint32_t)envelope->command.len);
    at = head + ENVELOPE_HEAD;
    str_put(&at, envelope->actor);
    str_put(&at, envelope->request_id);
    str_put(&at, envelope->command);
    buf_commit(into, size);
    return ERR_OK;
}

enum err envelope_parse(struct str bytes, struct log_envelope *ret_envelope, struct note *note)
{
    struct log_envelope got;
    size_t actor, request_id, command;

    if (bytes.len < ENVELOPE_HEAD)
        return note_fail(note, ERR_PARSE, "envelope of %zu bytes: shorter than its head",
                         bytes.len);
    if (bytes.at[0] != ENVELOPE_FORMAT)
        return note_fail(note, ERR_VERSION, "envelope format %u: this program speaks %u",
                         (unsigned)(uint8_t)bytes.at[0], (unsigned)ENVELOPE_FORMAT);
    for (size_t i = ZEROS_AT; i < ENVELOPE_HEAD; i++) {
        if (bytes.at[i] == 0) continue;
        return note_fail(note, ERR_VERSION, "envelope byte %zu: this program knows only zero there",
                         i);
    }
    actor = (uint8_t)bytes.at[1];
    request_id = load_le16(bytes.at + 2);
    command = load_le32(bytes.at + 24);
    if (actor > REPLICA_ACTOR_MAX || request_id > REPLICA_REQUEST_ID_MAX ||
        command > REPLICA_COMMAND_MAX)
        return note_fail(note, ERR_PARSE, "envelope: a part is longer than its limit");
    if (ENVELOPE_HEAD + actor + request_id + command != bytes.len)
        return note_fail(note, ERR_PARSE, "envelope of %zu bytes: its parts make %zu", bytes.len,
                         ENVELOPE_HEAD + actor + request_id + command);
    got.machine = load_le32(bytes.at + 4);
    got.version = load_le32(bytes.at + 8);
    got.level = load_le32(bytes.at + 12);
    got.advance_ns = load_le64(bytes.at + 16);
    if (got.version == 0 || got.level == 0)
        return note_fail(note, ERR_PARSE, "envelope: version and level begin at 1");
    got.actor = str_of(bytes.at + ENVELOPE_HEAD, actor);
    got.request_id = str_of(bytes.at + ENVELOPE_HEAD + actor, request_id);
    got.command = str_of(bytes.at + ENVELOPE_HEAD + actor + request_id, command);
    *ret_envelope = got;
    return ERR_OK;
}
