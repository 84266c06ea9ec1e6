/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl doctor, in two files: what the fleet says together (doctor.c), and what one replica's
 * pages say of the machine it runs on (doctor_replica.c). Both only judge; nobody mends. */
#ifndef MUSTERCTL_DOCTOR_H
#define MUSTERCTL_DOCTOR_H
#include "musterctl/ctl.h"
#include "musterctl/survey.h"

enum finding { FINDING_OK, FINDING_WARN, FINDING_FAIL };
struct doctor {
    struct ctl *ctl;
    struct survey survey;
    struct ndjson *json; /* NULL: lines for people */
    size_t found[3];
    enum err err;
    /* of the replicas that answered */
    char version[128]; /* of the first */
    const char *version_of;
    bool versions_differ;
    size_t clocks, clocks_ahead, clocks_behind;
};

/* One finding: what was seen, and for people what to do about it (NULL: nothing). */
void doctor_says(struct doctor *doctor, enum finding finding, const char *advice,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Clock, readiness, disk, descriptors, certificate, version of one replica, over its HTTP address. */
void doctor_look_at_replica(struct doctor *doctor, const Muster__V1__Replica *replica);
/* After the last replica: do they run the same, does this machine's own clock differ from all? */
void doctor_compare_replicas(struct doctor *doctor);
/* How long a certificate lasts still. */
void doctor_judge_certificate(struct doctor *doctor, const char *whose, wall_time not_after);
/* Free room of a file system. */
void doctor_judge_room(struct doctor *doctor, const char *where, uint64_t free_bytes);
#endif
