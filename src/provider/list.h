/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the answer to List as it arrives.
 *
 * One MachineList may have hundreds of megabytes, so it is never stored whole. Its bytes come in
 * pieces of any size, and each machine is delivered as soon as it is complete. Memory is bounded by
 * the largest record. No I/O and no clock. Runs on the thread that merges machines, not on the
 * thread that receives bytes.
 *
 * A record that cannot be read, or has more than PROVIDER_MACHINE_MAX bytes, is refused alone, and
 * the List continues. If the id of a refused record cannot be read either, the List is not `whole`,
 * because any machine missing from the List may be that record. Delivered machines have an id and
 * were readable; machine_check() checks the rest (machine_wire.h). */
#ifndef PROVIDER_LIST_H
#define PROVIDER_LIST_H
#include "provider/machine_wire.h"

enum {
    PROVIDER_MACHINE_MAX = 1 << 20,  /* bytes of one record: twice the size of 256 longest labels */
    PROVIDER_REMOVED_MAX = 64 << 20, /* bytes of a List except machines; mostly tombstones */
};

struct provider_list_events {
    /* Receives each machine. An error ends the reading; provider_list_feed() returns the error. */
    enum err (*on_machine)(void *context, const struct machine_record *record);
    void (*on_refused)(void *context, struct str id, const char *why); /* `id` may be empty */
    void (*on_removed)(void *context, struct str id);                  /* after all machines */
};

struct provider_list;
/* Opens a list, which borrows the reader until it is closed. ERR_NOMEM. */
enum err provider_list_open(struct machine_reader *reader,
                            const struct provider_list_events *events, void *context,
                            struct provider_list **ret_list);
void provider_list_close(struct provider_list *list); /* NULL is allowed */
/* Reads more bytes. ERR_PARSE (not a MachineList), ERR_TOO_LARGE, ERR_NOMEM, or the error of
 * on_machine. Every call after an error returns the same error. */
enum err provider_list_feed(struct provider_list *list, struct str bytes, struct note *note);

struct provider_list_end {
    uint64_t machines, refused, removed;
    bool whole; /* every record had an id: a machine missing from a full List is gone */
    bool more;  /* the List has more pages, and next_page requests the next one */
    struct str next_page;
    /* The since_revision of the next List. If empty, the next List must request everything, because
     * the provider sent no revision or does not report removed machines. */
    struct str cursor;
    struct str revision; /* the revision as received */
    bool tombstones;     /* the provider reports removed machines */
};
/* Ends the reading when all bytes were fed. The texts belong to the list. ERR_PARSE if the
 * MachineList is cut short, or if `more` is set without next_page. */
enum err provider_list_finish(struct provider_list *list, struct provider_list_end *ret_end,
                              struct note *note);
#endif
