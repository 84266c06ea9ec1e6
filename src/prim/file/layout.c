/* SPDX-License-Identifier: Apache-2.0 */
#include "prim/file/layout.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>

#include "base/hex.h"
#include "prim/answer.h"
#include "prim/file/hooks.h"

static const char hex[] = "0123456789abcdef";

static bool is_plain(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

static void hashed(struct str raw, char *name)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    if (file_hooks.same_hash) {
        memset(digest, 0xab, sizeof digest);
    } else {
        int done = EVP_Digest(raw.at, raw.len, digest, NULL, EVP_sha256(), NULL);
        assert(done == 1); /* it fails for lack of the algorithm only */
    }
    name[0] = '~';
    for (size_t i = 0; i < 20; i++) {
        name[1 + 2 * i] = hex[digest[i] >> 4];
        name[2 + 2 * i] = hex[digest[i] & 15];
    }
    name[41] = '\0';
}

void layout_name(struct str raw, char name[LAYOUT_NAME_CAP])
{
    size_t len = 0;
    if (raw.len == 0) {
        memcpy(name, "~", 2);
        return;
    }
    for (size_t i = 0; i < raw.len; i++) {
        size_t need = is_plain(raw.at[i]) ? 1 : 3;
        if (len + need > LAYOUT_PLAIN_MAX) {
            hashed(raw, name);
            return;
        }
        if (need == 1) {
            name[len++] = raw.at[i];
        } else {
            name[len++] = '%';
            name[len++] = "0123456789ABCDEF"[(unsigned char)raw.at[i] >> 4];
            name[len++] = "0123456789ABCDEF"[raw.at[i] & 15];
        }
    }
    name[len] = '\0';
}

void layout_lease(const coord_id *id, char name[LAYOUT_LEASE_CAP])
{
    for (size_t i = 0; i < 16; i++) {
        name[2 * i] = hex[id->b[i] >> 4];
        name[2 * i + 1] = hex[id->b[i] & 15];
    }
    name[32] = '\0';
}

bool layout_lease_id(const char *name, coord_id *ret_id)
{
    coord_id id = {{0}};
    char again[LAYOUT_LEASE_CAP];
    if (strlen(name) != 32 || !hex_read_id(str_from(name), id.b)) return false;
    layout_lease(&id, again);
    assert(strcmp(again, name) == 0);
    *ret_id = id;
    return true;
}

void layout_temp(const struct layout_temp *temp, char name[LAYOUT_TEMP_CAP])
{
    int len = snprintf(name, LAYOUT_TEMP_CAP, "%02x%02x%02x%02x.%" PRIu32 ".%" PRIu64 ".%" PRIu64,
                       temp->boot[0], temp->boot[1], temp->boot[2], temp->boot[3], temp->pid,
                       temp->start_ticks, temp->number);
    assert(len > 0 && len < LAYOUT_TEMP_CAP);
}

bool layout_temp_parse(const char *name, struct layout_temp *ret_temp)
{
    struct layout_temp temp = {0};
    struct str rest = str_from(name), part;
    uint64_t pid;
    if (!str_split(&rest, '.', &part) || part.len != 8) return false;
    for (size_t i = 0; i < 8; i++) {
        int digit = hex_value_lower(part.at[i]);
        if (digit < 0) return false;
        temp.boot[i / 2] = (uint8_t)(temp.boot[i / 2] << 4 | digit);
    }
    if (!str_split(&rest, '.', &part) || str_to_u64(part, &pid) || pid > UINT32_MAX) return false;
    temp.pid = (uint32_t)pid;
    if (!str_split(&rest, '.', &part) || str_to_u64(part, &temp.start_ticks)) return false;
    if (!str_split(&rest, '.', &part) || str_to_u64(part, &temp.number)) return false;
    if (str_split(&rest, '.', &part)) return false;
    *ret_temp = temp;
    return true;
}
