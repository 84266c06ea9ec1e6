/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl doctor. doctor.c judges the fleet as a whole, doctor_replica.c one replica and its
 * machine. Both change nothing. */
#ifndef CTL_DOCTOR_H
#define CTL_DOCTOR_H
#include "ctl/ctl.h"
#include "ctl/survey.h"

enum finding { FINDING_OK, FINDING_WARN, FINDING_FAIL };
struct doctor_page { /* one page of a replica; free `text` with buf_deinit() */
    long status;
    wall_time asked, answered; /* this host's clock before the request and after the answer */
    wall_time date;            /* the server's clock in seconds; ms 0: unknown */
    struct buf text;
    enum err err; /* UNAVAILABLE, TIMEOUT, FULL or NOMEM */
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

ctl_fn doctor_act; /* doctor_act judges the fleet; the exit code is 1 if a finding is not ok */

/* Parts of doctor_act for an answered survey, called in this order. */
void doctor_begin(struct doctor *doctor, struct ctl *ctl);
void doctor_judge(struct doctor *doctor);
void doctor_end(struct doctor *doctor);

/* -- shared by doctor's files -- */

void doctor_fetch(const struct doctor *doctor, const char *address, const char *path,
                  struct doctor_page *ret_page);
/* Adds a finding: what was seen, and advice for people (NULL: none). */
void doctor_says(struct doctor *doctor, enum finding finding, const char *advice,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Checks one replica over HTTP: clock, readiness, disk, descriptors, certificate and version. */
void doctor_replica(struct doctor *doctor, const Muster__V1__Replica *replica);
/* Call after the last replica. Compares the replicas' versions, and this machine's clock with the
 * replicas' clocks. */
void doctor_compare_replicas(struct doctor *doctor);
void doctor_certificate(struct doctor *doctor, const char *whose, wall_time not_after);
void doctor_room(struct doctor *doctor, const char *where, uint64_t free_bytes);
#endif
