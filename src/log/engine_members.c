/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes a configuration in libraft's format, which stays in the log permanently:
 *
 *     u8 format, 1 | u64 count | count times: u64 id, address, NUL, u8 role | zeros up to 8 bytes
 *
 * Little-endian; role 0: learner, 1: voter. libraft's decoder trusts its input, so
 * members_decode checks the bytes first. */
#include <string.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "log/engine.h"

enum { FORMAT = 1, HEAD = 9, ALIGN = 8 };

const struct member *members_find(const struct members *members, uint64_t id)
{
    for (size_t i = 0; i < members->count; i++)
        if (members->at[i].id == id) return &members->at[i];
    return NULL;
}

size_t members_voters(const struct members *members)
{
    size_t voters = 0;
    for (size_t i = 0; i < members->count; i++)
        if (members->at[i].role == MEMBER_VOTER) voters++;
    return voters;
}

enum err members_encode(const struct members *members, struct buf *into)
{
    size_t before = into->len;
    char head[HEAD] = {FORMAT}, id[8], zeros[ALIGN] = {0};
    enum err err;

    assert(members->count && members->count <= REPLICA_MEMBERS_MAX);
    store_le64(head + 1, members->count);
    err = buf_append(into, str_of(head, sizeof head));
    for (size_t i = 0; !err && i < members->count; i++) {
        const struct member *member = &members->at[i];
        assert(member->id);
        store_le64(id, member->id);
        err = buf_append(into, str_of(id, sizeof id));
        if (!err) err = buf_append(into, str_of(member->address, strlen(member->address) + 1));
        if (!err) err = buf_append_byte(into, member->role == MEMBER_VOTER ? 1 : 0);
    }
    if (!err) err = buf_append(into, str_of(zeros, -(into->len - before) % ALIGN));
    if (err) into->len = before;
    return err;
}

static enum err take_member(struct str *rest, struct members *members)
{
    struct member *member = &members->at[members->count];
    const char *end;
    size_t len;
    unsigned char role;

    if (rest->len < 8) return ERR_PARSE;
    member->id = load_le64(rest->at);
    *rest = str_tail(*rest, 8);
    end = memchr(rest->at, 0, rest->len);
    if (!end) return ERR_PARSE;
    len = (size_t)(end - rest->at);
    if (len > REPLICA_ADDRESS_MAX || rest->len < len + 2) return ERR_PARSE;
    memcpy(member->address, rest->at, len + 1);
    role = (unsigned char)rest->at[len + 1];
    *rest = str_tail(*rest, len + 2);
    if (role > 1 || !member->id || members_find(members, member->id)) return ERR_PARSE;
    for (size_t i = 0; i < members->count; i++)
        if (strcmp(members->at[i].address, member->address) == 0) return ERR_PARSE;
    member->role = role ? MEMBER_VOTER : MEMBER_LEARNER;
    members->count++;
    return ERR_OK;
}

enum err members_decode(struct str bytes, struct members *ret_members)
{
    struct members members;
    uint64_t count;

    if (bytes.len < HEAD || bytes.len % ALIGN || bytes.at[0] != FORMAT) return ERR_PARSE;
    count = load_le64(bytes.at + 1);
    if (count == 0) return ERR_PARSE;
    if (count > REPLICA_MEMBERS_MAX) return ERR_FULL;
    bytes = str_tail(bytes, HEAD);
    for (members.count = 0; members.count < count;) {
        enum err err = take_member(&bytes, &members);
        if (err) return err;
    }
    if (bytes.len >= ALIGN) return ERR_PARSE;
    for (size_t i = 0; i < bytes.len; i++)
        if (bytes.at[i]) return ERR_PARSE;
    if (members_voters(&members) == 0) return ERR_PARSE;
    memcpy(ret_members->at, members.at, members.count * sizeof members.at[0]);
    ret_members->count = members.count;
    return ERR_OK;
}
