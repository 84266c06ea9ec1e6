/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/desk.h"

#include <stdlib.h>

#include "base/list.h"
#include "base/map.h"
#include "text/utf8.h"

enum { SILENT_AFTER_MS = 60000 };

struct instruction { /* one block: the texts stand behind it */
    struct list link;
    uint64_t term, sequence, tag;
    struct str id, topic, bytes;
    uint32_t deliveries;
    bool stray, untold, refused;
    struct str reason; /* owned; no memory when empty, as below */
    char texts[];
};
struct process {
    bool used;
    uint64_t id, order; /* order: of its last report among those of the shard */
    int64_t epoch, cycle, received_at_ns;
    mono_time heard_at;
    uint32_t overlaps; /* reports that came after one of another process */
    struct str address;
};
struct shard {
    struct list heard; /* in desk.heard, by heard_at; detached once it is called silent */
    struct str id;     /* in texts */
    mono_time heard_at;
    mono_time newest_at; /* when it last sent one that was not late */
    bool reported, silent, has_summary;
    int64_t epoch, cycle;                 /* of the newest report */
    int64_t summary_epoch, summary_cycle; /* of the one the summary came with */
    int64_t received_at_ns;
    struct str summary, shortfalls, provider; /* owned */
    size_t shortfall_count;
    struct process processes[DESK_PROCESSES_MAX];
    uint64_t process_order;
    bool conflict;
    enum desk_scope scope;
    struct list queue;     /* by (term, sequence) */
    size_t tagged, strays; /* of them */
    uint64_t asked;        /* the desk_may_queue that named it last */
    struct map by_id, by_topic;
    char texts[];
};
struct desk {
    struct desk_options options;
    uint64_t term, next_sequence, asked;
    struct map shards;
    struct list heard; /* longest silence first */
    size_t silent_count, conflict_count, stray_count, bytes;
    mono_time now; /* the latest we were told: it never runs back */
};

/* -- life -- */

static void tell(struct desk *desk, mono_time now)
{
    assert(now.ms >= desk->now.ms);
    desk->now = now;
}

static size_t instruction_bytes(const struct desk_instruction *it)
{
    return it->id.len + it->topic.len + it->bytes.len;
}

static size_t held_bytes(const struct instruction *it)
{
    return it ? it->id.len + it->topic.len + it->bytes.len + it->reason.len : 0;
}

static void drop_instruction(struct desk *desk, struct shard *shard, struct instruction *it)
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
    desk->stray_count -= it->stray;
    assert(desk->bytes >= held_bytes(it));
    desk->bytes -= held_bytes(it);
    free((char *)it->reason.at);
    free(it);
}

static void drop_process(struct desk *desk, struct process *process)
{
    desk->bytes -= process->address.len;
    free((char *)process->address.at);
    *process = (struct process){.used = false};
}

static void drop_shard(struct desk *desk, struct shard *shard)
{
    void *was = map_remove(&desk->shards, shard->id);

    assert(was == shard);
    LIST_EACH_SAFE(&shard->queue, node, next)
    drop_instruction(desk, shard, CONTAINER_OF(node, struct instruction, link));
    assert(map_count(&shard->by_id) == 0 && map_count(&shard->by_topic) == 0);
    map_deinit(&shard->by_id);
    map_deinit(&shard->by_topic);
    list_remove(&shard->heard);
    if (shard->silent) desk->silent_count--;
    if (shard->conflict) desk->conflict_count--;
    for (size_t i = 0; i < DESK_PROCESSES_MAX; i++) drop_process(desk, &shard->processes[i]);
    desk->bytes -= shard->id.len + shard->summary.len + shard->shortfalls.len + shard->provider.len;
    free((char *)shard->provider.at);
    free((char *)shard->summary.at);
    free((char *)shard->shortfalls.at);
    free(shard);
}

static void drop_all(struct desk *desk)
{
    size_t cursor = 0;

    for (struct map_entry *e; (e = map_next(&desk->shards, &cursor));) drop_shard(desk, e->value);
    assert(desk->bytes == 0 && desk->silent_count == 0 && list_empty(&desk->heard));
    assert(desk->conflict_count == 0 && desk->stray_count == 0);
}

enum err desk_open(const struct desk_options *options, struct desk **ret_desk)
{
    struct desk *desk = calloc(1, sizeof *desk);

    if (!desk) return ERR_NOMEM;
    desk->options = *options;
    if (!desk->options.silent_after_ms) desk->options.silent_after_ms = SILENT_AFTER_MS;
    if (!desk->options.shards_max) desk->options.shards_max = DESK_SHARDS_MAX;
    if (!desk->options.pending_max) desk->options.pending_max = DESK_PENDING_MAX;
    if (!desk->options.bytes_max) desk->options.bytes_max = DESK_BYTES_MAX;
    map_init(&desk->shards, desk->options.shards_max, options->seed);
    list_init(&desk->heard);
    *ret_desk = desk;
    return ERR_OK;
}

void desk_close(struct desk *desk)
{
    if (!desk) return;
    drop_all(desk);
    map_deinit(&desk->shards);
    free(desk);
}

/* -- terms -- */

void desk_begin(struct desk *desk, uint64_t term)
{
    drop_all(desk);
    desk->term = term;
}

uint64_t desk_term(const struct desk *desk)
{
    return desk->term;
}

uint64_t desk_sequence(struct desk *desk)
{
    return ++desk->next_sequence;
}

/* -- shards -- */

/* What goes is let go only after what comes has room. */
static enum err make_room(const struct desk *desk, size_t comes, size_t goes)
{
    assert(goes <= desk->bytes);
    return comes > desk->options.bytes_max - (desk->bytes - goes) ? ERR_FULL : ERR_OK;
}

enum err desk_add(struct desk *desk, struct str id, mono_time now)
{
    struct shard *shard;
    enum err err;

    tell(desk, now);
    if (map_get(&desk->shards, id)) return ERR_OK;
    err = make_room(desk, id.len, 0);
    if (err) return err;
    shard = calloc(1, sizeof *shard + id.len);
    if (!shard) return ERR_NOMEM;
    if (id.len) memcpy(shard->texts, id.at, id.len);
    shard->id = str_of(shard->texts, id.len);
    err = map_put(&desk->shards, shard->id, shard);
    if (err) {
        free(shard);
        return err;
    }
    map_init(&shard->by_id, desk->options.pending_max, desk->options.seed);
    map_init(&shard->by_topic, desk->options.pending_max, desk->options.seed);
    list_init(&shard->queue);
    list_init(&shard->heard);
    list_append(&desk->heard, &shard->heard);
    shard->heard_at = now;
    desk->bytes += id.len;
    return ERR_OK;
}

void desk_remove(struct desk *desk, struct str id)
{
    struct shard *shard = map_get(&desk->shards, id);

    if (shard) drop_shard(desk, shard);
}

size_t desk_count(const struct desk *desk)
{
    return map_count(&desk->shards);
}

static void show(const struct shard *shard, struct desk_shard *ret_shard)
{
    *ret_shard = (struct desk_shard){
        .id = shard->id,
        .reported = shard->reported,
        .silent = shard->silent,
        .heard_at = shard->heard_at,
        .has_summary = shard->has_summary,
        .has_shortfalls = shard->shortfall_count > 0,
        .epoch = shard->summary_epoch,
        .cycle = shard->summary_cycle,
        .received_at_ns = shard->received_at_ns,
        .summary = shard->summary,
        .shortfalls = shard->shortfalls,
        .shortfall_count = shard->shortfall_count,
        .pending = map_count(&shard->by_id),
        .strays = shard->strays,
        .conflict = shard->conflict,
        .scope = shard->scope,
        .provider = shard->provider,
    };
}

bool desk_find(const struct desk *desk, struct str id, struct desk_shard *ret_shard)
{
    const struct shard *shard = map_get(&desk->shards, id);

    if (shard) show(shard, ret_shard);
    return shard != NULL;
}

bool desk_next(const struct desk *desk, size_t *cursor, struct desk_shard *ret_shard)
{
    struct map_entry *entry = map_next(&desk->shards, cursor);

    if (entry) show(entry->value, ret_shard);
    return entry != NULL;
}

/* -- reports -- */

/* One that lost its disk begins with a lower epoch, and nobody is ahead of it any more: who was has
 * been silent for as long as a silent shard. Else it would be late for as long as it ran before. */
static bool is_late(const struct desk *desk, const struct shard *shard,
                    const struct desk_report *report)
{
    if (!shard->reported) return false;
    if (mono_due(mono_after(shard->newest_at, desk->options.silent_after_ms), desk->now))
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

static void swap_bytes(struct desk *desk, struct str *held, struct str own_bytes)
{
    free((char *)held->at);
    desk->bytes += own_bytes.len - held->len;
    *held = own_bytes;
}

/* All that can fail comes before the first change. */
static enum err keep(struct desk *desk, struct shard *shard, const struct desk_report *report)
{
    bool shortfalls = report->has_summary || report->shortfall_count;
    size_t comes = (report->has_summary ? report->summary.len + report->provider.len : 0) +
                   (shortfalls ? report->shortfalls.len : 0);
    size_t goes = (report->has_summary ? shard->summary.len + shard->provider.len : 0) +
                  (shortfalls ? shard->shortfalls.len : 0);
    struct str new_summary = {0}, new_shortfalls = {0}, new_provider = {0};
    enum err err = make_room(desk, comes, goes);

    if (!err && report->has_summary) err = copy_bytes(report->summary, &new_summary);
    if (!err && report->has_summary) err = copy_bytes(report->provider, &new_provider);
    if (!err && shortfalls) err = copy_bytes(report->shortfalls, &new_shortfalls);
    if (err) {
        free((char *)new_summary.at);
        free((char *)new_provider.at);
        return err;
    }
    shard->scope = report->scope;
    if (report->has_summary) {
        swap_bytes(desk, &shard->provider, new_provider);
        swap_bytes(desk, &shard->summary, new_summary);
        shard->has_summary = true;
        shard->summary_epoch = report->epoch;
        shard->summary_cycle = report->cycle;
        shard->received_at_ns = report->received_at_ns;
    }
    if (shortfalls) {
        swap_bytes(desk, &shard->shortfalls, new_shortfalls);
        shard->shortfall_count = min_size(report->shortfall_count, DESK_SHORTFALLS_MAX);
    }
    return ERR_OK;
}

/* -- processes under one id -- */

static bool is_same(const struct process *process, const struct desk_report *report)
{
    return process->used && process->id == report->process && process->epoch == report->epoch &&
           str_equal(process->address, report->address);
}

/* The process that sent the report. When several have the same id, epoch and address, it is the one
 * with the highest cycle before the report's. NULL: a new process. */
static struct process *sender_of(struct shard *shard, const struct desk_report *report)
{
    struct process *best = NULL;

    for (size_t i = 0; i < DESK_PROCESSES_MAX; i++) {
        struct process *process = &shard->processes[i];
        if (!is_same(process, report)) continue;
        if (!report->process && process->cycle > report->cycle) continue;
        if (!best || process->cycle > best->cycle) best = process;
    }
    return best;
}

/* The ones that are silent have ended, or no longer reach us. */
static size_t drop_silent_processes(struct desk *desk, struct shard *shard)
{
    struct process *last = NULL;
    size_t left = 0;

    for (size_t i = 0; i < DESK_PROCESSES_MAX; i++) {
        struct process *process = &shard->processes[i];
        if (!process->used) continue;
        if (mono_due(mono_after(process->heard_at, desk->options.silent_after_ms), desk->now)) {
            drop_process(desk, process);
            continue;
        }
        last = process;
        left++;
    }
    if (left == 1) last->overlaps = 0;
    return left;
}

/* The place of the one that was heard of longest ago, or a free one. */
static struct process *add_process(struct desk *desk, struct shard *shard,
                                   const struct desk_report *report)
{
    struct process *oldest = &shard->processes[0];
    struct str address;

    /* An address serves one process at a time: a later start at it replaced the earlier one. */
    for (size_t i = 0; i < DESK_PROCESSES_MAX; i++) {
        struct process *process = &shard->processes[i];
        if (process->used && report->address.len && process->epoch < report->epoch &&
            str_equal(process->address, report->address))
            drop_process(desk, process);
    }
    for (size_t i = 0; i < DESK_PROCESSES_MAX; i++) {
        struct process *process = &shard->processes[i];
        if (!process->used) {
            oldest = process;
            break;
        }
        if (process->order < oldest->order) oldest = process;
    }
    if (make_room(desk, report->address.len, oldest->address.len) ||
        copy_bytes(report->address, &address))
        return NULL;
    drop_process(desk, oldest);
    desk->bytes += report->address.len;
    *oldest = (struct process){
        .used = true, .id = report->process, .epoch = report->epoch, .address = address};
    return oldest;
}

/* True: from here on there is a conflict. Out of memory or room, the report is of nobody. */
static bool process_reported(struct desk *desk, struct shard *shard,
                             const struct desk_report *report)
{
    struct process *process;
    uint32_t overlaps = 0;

    (void)drop_silent_processes(desk, shard);
    process = sender_of(shard, report);
    if (process && process->cycle >= report->cycle) return false; /* it came twice, or late */
    if (!process) {
        process = add_process(desk, shard, report);
        if (!process) return false;
    } else if (process->order != shard->process_order) {
        process->overlaps++;
    }
    process->order = ++shard->process_order;
    process->cycle = report->cycle;
    process->received_at_ns = report->received_at_ns;
    process->heard_at = desk->now;
    for (size_t i = 0; i < DESK_PROCESSES_MAX; i++) overlaps += shard->processes[i].overlaps;
    if (shard->conflict || overlaps < DESK_OVERLAPS) return false;
    shard->conflict = true;
    desk->conflict_count++;
    return true;
}

size_t desk_processes(const struct desk *desk, struct str id,
                      struct desk_process ret_processes[DESK_PROCESSES_MAX])
{
    const struct shard *shard = map_get(&desk->shards, id);
    size_t count = 0;

    for (size_t i = 0; shard && i < DESK_PROCESSES_MAX; i++) {
        const struct process *process = &shard->processes[i];
        if (process->used)
            ret_processes[count++] = (struct desk_process){process->address, process->epoch,
                                                           process->cycle, process->received_at_ns};
    }
    return count;
}

size_t desk_conflict_count(const struct desk *desk)
{
    return desk->conflict_count;
}

bool desk_conflict_over(struct desk *desk, mono_time now, struct desk_shard *ret_shard)
{
    size_t cursor = 0;

    tell(desk, now);
    if (desk->conflict_count == 0) return false;
    for (struct map_entry *e; (e = map_next(&desk->shards, &cursor));) {
        struct shard *shard = e->value;
        if (!shard->conflict || drop_silent_processes(desk, shard) > 1) continue;
        shard->conflict = false;
        desk->conflict_count--;
        show(shard, ret_shard);
        return true;
    }
    return false;
}

enum err desk_take(struct desk *desk, const struct desk_report *report, mono_time now,
                   struct desk_taken *ret_taken)
{
    struct shard *shard = map_get(&desk->shards, report->shard);
    struct desk_taken taken = {0};
    enum err err;

    tell(desk, now);
    if (!shard) return ERR_NOT_FOUND;
    if (report->summary.len > DESK_REPORT_MAX || report->shortfalls.len > DESK_REPORT_MAX)
        return ERR_TOO_LARGE;
    taken.late = is_late(desk, shard, report);
    if (!taken.late) {
        err = keep(desk, shard, report);
        if (err) return err;
        taken.restarted = shard->reported && report->epoch != shard->epoch;
        shard->epoch = report->epoch;
        shard->cycle = report->cycle;
        shard->newest_at = now;
    }
    taken.conflict = process_reported(desk, shard, report);
    taken.first = !shard->reported;
    taken.back = shard->silent;
    if (shard->silent) desk->silent_count--;
    shard->reported = true;
    shard->silent = false;
    shard->heard_at = now;
    list_remove(&shard->heard);
    list_append(&desk->heard, &shard->heard);
    *ret_taken = taken;
    return ERR_OK;
}

/* -- silence -- */

static const struct shard *longest_silence(const struct desk *desk)
{
    if (list_empty(&desk->heard)) return NULL;
    return CONTAINER_OF(desk->heard.next, struct shard, heard);
}

bool desk_silent(struct desk *desk, mono_time now, struct desk_shard *ret_shard)
{
    struct shard *shard;

    tell(desk, now);
    if (list_empty(&desk->heard) || !mono_due(desk_next_due(desk), now)) return false;
    shard = CONTAINER_OF(desk->heard.next, struct shard, heard);
    list_remove(&shard->heard);
    shard->silent = true;
    desk->silent_count++;
    show(shard, ret_shard);
    return true;
}

size_t desk_silent_count(const struct desk *desk)
{
    return desk->silent_count;
}

uint64_t desk_silent_after_ms(const struct desk *desk)
{
    return desk->options.silent_after_ms;
}

mono_time desk_next_due(const struct desk *desk)
{
    const struct shard *shard = longest_silence(desk);

    return shard ? mono_after(shard->heard_at, desk->options.silent_after_ms) : MONO_NEVER;
}

/* -- instructions -- */

static struct instruction *copy_instruction(const struct desk_instruction *from)
{
    struct instruction *it = calloc(1, sizeof *it + instruction_bytes(from));
    char *at;

    if (!it) return NULL;
    list_init(&it->link);
    it->term = from->term;
    it->sequence = from->sequence;
    it->tag = from->tag;
    it->stray = from->stray;
    it->untold = from->untold;
    at = it->texts;
    memcpy(at, from->id.at, from->id.len);
    it->id = str_of(at, from->id.len);
    at += from->id.len;
    if (from->topic.len) memcpy(at, from->topic.at, from->topic.len);
    it->topic = str_of(at, from->topic.len);
    at += from->topic.len;
    if (from->bytes.len) memcpy(at, from->bytes.at, from->bytes.len);
    it->bytes = str_of(at, from->bytes.len);
    return it;
}

static bool is_before(const struct instruction *a, const struct instruction *b)
{
    return a->term != b->term ? a->term < b->term : a->sequence < b->sequence;
}

/* Nearly always the last: the search begins at the end. */
static void put_in_order(struct shard *shard, struct instruction *it)
{
    struct list *after = shard->queue.prev;

    while (after != &shard->queue && is_before(it, CONTAINER_OF(after, struct instruction, link)))
        after = after->prev;
    list_prepend(after, &it->link);
}

/* By hand, so that nothing has changed when the second fails. */
static enum err index_instruction(struct shard *shard, struct instruction *it)
{
    enum err err = map_put(&shard->by_id, it->id, it);

    if (err || !it->topic.len) return err;
    err = map_put(&shard->by_topic, it->topic, it);
    if (err) map_remove(&shard->by_id, it->id);
    return err;
}

/* What it would replace, and how many bytes go with that. */
struct replaced {
    struct instruction *same_id, *same_topic;
    size_t goes;
};

/* But for the room in bytes. */
static enum err judge(const struct desk *desk, const struct shard *shard,
                      const struct desk_instruction *instruction, struct replaced *ret_replaced)
{
    struct replaced r = {0};

    if (!instruction->id.len) return ERR_INVALID;
    if (!shard) return ERR_NOT_FOUND;
    if (instruction->id.len > DESK_ID_MAX || instruction->topic.len > DESK_TOPIC_MAX ||
        instruction->bytes.len > DESK_INSTRUCTION_MAX)
        return ERR_TOO_LARGE;
    r.same_id = map_get(&shard->by_id, instruction->id);
    r.same_topic = instruction->topic.len ? map_get(&shard->by_topic, instruction->topic) : NULL;
    if (r.same_topic == r.same_id) r.same_topic = NULL;
    r.goes = held_bytes(r.same_id) + held_bytes(r.same_topic);
    if (!r.same_id && !r.same_topic && map_count(&shard->by_id) >= desk->options.pending_max)
        return ERR_FULL;
    *ret_replaced = r;
    return ERR_OK;
}

enum err desk_may_queue(struct desk *desk, const struct str *shards, size_t count,
                        const struct desk_instruction *instruction, size_t *ret_at)
{
    size_t comes = 0, goes = 0;
    enum err err = ERR_OK;

    desk->asked++;
    for (size_t i = 0; i < count && !err; i++) {
        struct shard *shard = map_get(&desk->shards, shards[i]);
        struct replaced replaced = {0};

        err = judge(desk, shard, instruction, &replaced);
        if (!err && shard->asked != desk->asked) { /* named again, it replaces what was queued */
            shard->asked = desk->asked;
            comes += instruction_bytes(instruction);
            goes += replaced.goes;
            err = make_room(desk, comes, goes);
        }
        if (err && ret_at) *ret_at = i;
    }
    return err;
}

enum err desk_queue(struct desk *desk, struct str id, const struct desk_instruction *instruction)
{
    struct shard *shard = map_get(&desk->shards, id);
    struct instruction *it, *same_id, *same_topic;
    struct replaced replaced = {0};
    enum err err = judge(desk, shard, instruction, &replaced);

    if (!err) err = make_room(desk, instruction_bytes(instruction), replaced.goes);
    if (err) return err;
    same_id = replaced.same_id;
    same_topic = replaced.same_topic;
    it = copy_instruction(instruction);
    if (!it) return ERR_NOMEM;
    /* A slot that was just let go is there for the next: only a first entry can fail below. */
    if (same_id) drop_instruction(desk, shard, same_id);
    if (same_topic) drop_instruction(desk, shard, same_topic);
    err = index_instruction(shard, it);
    if (err) {
        free(it);
        return err;
    }
    put_in_order(shard, it);
    shard->tagged += it->tag != 0;
    shard->strays += it->stray;
    desk->stray_count += it->stray;
    desk->bytes += instruction_bytes(instruction);
    return ERR_OK;
}

static struct instruction *instruction_find(const struct desk *desk, struct str shard_id,
                                            struct str instruction_id)
{
    const struct shard *shard = map_get(&desk->shards, shard_id);

    return shard ? map_get(&shard->by_id, instruction_id) : NULL;
}

bool desk_ack(struct desk *desk, struct str shard_id, struct str instruction_id)
{
    struct instruction *it = instruction_find(desk, shard_id, instruction_id);

    if (it) drop_instruction(desk, map_get(&desk->shards, shard_id), it);
    return it != NULL;
}

/* Without memory or room the reason before it stays. */
bool desk_refused(struct desk *desk, struct str shard_id, struct str instruction_id,
                  struct str reason)
{
    struct instruction *it = instruction_find(desk, shard_id, instruction_id);
    bool first = it && !it->refused;
    struct str copy;

    if (!it) return false;
    it->refused = true;
    reason = utf8_clip(reason, DESK_REASON_MAX);
    if (!make_room(desk, reason.len, it->reason.len) && !copy_bytes(reason, &copy))
        swap_bytes(desk, &it->reason, copy);
    return first;
}

size_t desk_pending(const struct desk *desk, struct str id)
{
    const struct shard *shard = map_get(&desk->shards, id);

    return shard ? map_count(&shard->by_id) : 0;
}

size_t desk_tagged(const struct desk *desk, struct str id)
{
    const struct shard *shard = map_get(&desk->shards, id);

    return shard ? shard->tagged : 0;
}

static void show_instruction(const struct instruction *it, struct desk_instruction *ret_instruction)
{
    *ret_instruction = (struct desk_instruction){
        .id = it->id,
        .topic = it->topic,
        .term = it->term,
        .sequence = it->sequence,
        .bytes = it->bytes,
        .deliveries = it->deliveries,
        .tag = it->tag,
        .stray = it->stray,
        .untold = it->untold,
        .reason = it->reason,
    };
}

bool desk_find_instruction(const struct desk *desk, struct str shard_id, struct str instruction_id,
                           struct desk_instruction *ret_instruction)
{
    const struct instruction *it = instruction_find(desk, shard_id, instruction_id);

    if (it) show_instruction(it, ret_instruction);
    return it != NULL;
}

bool desk_find_topic(const struct desk *desk, struct str shard_id, struct str topic,
                     struct desk_instruction *ret_instruction)
{
    const struct shard *shard = map_get(&desk->shards, shard_id);
    const struct instruction *it = shard ? map_get(&shard->by_topic, topic) : NULL;

    if (it && ret_instruction) show_instruction(it, ret_instruction);
    return it != NULL;
}

size_t desk_stray_count(const struct desk *desk)
{
    return desk->stray_count;
}

bool desk_next_instruction(struct desk *desk, struct str id, bool deliver, const void **cursor,
                           struct desk_instruction *ret_instruction)
{
    struct shard *shard = map_get(&desk->shards, id);
    struct list *next;
    struct instruction *it;

    if (!shard) return false;
    next = *cursor ? ((const struct list *)*cursor)->next : shard->queue.next;
    if (next == &shard->queue) return false;
    it = CONTAINER_OF(next, struct instruction, link);
    if (deliver && it->deliveries < UINT32_MAX) it->deliveries++;
    *cursor = next;
    show_instruction(it, ret_instruction);
    return true;
}

/* -- what must hold -- */

size_t desk_bytes(const struct desk *desk)
{
    return desk->bytes;
}

void desk_check(const struct desk *desk)
{
    size_t cursor = 0, bytes = 0, silent = 0, heard = 0, conflicts = 0, strays = 0;
    uint64_t before = 0;

    for (struct map_entry *e; (e = map_next(&desk->shards, &cursor));) {
        const struct shard *shard = e->value;
        const struct instruction *last = NULL;
        size_t queued = 0, topics = 0, tagged = 0, stray = 0;

        LIST_EACH(&shard->queue, node)
        {
            const struct instruction *it = CONTAINER_OF(node, struct instruction, link);
            assert(!last || is_before(last, it) ||
                   (last->term == it->term && last->sequence == it->sequence));
            assert(map_get(&shard->by_id, it->id) == it);
            assert(!it->topic.len || map_get(&shard->by_topic, it->topic) == it);
            topics += it->topic.len > 0;
            tagged += it->tag != 0;
            stray += it->stray;
            bytes += held_bytes(it);
            queued++;
            last = it;
        }
        assert(queued == map_count(&shard->by_id) && queued <= desk->options.pending_max);
        assert(topics == map_count(&shard->by_topic) && tagged == shard->tagged);
        assert(stray == shard->strays);
        strays += stray;
        assert(shard->silent == (shard->heard.next == &shard->heard));
        assert(shard->shortfall_count <= DESK_SHORTFALLS_MAX);
        silent += shard->silent;
        conflicts += shard->conflict;
        bytes += shard->id.len + shard->summary.len + shard->shortfalls.len + shard->provider.len;
        for (size_t i = 0; i < DESK_PROCESSES_MAX; i++) bytes += shard->processes[i].address.len;
    }
    LIST_EACH(&desk->heard, node)
    {
        const struct shard *shard = CONTAINER_OF(node, struct shard, heard);
        assert(shard->heard_at.ms >= before && shard->heard_at.ms <= desk->now.ms);
        before = shard->heard_at.ms;
        heard++;
    }
    assert(bytes == desk->bytes && bytes <= desk->options.bytes_max);
    assert(silent == desk->silent_count && heard + silent == map_count(&desk->shards));
    assert(conflicts == desk->conflict_count && strays == desk->stray_count);
}
