/* SPDX-License-Identifier: Apache-2.0 */
/* Inflates a request. The size limit is enforced while the result grows. */
#include <stdlib.h>
#define ZLIB_CONST /* zlib's input pointer is const */
#include <zlib.h>

#include "wire/grpc.h"

enum {
    GZIP_ONLY = 15 + 16, /* zlib's code for the largest window and a gzip header */
    STEP_FIRST = 4 << 10,
    STEP_MOST = 1 << 20,
};

static void *zip_alloc(void *, unsigned count, unsigned size)
{
    return calloc(count, size);
}

static void zip_free(void *, void *memory)
{
    free(memory);
}

/* At the limit, the output is one spare byte: if zlib writes this byte, the message is too
 * large. */
static enum err next_room(struct buf *into, size_t done, size_t max, char *spare, z_stream *zip)
{
    size_t step = min_size(min_size(max_size(done, STEP_FIRST), STEP_MOST), max - done);
    char *room = spare;
    enum err err = ERR_OK;

    if (step > 0) err = buf_reserve(into, step, &room);
    if (err) return err == ERR_FULL ? ERR_TOO_LARGE : err;
    zip->next_out = (Bytef *)room;
    zip->avail_out = step > 0 ? (uInt)step : 1;
    return ERR_OK;
}

static enum err inflate_all(z_stream *zip, size_t max, struct buf *into)
{
    size_t done = 0;

    for (;;) { /* ends: each round consumes input, fills output or stops */
        char spare;
        enum err err = next_room(into, done, max, &spare, zip);
        uInt before = zip->avail_out;
        size_t made;
        int code;

        if (err) return err;
        code = inflate(zip, Z_NO_FLUSH);
        made = before - zip->avail_out;
        if (made > max - done) return ERR_TOO_LARGE;
        buf_commit(into, made);
        done += made;
        if (code == Z_MEM_ERROR) return ERR_NOMEM;
        if (code == Z_STREAM_END) {
            if (zip->avail_in == 0) return ERR_OK;
            if (inflateReset(zip) != Z_OK) return ERR_PARSE; /* another gzip member follows */
        } else if (code != Z_OK) {
            return ERR_PARSE; /* damaged, or (Z_BUF_ERROR) truncated */
        }
    }
}

enum err grpc_gunzip(struct str compressed, size_t max, struct buf *into)
{
    z_stream zip = {.zalloc = zip_alloc, .zfree = zip_free};
    size_t before = into->len;
    enum err err;

    if (compressed.len > UINT32_MAX) return ERR_TOO_LARGE; /* longer than any gRPC message */
    zip.next_in = (const Bytef *)compressed.at;
    zip.avail_in = (uInt)compressed.len;
    if (inflateInit2(&zip, GZIP_ONLY) != Z_OK) return ERR_NOMEM;
    err = inflate_all(&zip, max, into);
    inflateEnd(&zip);
    if (err) into->len = before;
    return err;
}
