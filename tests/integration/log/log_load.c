/* SPDX-License-Identifier: Apache-2.0 */
/* Load from inside the leader's process: a closed loop of proposals in flight, each replaced when
 * it is answered. It measures the log, not a protocol in front of it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "log_node.h"

enum {
    IN_FLIGHT_MAX = 65536,
    BUCKETS = 4096, /* latency: 64 a power of two, from 1 us on */
    KEY_CAP = 32,
};
struct shot {
    struct proposal proposal;
    struct log_load *load;
    uint64_t began_ns;
    bool busy;
};
struct log_load {
    struct log_node *node;
    struct log_load_wish wish;
    log_load_fn *done;
    void *owner;
    struct shot *shots;
    struct proposal **batch;
    struct buf command;
    char *value;
    struct task again;
    struct timer over;
    mono_ns began;
    uint64_t cpu_began_ms;
    uint32_t busy;
    bool stopping;
    struct log_load_figures figures;
    uint64_t buckets[BUCKETS];
};

static uint64_t cpu_ms(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
           (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
}

static size_t bucket_of(uint64_t us)
{
    unsigned power;
    if (us < 64) return (size_t)us;
    power = 63 - (unsigned)__builtin_clzll(us);
    return min_size((size_t)(power - 5) * 64 + ((us >> (power - 6)) & 63), BUCKETS - 1);
}

static uint64_t bucket_us(size_t bucket)
{
    if (bucket < 64) return bucket;
    return (64 + bucket % 64) << (bucket / 64 - 1);
}

static uint64_t quantile_us(const struct log_load *load, double part)
{
    uint64_t want = (uint64_t)((double)load->figures.done * part), seen = 0;
    for (size_t i = 0; i < BUCKETS; i++) {
        seen += load->buckets[i];
        if (seen > want) return bucket_us(i);
    }
    return load->figures.max_us;
}

static void finish(struct log_load *load)
{
    struct log_node *node = load->node;
    mono_ns now = clock_mono_ns(real_io_io(node->real)->clock);

    load->figures.wall_ms = (now.ns - load->began.ns) / NS_PER_MS;
    load->figures.cpu_ms = cpu_ms() - load->cpu_began_ms;
    load->figures.p50_us = quantile_us(load, 0.50);
    load->figures.p99_us = quantile_us(load, 0.99);
    if (load->done) load->done(load->owner, &load->figures);
    log_load_close(node);
}

static void on_answer(struct proposal *proposal, enum err err, struct str reply)
{
    struct shot *shot = CONTAINER_OF(proposal, struct shot, proposal);
    struct log_load *load = shot->load;
    struct io *io = real_io_io(load->node->real);
    uint64_t us = (clock_mono_ns(io->clock).ns - shot->began_ns) / NS_PER_US;

    (void)reply;
    shot->busy = false;
    load->busy--;
    if (err) {
        load->figures.failed++;
        load->stopping = load->stopping || err != ERR_FULL;
    } else {
        load->figures.done++;
        load->buckets[bucket_of(us)]++;
        load->figures.max_us = max_u64(load->figures.max_us, us);
    }
    loop_defer(io->loop, &load->again);
}

/* Registers in turn, when several are asked for: to make a state of some size. */
static enum err next_command(struct log_load *load)
{
    char key[KEY_CAP] = "load";

    if (load->wish.keys > 0)
        snprintf(key, sizeof key, "load-%" PRIu64, load->node->load_key++ % load->wish.keys);
    buf_clear(&load->command);
    return trial_encode(&(struct trial_command){.op = TRIAL_SET,
                                                .key = str_from(key),
                                                .value = str_of(load->value, load->wish.size)},
                        &load->command);
}

static void fire(struct task *task)
{
    struct log_load *load = CONTAINER_OF(task, struct log_load, again);
    uint64_t now = clock_mono_ns(real_io_io(load->node->real)->clock).ns;
    size_t count = 0;

    if (load->stopping) {
        if (load->busy == 0) finish(load);
        return;
    }
    for (uint32_t i = 0; i < load->wish.in_flight && load->busy < load->wish.in_flight; i++) {
        struct shot *shot = &load->shots[i];
        if (shot->busy) continue;
        if (load->wish.keys > 0 && count > 0) { /* the next one has bytes of its own */
            replica_propose(load->node->replica, load->batch, count);
            count = 0;
        }
        if (load->wish.keys > 0 && next_command(load)) break;
        shot->busy = true;
        shot->began_ns = now;
        shot->proposal = (struct proposal){.machine = TRIAL_MACHINE,
                                           .version = 1,
                                           .command = buf_peek(&load->command),
                                           .done = on_answer};
        load->busy++;
        load->batch[count++] = &shot->proposal;
    }
    if (count) replica_propose(load->node->replica, load->batch, count);
}

static void on_over(struct timer *timer)
{
    struct log_load *load = CONTAINER_OF(timer, struct log_load, over);

    load->stopping = true;
    loop_defer(real_io_io(load->node->real)->loop, &load->again);
}

enum err log_load_start(struct log_node *node, const struct log_load_wish *wish, log_load_fn *done,
                        void *owner)
{
    struct io *io = real_io_io(node->real);
    struct log_load *load;
    enum err err;

    if (node->load) return ERR_BUSY;
    if (wish->in_flight == 0 || wish->in_flight > IN_FLIGHT_MAX || wish->size > TRIAL_VALUE_MAX)
        return ERR_INVALID;
    load = calloc(1, sizeof *load);
    if (!load) return ERR_NOMEM;
    node->load = load;
    load->node = node;
    load->wish = *wish;
    load->done = done;
    load->owner = owner;
    load->shots = calloc(wish->in_flight, sizeof *load->shots);
    load->batch = calloc(wish->in_flight, sizeof(struct proposal *));
    load->value = calloc(1, wish->size + 1);
    buf_init(&load->command, LOG_NODE_LINE_MAX);
    task_init(&load->again, fire);
    err = load->shots && load->batch && load->value ? timer_init(&load->over, io->loop, on_over)
                                                    : ERR_NOMEM;
    if (!err) memset(load->value, 'x', wish->size);
    if (!err) err = next_command(load);
    if (err) {
        log_load_close(node);
        return err;
    }
    for (uint32_t i = 0; i < wish->in_flight; i++) load->shots[i].load = load;
    load->began = clock_mono_ns(io->clock);
    load->cpu_began_ms = cpu_ms();
    timer_start_in(&load->over, wish->ms);
    loop_defer(io->loop, &load->again);
    return ERR_OK;
}

void log_load_disown(struct log_node *node, void *owner)
{
    if (node->load && node->load->owner == owner) node->load->done = NULL;
}

void log_load_close(struct log_node *node)
{
    struct log_load *load = node->load;

    if (!load) return;
    node->load = NULL;
    task_cancel(&load->again);
    timer_deinit(&load->over);
    buf_deinit(&load->command);
    free(load->shots);
    free(load->batch);
    free(load->value);
    free(load);
}
