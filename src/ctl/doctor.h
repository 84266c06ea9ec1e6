/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl doctor, in two files: what the fleet says together (doctor.c), and what one replica's
 * pages say of the machine it runs on (doctor_replica.c). Both only judge and change nothing. */
#ifndef CTL_DOCTOR_H
#define CTL_DOCTOR_H
#include "ctl/ctl.h"
#include "ctl/survey.h"

enum finding { FINDING_OK, FINDING_WARN, FINDING_FAIL };
struct doctor_page { /* one page of a replica; to be ended with buf_deinit(&page.text) */
    long status;
    wall_time asked, answered; /* by this machine's clock: before the request, after the answer */
    wall_time date;  /* by the server's clock, in whole seconds; ms 0: not in the answer */
    struct buf text; /* the body */
    enum err err;    /* UNAVAILABLE (also: not trusted), TIMEOUT, FULL, NOMEM */
    struct note why;
};
struct doctor {
    struct ctl *ctl;
    struct ctl_survey survey;
    wall_time now;
    /* Asks `address` for a page. */
    void (*fetch)(const struct doctor *doctor, const char *address, const char *path,
                  struct doctor_page *ret_page);
    struct ndjson *json;
    size_t found[3];
    /* of the replicas that answered */
    char version[128]; /* of the first */
    const char *version_of;
    bool versions_differ;
    size_t clocks, clocks_ahead, clocks_behind;
};

ctl_fn doctor_act; /* surveys the fleet, judges it and this machine; the exit code is the worst */

/* Its parts, for a survey that was answered: the findings of doctor_judge come in between. */
void doctor_begin(struct doctor *doctor, struct ctl *ctl);
void doctor_judge(struct doctor *doctor);
void doctor_end(struct doctor *doctor);

/* -- for its other file -- */

void doctor_fetch(const struct doctor *doctor, const char *address, const char *path,
                  struct doctor_page *ret_page);
/* One finding: what was seen, and for people what to do about it (NULL: nothing). */
void doctor_says(struct doctor *doctor, enum finding finding, const char *advice,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Clock, readiness, disk, descriptors, certificate, version of one replica, over its HTTP address. */
void doctor_replica(struct doctor *doctor, const Muster__V1__Replica *replica);
/* After the last replica: do they run the same, does this machine's own clock differ from all? */
void doctor_compare_replicas(struct doctor *doctor);
/* The rest of a certificate's life. */
void doctor_certificate(struct doctor *doctor, const char *whose, wall_time not_after);
/* Free room of a file system. */
void doctor_room(struct doctor *doctor, const char *where, uint64_t free_bytes);
#endif
