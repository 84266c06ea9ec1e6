/* SPDX-License-Identifier: Apache-2.0 */
/* Findings about a replica's machine, from its pages /readyz and /metrics, and from the HTTP Date
 * header of every answer. One thread. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/units.h"
#include "ctl/doctor.h"
#include "io/net.h"
#include "text/rfc3339.h"

enum {
    CLOCK_WARN_MS = 1000,
    CLOCK_FAIL_MS = 10000,
    DESCRIPTORS_FEW = 4096, /* each worker, watcher and shard needs a descriptor */
    MS_PER_DAY = 86400000,
    CERT_WARN_DAYS = 14,
    REASONS_CAP = 200,
};
static const uint64_t room_warn = (uint64_t)1 << 30;
static const uint64_t room_fail = (uint64_t)64 << 20;

/* -- metrics as text -- */

/* Returns the text after the metric's name. */
static bool metric_find(struct str text, const char *name, struct str *ret_rest)
{
    size_t len = strlen(name);
    struct str line;

    while (text.len > 0 && str_split(&text, '\n', &line)) {
        if (line.len <= len || memcmp(line.at, name, len) != 0) continue;
        if (line.at[len] != ' ' && line.at[len] != '{') continue;
        *ret_rest = str_tail(line, len);
        return true;
    }
    return false;
}

/* For metrics without labels. */
static bool metric_number(struct str text, const char *name, double *ret_number)
{
    struct str rest;
    char number[64];

    if (!metric_find(text, name, &rest)) return false;
    snprintf(number, sizeof number, "%.*s", (int)min_size(rest.len, sizeof number - 1), rest.at);
    *ret_number = strtod(number, NULL);
    return true;
}

/* -- each fact -- */

/* The server wrote its Date header, in whole seconds, between request and answer. So the difference
 * of the clocks is a range. A range without 0 is a finding. */
static void replica_clock(struct doctor *d, const char *name, const struct doctor_page *page)
{
    int64_t least = (int64_t)page->date.ms - (int64_t)page->answered.ms;
    int64_t most = (int64_t)page->date.ms + 1000 - (int64_t)page->asked.ms;
    int64_t off = least > 0 ? least : most < 0 ? most : 0;
    uint64_t size = (uint64_t)(off < 0 ? -off : off);
    char text[UNITS_TEXT_CAP];

    if (page->date.ms == 0) return;
    d->clocks++;
    units_duration_text(size, text);
    if (size < CLOCK_WARN_MS) {
        doctor_says(d, FINDING_OK, NULL, "%s: its clock agrees with this machine's", name);
        return;
    }
    if (off > 0)
        d->clocks_ahead++;
    else
        d->clocks_behind++;
    doctor_says(d, size < CLOCK_FAIL_MS ? FINDING_WARN : FINDING_FAIL,
                "synchronise the clocks (chrony, systemd-timesyncd); leases and certificates are "
                "judged by them",
                "%s: its clock is at least %s %s this machine's", name, text,
                off > 0 ? "ahead of" : "behind");
}

static void replica_descriptors(struct doctor *d, const char *name, struct str metrics)
{
    double open, most;

    if (!metric_number(metrics, "process_open_fds", &open) ||
        !metric_number(metrics, "process_max_fds", &most) || most <= 0)
        return;
    if (open > most * 0.8)
        doctor_says(d, open > most * 0.95 ? FINDING_FAIL : FINDING_WARN,
                    "raise LimitNOFILE= of its unit (or ulimit -n) and restart it",
                    "%s: %.0f of %.0f file descriptors are open", name, open, most);
    else if (most < DESCRIPTORS_FEW)
        doctor_says(d, FINDING_WARN, "set LimitNOFILE=65536 in its unit (or ulimit -n)",
                    "%s: it may open only %.0f files and connections", name, most);
    else
        doctor_says(d, FINDING_OK, NULL, "%s: %.0f of %.0f file descriptors are open", name, open,
                    most);
}

void doctor_room(struct doctor *d, const char *where, uint64_t free_bytes)
{
    char text[UNITS_TEXT_CAP];
    uint64_t unit = free_bytes >> 30 ? (uint64_t)1 << 30 : (uint64_t)1 << 20;

    units_size_text(free_bytes / unit * unit, text);
    if (free_bytes >= room_warn)
        doctor_says(d, FINDING_OK, NULL, "%s: %s are free", where, text);
    else
        doctor_says(d, free_bytes < room_fail ? FINDING_FAIL : FINDING_WARN,
                    "make room, or move the data directory to a larger disk; without room nothing "
                    "can be written",
                    "%s: only %s are free", where, text);
}

static void replica_disk(struct doctor *d, const char *name, struct str metrics)
{
    double free_bytes, full = 0;
    char where[128];

    if (!metric_number(metrics, "muster_log_disk_free_bytes", &free_bytes)) return;
    (void)metric_number(metrics, "muster_log_disk_full", &full);
    snprintf(where, sizeof where, "%.80s: the disk of its log", name);
    if (full > 0)
        doctor_says(
            d, FINDING_FAIL,
            "make room there; it takes writes again by itself. `muster check DIR` shows what "
            "is in it",
            "%s: the disk of its log is below the reserve, and it refuses writes", name);
    else
        doctor_room(d, where, (uint64_t)free_bytes);
}

void doctor_certificate(struct doctor *d, const char *whose, wall_time not_after)
{
    static const char renew[] = "musterctl cert renew, then SIGHUP; docs/certificates.md";
    int64_t left = (int64_t)not_after.ms - (int64_t)d->now.ms;
    char until[RFC3339_CAP];

    wall_text(not_after, until);
    until[10] = '\0'; /* the day */
    if (left <= 0)
        doctor_says(d, FINDING_FAIL, renew, "%s: the certificate ended %s", whose, until);
    else if (left < (int64_t)CERT_WARN_DAYS * MS_PER_DAY)
        doctor_says(d, FINDING_WARN, renew, "%s: the certificate ends %s, in %" PRId64 " days",
                    whose, until, left / MS_PER_DAY);
    else
        doctor_says(d, FINDING_OK, NULL, "%s: the certificate is good until %s", whose, until);
}

static void replica_tls(struct doctor *d, const Muster__V1__Replica *replica, struct str metrics)
{
    double until;

    if (!metric_number(metrics, "muster_tls_not_after_seconds", &until)) return;
    if (until > 0)
        doctor_certificate(d, replica->name, (wall_time){(uint64_t)(until * 1000)});
    else if (!address_is_loopback(replica->grpc_address))
        doctor_says(d, FINDING_WARN, "musterctl cert issue replica; docs/certificates.md",
                    "%s: speaks plaintext at %s: everybody who reaches it may do anything",
                    replica->name, replica->grpc_address);
}

static void replica_version(struct doctor *d, const char *name, struct str metrics)
{
    struct str rest;
    char version[sizeof d->version];

    if (!metric_find(metrics, "muster_build_info", &rest)) return;
    snprintf(version, sizeof version, "%.*s", (int)min_size(rest.len, sizeof version - 1), rest.at);
    if (!d->version_of) {
        memcpy(d->version, version, sizeof version);
        d->version_of = name;
    } else if (strcmp(version, d->version) != 0) {
        d->versions_differ = true;
        doctor_says(d, FINDING_WARN,
                    "finish the upgrade, or go back; the newer features wait until all are equal",
                    "%s runs another build than %s: %.100s", name, d->version_of, version);
    }
}

/* -- the replica -- */

static void replica_ready(struct doctor *d, const char *name, const char *address)
{
    struct doctor_page ready;
    char why[REASONS_CAP];

    d->fetch(d, address, "/readyz", &ready);
    if (!ready.err && ready.status == 200) {
        doctor_says(d, FINDING_OK, NULL, "%s: ready", name);
    } else if (!ready.err) {
        snprintf(why, sizeof why, "%.*s", STR_ARG(str_trim(buf_peek(&ready.text))));
        for (char *c = why; *c; c++)
            if (*c == '\n') *c = ';';
        doctor_says(d, FINDING_FAIL, "its log says more; docs/observability.md has each reason",
                    "%s: not ready: %s", name, why);
    }
    buf_deinit(&ready.text);
}

void doctor_replica(struct doctor *d, const Muster__V1__Replica *replica)
{
    const char *name = replica->name, *address = replica->http_address;
    struct doctor_page metrics;

    if (!address[0] || strcmp(address, "0") == 0) {
        doctor_says(d, FINDING_WARN, "give it --http-listen, so that it can be looked at",
                    "%s: it has no HTTP address; clock, disk and descriptors are not known", name);
        return;
    }
    d->fetch(d, address, "/metrics", &metrics);
    if (metrics.err || metrics.status != 200) {
        bool away = metrics.err == ERR_UNAVAILABLE || metrics.err == ERR_TIMEOUT;
        doctor_says(d, away ? FINDING_FAIL : FINDING_WARN,
                    "is the process there? If its HTTP listens on that host only, run this there",
                    "%s: %s does not answer over HTTP (%s)", name, address,
                    metrics.err ? metrics.why.text : "another status than 200");
    } else {
        struct str text = buf_peek(&metrics.text);
        replica_ready(d, name, address);
        replica_clock(d, name, &metrics);
        replica_disk(d, name, text);
        replica_descriptors(d, name, text);
        replica_tls(d, replica, text);
        replica_version(d, name, text);
    }
    buf_deinit(&metrics.text);
}

void doctor_compare_replicas(struct doctor *d)
{
    if (d->version_of && !d->versions_differ)
        doctor_says(d, FINDING_OK, NULL, "all replicas that answer run the same build");
    if (d->clocks > 1 && (d->clocks_ahead == d->clocks || d->clocks_behind == d->clocks))
        doctor_says(d, FINDING_WARN, "synchronise the clock of this machine",
                    "this machine's own clock differs from that of every replica");
}
