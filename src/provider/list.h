/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the answer to List as it arrives, in pieces of any size, and delivers each machine as soon
 * as its record is complete. The largest record bounds the memory. Pure. Runs on the thread that
 * merges machines.
 *
 * A record that cannot be read, or has more than PROVIDER_MACHINE_MAX bytes, is refused alone. If
 * even its id cannot be read, the List is not `whole`, because any missing machine may be that
 * record. The caller must check delivered machines with machine_check() (machine_wire.h). */
#ifndef PROVIDER_LIST_H
#define PROVIDER_LIST_H
#include "provider/machine_wire.h"

enum {
    PROVIDER_MACHINE_MAX = 1 << 20,  /* bytes of one record: twice the size of 256 longest labels */
    PROVIDER_REMOVED_MAX = 64 << 20, /* bytes of a List without its machine records */
};

struct provider_list_events {
    /* An error ends the reading, and provider_list_feed() returns it. */
    enum err (*on_machine)(void *context, const struct machine_record *record);
    void (*on_refused)(void *context, struct str id, const char *why); /* `id` may be empty */
    void (*on_removed)(void *context, struct str id);                  /* after all machines */
};

struct provider_list;
/* Borrows the reader until the list is closed. ERR_NOMEM. */
enum err provider_list_open(struct machine_reader *reader,
                            const struct provider_list_events *events, void *context,
                            struct provider_list **ret_list);
void provider_list_close(struct provider_list *list); /* NULL is allowed */
/* Reads more bytes. ERR_PARSE (not a MachineList), ERR_TOO_LARGE, ERR_NOMEM, or the error of
 * on_machine. After an error every call returns the same error. */
enum err provider_list_feed(struct provider_list *list, struct str bytes, struct note *note);

struct provider_list_end {
    uint64_t machines, refused, removed;
    bool whole; /* every record had an id: a machine missing from a full List is gone */
    bool more;  /* there is a next page: next_page */
    struct str next_page;
    /* The cursor of the next List. Empty: the next List must request everything, because the
     * provider sent no revision or does not report removed machines. */
    struct str cursor;
    struct str revision;
    bool tombstones; /* the provider reports removed machines */
};
/* Call when all bytes were fed. The texts belong to the list. ERR_PARSE: the MachineList is cut
 * short, or `more` is set without next_page. */
enum err provider_list_finish(struct provider_list *list, struct provider_list_end *ret_end,
                              struct note *note);
#endif
