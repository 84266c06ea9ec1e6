/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the state of a provider: a whole file, or, after a first byte of 0, the changes of a
 * batch, which a fuzzer would not reach behind their checksum.
 *
 * Invariants: it is refused with a note, or there is a book that can be listed. Its List has the
 * announced length, and a new journal restores the same book. */
#include <stdlib.h>
#include <string.h>

#include "provider/host/book.h"
#include "provider/host/journal.h"
#include "sim/sim_fs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) abort();
}

static enum err hear(void *context, struct str payload, struct note *note)
{
    return book_replay(context, payload, note);
}

static struct book *open_book(void)
{
    static const struct book_options options = {
        .seed = 1, .identity = 2, .boot = 3, .provider = "fuzz", .keeps_blobs = true};
    struct book *book = NULL;

    must(book_open(&options, &book) == ERR_OK);
    return book;
}

/* The length of a full List; it must be the announced length. */
static size_t list_len(struct book *book)
{
    struct book_walk *walk = NULL;
    struct note note;
    struct buf bytes;
    size_t before, len;

    buf_init(&bytes, 64 << 20);
    must(book_walk_open(book, &(struct book_filter){0}, &walk, &note) == ERR_OK);
    do {
        before = bytes.len;
        must(book_walk_next(walk, 4096, &bytes) == ERR_OK);
    } while (bytes.len > before);
    must(bytes.len == book_walk_total(walk));
    len = bytes.len;
    book_walk_close(walk);
    buf_deinit(&bytes);
    return len;
}

static enum err nobody(void *context, const struct backend_machine *machine,
                       struct operation_ticket operation)
{
    (void)context;
    must(machine->state != MACHINE_SPECULATIVE);
    must((operation.number > 0) ==
         (machine->state == MACHINE_CREATING || machine->state == MACHINE_CONFIGURING ||
          machine->state == MACHINE_DRAINING || machine->state == MACHINE_DELETING));
    return ERR_OK;
}

static void check_book(struct book *book)
{
    struct book *again = open_book();
    struct note note = {.text = ""};
    struct buf next;
    bool more = true;

    buf_init(&next, 64 << 20);
    (void)book_each(book, nobody, NULL); /* an offer may be nonsense: then it says so */
    book_snapshot_begin(book);
    while (more) must(book_snapshot_next(book, 256, &next, &more) == ERR_OK);
    must(book_replay(again, buf_peek(&next), &note) == ERR_OK);
    must(book_loaded(again) == ERR_OK);
    must(list_len(again) == list_len(book));
    must(book_stats(again).revision == book_stats(book).revision);
    must(book_stats(again).shards == book_stats(book).shards);
    must(book_stats(again).strangers == book_stats(book).strangers);
    must(book_stats(again).blob_bytes == book_stats(book).blob_bytes);
    buf_deinit(&next);
    book_close(again);
}

static enum err open_file(struct str bytes, struct book *book, struct note *note)
{
    const struct sim_fs_options plain = {0};
    struct journal_report report;
    struct journal *journal = NULL;
    struct sim_fs *disk = NULL;
    struct prng prng;
    enum err err;

    prng_seed(&prng, 1);
    must(sim_fs_open(&plain, &prng, &disk) == ERR_OK);
    must(fs_publish(sim_fs_fs(disk), "/state", bytes, 0600, 1) == ERR_OK);
    err = journal_open(&(struct journal_options){.fs = sim_fs_fs(disk), .path = "/state"}, hear,
                       book, &journal, &report, note);
    journal_close(journal);
    sim_fs_close(disk);
    return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct book *book = open_book();
    struct note note = {.text = ""};
    enum err err;

    if (size > 0 && data[0] == 0)
        err = book_replay(book, str_of((const char *)data + 1, size - 1), &note);
    else
        err = open_file(str_of((const char *)data, size), book, &note);
    must(!err || note.text[0]);
    if (!err) err = book_loaded(book);
    if (!err) check_book(book);
    book_close(book);
    return 0;
}
