/* SPDX-License-Identifier: Apache-2.0 */
/* An exported lease as bytes. Any process with these bytes holds the claim. There is no
 * deadline: the store is asked for the remaining time.
 *
 *   0   8   magic MSTLEAS1
 *   8   4   length of all
 *   12  2   number of keys, 1 .. 1,024
 *   14  2   length of owner
 *   16  16  store id
 *   32  16  lease id
 *   48  8   granted TTL in ms
 *   56  ..  owner; then for each key: token 8, create revision 8, slot 4, length 2, the key
 *   -4  4   CRC-32C of everything before
 *
 * Little endian. */
#ifndef PRIM_BLOB_H
#define PRIM_BLOB_H
#include "prim/backend.h"

enum { BLOB_HEADER = 56, BLOB_KEY_HEADER = 22, BLOB_MAX = 1024 * 1024 };

/* Returns the size. Writes the blob only if it fits into `cap`. */
size_t blob_encode(const coord_id *store_id, const struct prim_claim *claim, void *blob,
                   size_t cap);

struct blob {
    coord_id store_id;
    struct prim_claim claim; /* points into `memory` */
    void *memory;            /* the caller must free() it */
};
/* ERR_CORRUPT: no blob, damaged, or over a limit. Or ERR_NOMEM. */
enum err blob_decode(struct str bytes, struct blob *ret_blob);
#endif
