/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a section of records, cut where the first byte says and not at all: both are refused
 * at the same place or read to the same records, in order. */
#include <stdlib.h>
#include <string.h>

#include "section/section.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) abort();
}

struct seen {
    uint64_t hash, records;
    char kind;
};
static const char order[] = "HABZ";

/* The first byte of a content says whether the machine refuses it. */
static enum err record(void *owner, char kind, struct decoder *in)
{
    struct seen *seen = owner;

    must(strchr(order, kind) >= strchr(order, seen->kind) && (kind == 'H') == (seen->records == 0));
    seen->kind = kind;
    seen->records++;
    seen->hash = str_hash(in->left, seen->hash);
    return decode_u8(in) == 'n' ? ERR_VERSION : ERR_OK;
}

static enum err read_all(struct str bytes, size_t cut, struct seen *seen, uint64_t *ret_at)
{
    struct section_reader reader;
    struct note note = {""};
    enum err err = ERR_OK;

    *seen = (struct seen){.kind = 'H'};
    section_read_begin(&reader, "fuzz", order, record, seen);
    for (; !err && bytes.len > 0; bytes = str_tail(bytes, cut))
        err = section_read(&reader, str_of(bytes.at, min_size(cut, bytes.len)), &note);
    must((err != ERR_OK) == (note.text[0] != '\0'));
    if (!err) err = section_read_end(&reader);
    if (!err) seen->hash += reader.hash;
    *ret_at = reader.at;
    section_read_close(&reader);
    return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct seen whole, cut;
    uint64_t at, cut_at;

    if (size == 0) return 0;
    must(read_all(str_of(data + 1, size - 1), size, &whole, &at) ==
         read_all(str_of(data + 1, size - 1), (size_t)data[0] + 1, &cut, &cut_at));
    must(at == cut_at && whole.records == cut.records && whole.hash == cut.hash);
    return 0;
}
