/* SPDX-License-Identifier: Apache-2.0 */
/* Stores shards' reports and instructions, within bytes_max. Runs on the event loop's thread. */
#include "fleet/shard_reports.h"

#include <stdlib.h>

#include "text/utf8.h"

enum { SILENT_AFTER_MS = 60000, KEPT_TEXTS = 3 /* shortfalls, provider, summary */ };

/* -- life -- */

static void reports_set_now(struct shard_reports *reports, mono_time now)
{
    assert(now.ms >= reports->now.ms);
    reports->now = now;
}

static size_t held_bytes(const struct instruction *it)
{
    return it ? it->id.len + it->topic.len + it->bytes.len + it->reason.len : 0;
}

static void drop_instruction(struct shard_reports *reports, struct reported_shard *shard,
                             struct instruction *it)
{
    void *was = map_remove(&shard->by_id, it->id);

    assert(was == it);
    if (it->topic.len) {
        was = map_remove(&shard->by_topic, it->topic);
        assert(was == it);
    }
    list_remove(&it->link);
    shard->tagged -= it->tag != 0;
    shard->strays -= it->stray;
    reports->stray_count -= it->stray;
    assert(reports->bytes >= held_bytes(it));
    reports->bytes -= held_bytes(it);
    free((char *)it->reason.at);
    free(it);
}

static void drop_process(struct shard_reports *reports, struct shard_process *process)
{
    reports->bytes -= process->address.len;
    free((char *)process->address.at);
    *process = (struct shard_process){.used = false};
}

static void drop_shard(struct shard_reports *reports, struct reported_shard *shard)
{
    void *was = map_remove(&reports->shards, shard->id);

    assert(was == shard);
    LIST_EACH_SAFE(&shard->queue, node, next)
    drop_instruction(reports, shard, CONTAINER_OF(node, struct instruction, link));
    assert(map_count(&shard->by_id) == 0 && map_count(&shard->by_topic) == 0);
    map_deinit(&shard->by_id);
    map_deinit(&shard->by_topic);
    list_remove(&shard->heard);
    if (shard->silent) reports->silent_count--;
    if (shard->conflict) reports->conflict_count--;
    for (size_t i = 0; i < REPORTS_PROCESSES_MAX; i++) drop_process(reports, &shard->processes[i]);
    reports->bytes -=
        shard->id.len + shard->summary.len + shard->shortfalls.len + shard->provider.len;
    free((char *)shard->provider.at);
    free((char *)shard->summary.at);
    free((char *)shard->shortfalls.at);
    free(shard);
}

static void reports_drop_all(struct shard_reports *reports)
{
    size_t cursor = 0;

    for (struct map_entry *e; (e = map_next(&reports->shards, &cursor));)
        drop_shard(reports, e->value);
    assert(reports->bytes == 0 && reports->silent_count == 0 && list_empty(&reports->heard));
    assert(reports->conflict_count == 0 && reports->stray_count == 0);
}

enum err reports_open(const struct reports_options *options, struct shard_reports **ret_reports)
{
    struct shard_reports *reports = calloc(1, sizeof *reports);

    if (!reports) return ERR_NOMEM;
    reports->options = *options;
    if (!reports->options.silent_after_ms) reports->options.silent_after_ms = SILENT_AFTER_MS;
    if (!reports->options.shards_max) reports->options.shards_max = REPORTS_SHARDS_MAX;
    if (!reports->options.pending_max) reports->options.pending_max = REPORTS_PENDING_MAX;
    if (!reports->options.bytes_max) reports->options.bytes_max = REPORTS_BYTES_MAX;
    map_init(&reports->shards, reports->options.shards_max, options->seed);
    list_init(&reports->heard);
    *ret_reports = reports;
    return ERR_OK;
}

void reports_close(struct shard_reports *reports)
{
    if (!reports) return;
    reports_drop_all(reports);
    map_deinit(&reports->shards);
    free(reports);
}

/* -- terms -- */

void reports_begin(struct shard_reports *reports, uint64_t term)
{
    reports_drop_all(reports);
    reports->term = term;
}

/* -- shards -- */

/* ERR_FULL if the new bytes do not fit in place of the old bytes, which are freed later. */
static enum err reports_make_room(const struct shard_reports *reports, size_t comes, size_t goes)
{
    assert(goes <= reports->bytes);
    return comes > reports->options.bytes_max - (reports->bytes - goes) ? ERR_FULL : ERR_OK;
}

enum err reports_add(struct shard_reports *reports, struct str id, mono_time now)
{
    struct reported_shard *shard;
    enum err err;

    reports_set_now(reports, now);
    if (map_get(&reports->shards, id)) return ERR_OK;
    err = reports_make_room(reports, id.len, 0);
    if (err) return err;
    if (map_count(&reports->shards) >= reports->options.shards_max) return ERR_FULL;
    shard = map_make(&reports->shards, id, sizeof *shard);
    if (!shard) return ERR_NOMEM;
    shard->id = str_of(shard + 1, id.len);
    map_init(&shard->by_id, reports->options.pending_max, reports->options.seed);
    map_init(&shard->by_topic, reports->options.pending_max, reports->options.seed);
    list_init(&shard->queue);
    list_init(&shard->heard);
    list_append(&reports->heard, &shard->heard);
    shard->heard_at = now;
    reports->bytes += id.len;
    return ERR_OK;
}

void reports_remove(struct shard_reports *reports, struct str id)
{
    struct reported_shard *shard = map_get(&reports->shards, id);

    if (shard) drop_shard(reports, shard);
}

struct reported_shard *reports_find(const struct shard_reports *reports, struct str shard)
{
    return map_get(&reports->shards, shard);
}

struct reported_shard *reports_next(const struct shard_reports *reports, size_t *cursor)
{
    struct map_entry *entry = map_next(&reports->shards, cursor);

    return entry ? entry->value : NULL;
}

/* -- reports -- */

/* A shard that lost its disk starts with a lower epoch. Its reports are late until the higher epoch
 * has been silent for silent_after_ms. */
static bool report_is_late(const struct shard_reports *reports, const struct reported_shard *shard,
                           const struct shard_report *report)
{
    if (!shard->reported) return false;
    if (mono_due(mono_after(shard->newest_at, reports->options.silent_after_ms), reports->now))
        return false;
    if (report->epoch != shard->epoch) return report->epoch < shard->epoch;
    return report->cycle < shard->cycle;
}

static enum err copy_bytes(struct str bytes, struct str *ret_own)
{
    char *copy = bytes.len ? malloc(bytes.len) : NULL;

    if (bytes.len && !copy) return ERR_NOMEM;
    if (copy) memcpy(copy, bytes.at, bytes.len);
    *ret_own = (struct str){copy, bytes.len};
    return ERR_OK;
}

/* All or none. */
static enum err swap_texts(struct shard_reports *reports, struct str *const *held,
                           const struct str *from, size_t count)
{
    struct str own[KEPT_TEXTS] = {0};
    size_t comes = 0, goes = 0, made = 0;
    enum err err;

    for (size_t i = 0; i < count; i++) comes += from[i].len;
    for (size_t i = 0; i < count; i++) goes += held[i]->len;
    err = reports_make_room(reports, comes, goes);
    while (!err && made < count && !(err = copy_bytes(from[made], &own[made]))) made++;
    for (size_t i = 0; i < made; i++) {
        free((char *)(err ? own[i].at : held[i]->at));
        if (!err) *held[i] = own[i];
    }
    if (!err) reports->bytes += comes - goes;
    return err;
}

/* Allocates everything before the first change. */
static enum err reports_keep_texts(struct shard_reports *reports, struct reported_shard *shard,
                                   const struct shard_report *report)
{
    struct str *const held[KEPT_TEXTS] = {&shard->shortfalls, &shard->provider, &shard->summary};
    const struct str from[KEPT_TEXTS] = {report->shortfalls, report->provider, report->summary};
    size_t count = report->has_summary ? KEPT_TEXTS : report->shortfall_count > 0;
    enum err err = swap_texts(reports, held, from, count);

    if (err) return err;
    shard->scope = report->scope;
    if (report->has_summary) {
        shard->has_summary = true;
        shard->summary_cycle = report->cycle;
        shard->received_at_ns = report->received_at_ns;
    }
    if (count > 0)
        shard->shortfall_count = min_size(report->shortfall_count, REPORTS_SHORTFALLS_MAX);
    return ERR_OK;
}

/* -- several processes with the same shard id -- */

/* NULL for a new process. Of several with the same id, epoch and address: the one with the highest
 * cycle below the report's. */
static struct shard_process *sender_of(struct reported_shard *shard,
                                       const struct shard_report *report)
{
    struct shard_process *best = NULL;

    for (size_t i = 0; i < REPORTS_PROCESSES_MAX; i++) {
        struct shard_process *process = &shard->processes[i];
        if (!process->used || process->id != report->process || process->epoch != report->epoch ||
            !str_equal(process->address, report->address))
            continue;
        if (!report->process && process->cycle > report->cycle) continue;
        if (!best || process->cycle > best->cycle) best = process;
    }
    return best;
}

/* Silent processes have ended or cannot reach the leader. */
static size_t drop_silent_processes(struct shard_reports *reports, struct reported_shard *shard)
{
    struct shard_process *last = NULL;
    size_t left = 0;

    for (size_t i = 0; i < REPORTS_PROCESSES_MAX; i++) {
        struct shard_process *process = &shard->processes[i];
        if (!process->used) continue;
        if (mono_due(mono_after(process->heard_at, reports->options.silent_after_ms),
                     reports->now)) {
            drop_process(reports, process);
            continue;
        }
        last = process;
        left++;
    }
    if (left == 1) last->overlaps = 0;
    return left;
}

/* Uses a free slot, otherwise the slot of the longest silent process. */
static struct shard_process *add_process(struct shard_reports *reports,
                                         struct reported_shard *shard,
                                         const struct shard_report *report)
{
    struct shard_process *oldest = &shard->processes[0];
    struct str address;

    /* An address has one process, so a new process replaces the old one. */
    for (size_t i = 0; i < REPORTS_PROCESSES_MAX; i++) {
        struct shard_process *process = &shard->processes[i];
        if (process->used && report->address.len && process->epoch < report->epoch &&
            str_equal(process->address, report->address))
            drop_process(reports, process);
    }
    for (size_t i = 0; i < REPORTS_PROCESSES_MAX; i++) {
        struct shard_process *process = &shard->processes[i];
        if (!process->used) {
            oldest = process;
            break;
        }
        if (process->order < oldest->order) oldest = process;
    }
    if (reports_make_room(reports, report->address.len, oldest->address.len) ||
        copy_bytes(report->address, &address))
        return NULL;
    drop_process(reports, oldest);
    reports->bytes += report->address.len;
    *oldest = (struct shard_process){
        .used = true, .id = report->process, .epoch = report->epoch, .address = address};
    return oldest;
}

/* True if a conflict begins. If memory or slots run out, false. */
static bool process_reported(struct shard_reports *reports, struct reported_shard *shard,
                             const struct shard_report *report)
{
    struct shard_process *process;
    uint32_t overlaps = 0;

    (void)drop_silent_processes(reports, shard);
    process = sender_of(shard, report);
    if (process && process->cycle >= report->cycle) return false; /* duplicated or delayed */
    if (!process) {
        process = add_process(reports, shard, report);
        if (!process) return false;
    } else if (process->order != shard->process_order) {
        process->overlaps++;
    }
    process->order = ++shard->process_order;
    process->cycle = report->cycle;
    process->received_at_ns = report->received_at_ns;
    process->heard_at = reports->now;
    for (size_t i = 0; i < REPORTS_PROCESSES_MAX; i++) overlaps += shard->processes[i].overlaps;
    if (shard->conflict || overlaps < REPORTS_OVERLAPS) return false;
    shard->conflict = true;
    reports->conflict_count++;
    return true;
}

struct reported_shard *reports_conflict_over(struct shard_reports *reports, mono_time now)
{
    size_t cursor = 0;

    reports_set_now(reports, now);
    if (reports->conflict_count == 0) return NULL;
    for (struct reported_shard *shard; (shard = reports_next(reports, &cursor));) {
        if (!shard->conflict || drop_silent_processes(reports, shard) > 1) continue;
        shard->conflict = false;
        reports->conflict_count--;
        return shard;
    }
    return NULL;
}

enum err reports_take(struct shard_reports *reports, const struct shard_report *report,
                      mono_time now, struct report_taken *ret_taken)
{
    struct reported_shard *shard = map_get(&reports->shards, report->shard);
    struct report_taken taken = {0};
    enum err err;

    reports_set_now(reports, now);
    if (!shard) return ERR_NOT_FOUND;
    if (report->summary.len > REPORTS_REPORT_MAX || report->shortfalls.len > REPORTS_REPORT_MAX)
        return ERR_TOO_LARGE;
    taken.late = report_is_late(reports, shard, report);
    if (!taken.late) {
        err = reports_keep_texts(reports, shard, report);
        if (err) return err;
        taken.restarted = shard->reported && report->epoch != shard->epoch;
        shard->epoch = report->epoch;
        shard->cycle = report->cycle;
        shard->newest_at = now;
    }
    taken.conflict = process_reported(reports, shard, report);
    taken.first = !shard->reported;
    taken.back = shard->silent;
    if (shard->silent) reports->silent_count--;
    shard->reported = true;
    shard->silent = false;
    shard->heard_at = now;
    list_remove(&shard->heard);
    list_append(&reports->heard, &shard->heard);
    *ret_taken = taken;
    return ERR_OK;
}

/* -- silence -- */

struct reported_shard *reports_silent(struct shard_reports *reports, mono_time now)
{
    struct reported_shard *shard = CONTAINER_OF(reports->heard.next, struct reported_shard, heard);

    reports_set_now(reports, now);
    if (list_empty(&reports->heard) ||
        !mono_due(mono_after(shard->heard_at, reports->options.silent_after_ms), now))
        return NULL;
    list_remove(&shard->heard);
    shard->silent = true;
    reports->silent_count++;
    return shard;
}

/* -- instructions -- */

static struct instruction *copy_instruction(const struct instruction *from)
{
    struct instruction *it = malloc(sizeof *it + held_bytes(from));
    char *at;

    if (!it) return NULL;
    *it = *from;
    list_init(&it->link);
    it->deliveries = 0;
    it->refused = false;
    it->reason = (struct str){NULL, 0};
    at = it->texts;
    it->id = str_put(&at, from->id);
    it->topic = str_put(&at, from->topic);
    it->bytes = str_put(&at, from->bytes);
    return it;
}

static bool is_before(const struct instruction *a, const struct instruction *b)
{
    return a->term != b->term ? a->term < b->term : a->sequence < b->sequence;
}

/* Searches from the end, where nearly all instructions belong. */
static void put_in_order(struct reported_shard *shard, struct instruction *it)
{
    struct list *after = shard->queue.prev;

    while (after != &shard->queue && is_before(it, CONTAINER_OF(after, struct instruction, link)))
        after = after->prev;
    list_prepend(after, &it->link);
}

/* Indexes by id and topic, or on an error by neither. */
static enum err index_instruction(struct reported_shard *shard, struct instruction *it)
{
    enum err err = map_put(&shard->by_id, it->id, it);

    if (err || !it->topic.len) return err;
    err = map_put(&shard->by_topic, it->topic, it);
    if (err) map_remove(&shard->by_id, it->id);
    return err;
}

static enum err instruction_may_queue(const struct shard_reports *reports,
                                      const struct reported_shard *shard,
                                      const struct instruction *from)
{
    if (!from->id.len) return ERR_INVALID;
    if (!shard) return ERR_NOT_FOUND;
    if (from->id.len > REPORTS_ID_MAX || from->topic.len > REPORTS_TOPIC_MAX ||
        from->bytes.len > REPORTS_INSTRUCTION_MAX)
        return ERR_TOO_LARGE;
    if (reports_pending(shard) < reports->options.pending_max) return ERR_OK;
    return reports_instruction(shard, from->id) || reports_about(shard, from->topic) ? ERR_OK
                                                                                     : ERR_FULL;
}

enum err reports_may_queue(struct shard_reports *reports, const struct str *shards, size_t count,
                           const struct instruction *from, size_t *ret_at)
{
    size_t comes = 0, goes = 0;
    enum err err = ERR_OK;

    reports->asked++;
    for (size_t i = 0; i < count && !err; i++) {
        struct reported_shard *shard = reports_find(reports, shards[i]);

        *ret_at = i;
        err = instruction_may_queue(reports, shard, from);
        /* if a shard is named twice, the second instruction replaces the first */
        if (err || shard->asked == reports->asked) continue;
        shard->asked = reports->asked;
        comes += held_bytes(from);
        goes += held_bytes(reports_instruction(shard, from->id));
        err = reports_make_room(reports, comes, goes);
    }
    return err;
}

enum err reports_queue(struct shard_reports *reports, struct reported_shard *shard,
                       const struct instruction *from)
{
    struct instruction *it, *same_id, *same_topic;
    enum err err = instruction_may_queue(reports, shard, from);

    if (err) return err;
    same_id = reports_instruction(shard, from->id);
    same_topic = reports_about(shard, from->topic);
    if (same_topic == same_id) same_topic = NULL;
    err =
        reports_make_room(reports, held_bytes(from), held_bytes(same_id) + held_bytes(same_topic));
    if (err) return err;
    it = copy_instruction(from);
    if (!it) return ERR_NOMEM;
    /* Dropping the old instructions frees slots of both indexes, so indexing rarely fails. */
    if (same_id) drop_instruction(reports, shard, same_id);
    if (same_topic) drop_instruction(reports, shard, same_topic);
    err = index_instruction(shard, it);
    if (err) {
        free(it);
        return err;
    }
    put_in_order(shard, it);
    shard->tagged += it->tag != 0;
    shard->strays += it->stray;
    reports->stray_count += it->stray;
    reports->bytes += held_bytes(it);
    return ERR_OK;
}

struct instruction *reports_instruction(const struct reported_shard *shard, struct str id)
{
    return map_get(&shard->by_id, id);
}

struct instruction *reports_about(const struct reported_shard *shard, struct str topic)
{
    return topic.len ? map_get(&shard->by_topic, topic) : NULL;
}

void reports_ack(struct shard_reports *reports, struct reported_shard *shard,
                 struct instruction *own_instruction)
{
    drop_instruction(reports, shard, own_instruction);
}

/* If memory or room runs out, the previous reason is kept. */
bool reports_refused(struct shard_reports *reports, struct instruction *it, struct str reason)
{
    bool first = !it->refused;

    it->refused = true;
    reason = utf8_clip(reason, REPORTS_REASON_MAX);
    (void)swap_texts(reports, (struct str *[]){&it->reason}, &reason, 1);
    return first;
}
