/* SPDX-License-Identifier: Apache-2.0 */
/* The shard's client of a provider, by hand: lines in, lines out. Lists are decoded on a thread of
 * their own, as the shard does.
 *
 *   driver ADDRESS SHARD EPOCH [CERT KEY CA]
 *
 *   in   TAG create|configure|drain|delete|get MACHINE [TIMEOUT_MS [CLUSTER [BLOB_BYTES]]]
 *        TAG list CURSOR|- PAGE_SIZE CHUNK_BYTES CHUNKS_MAX
 *        TAG stats
 *   out  TAG END STATUS [STATE CLUSTER METADATA] text...
 *        TAG END STATUS machines refused removed whole cursor|- pages id-checksum text...
 *        TAG running waiting connections sequence
 *
 * The driver ends at the end of its input. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "io/real.h"
#include "provider/client.h"
#include "provider/list.h"

enum { WORDS_MAX = 8, WORD_CAP = 300, METADATA = 3 };

static const char *const ends[] = {
    [PROVIDER_DONE] = "done",           [PROVIDER_UNKNOWN] = "unknown",
    [PROVIDER_REFUSED] = "refused",     [PROVIDER_FENCED] = "fenced",
    [PROVIDER_NOT_FOUND] = "not-found", [PROVIDER_NOT_SUPPORTED] = "not-supported",
    [PROVIDER_UNSENT] = "unsent",
};
static struct real_io *real;
static struct io *io;
static struct provider *provider;
static struct loop_worker *decider;
static struct dimensions dimensions;
static struct machine_reader *reader; /* the decider's */
static struct dimensions ack_dimensions;
static struct machine_reader *ack_reader; /* the loop's */

struct line {
    struct post post;
    char words[WORDS_MAX][WORD_CAP];
    int count;
};

static void must(bool holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "driver: %s\n", what);
    abort();
}

static uint64_t number(const struct line *line, int word)
{
    return line->count > word ? strtoull(line->words[word], NULL, 10) : 0;
}

/* --- calls --- */

static void on_done(void *context, const struct provider_answer *answer)
{
    struct line *line = context;
    struct machine_record record;
    struct str operation = STR_EMPTY;
    struct note note = {""};
    char name[MACHINE_NAME_CAP];
    enum err err = ERR_OK;

    printf("%s %s %d ", line->words[0], ends[answer->end], (int)answer->status);
    if (answer->end == PROVIDER_DONE) {
        if (strcmp(line->words[1], "get") == 0)
            err = machine_read(ack_reader, answer->bytes, &record, &note);
        else
            err = machine_read_ack(ack_reader, answer->bytes, &operation, &record, &note);
        if (!err) err = machine_check(&record.machine, NULL, &note);
        if (err)
            printf("unreadable - 0 %s", note.text);
        else
            printf("%s %.*s %zu %.*s", machine_state_name(record.machine.state, name),
                   record.machine.cluster.len ? (int)record.machine.cluster.len : 1,
                   record.machine.cluster.len ? record.machine.cluster.at : "-",
                   record.metadata_count, STR_ARG(operation));
    }
    printf("%.*s\n", STR_ARG(answer->text));
    fflush(stdout);
    free(line);
}

static void call(struct line *own_line, enum provider_verb verb)
{
    static const struct label metadata[METADATA] = {
        {{"bigfleet.lucy.sh/assigned-group", 31}, {"rack\0gang-7", 11}},
        {{"bigfleet.lucy.sh/assigned-priority", 34}, {"900000", 6}},
        {{"x/empty", 7}, {"", 0}}};
    size_t blob = number(own_line, 5);
    char *bytes = calloc(1, blob + 1);
    const struct provider_request request = {
        .verb = verb,
        .machine = str_from(own_line->words[2]),
        .timeout_ms = number(own_line, 3),
        .cluster = str_from(own_line->count > 4 ? own_line->words[4] : "prod"),
        .blob = str_of(bytes, blob),
        .metadata = metadata,
        .metadata_count = METADATA,
        .grace_seconds = 5,
    };

    must(bytes && !provider_call(provider, &request, on_done, own_line), "a call is not taken");
    free(bytes);
}

/* --- List: chunks to the decider, in order --- */

struct listing {
    struct line *line;
    struct provider_list *list; /* the decider's while jobs are out */
    struct provider_fetch *fetch;
    uint64_t machines, refused, removed;
    uint32_t sum, pages;
    bool whole;
    enum err err;
    struct note note;
    struct provider_list_end end;
};
struct piece {
    struct job job;
    struct listing *listing;
    struct provider_chunk *chunk; /* NULL: the end */
    enum provider_end end;
    int status;
    char text[200];
};

static enum err on_machine(void *context, const struct machine_record *record)
{
    struct listing *l = context;

    if (machine_check(&record->machine, NULL, &l->note)) { /* as the shard does */
        l->refused++;
        return ERR_OK;
    }
    l->sum = crc32c(l->sum, record->machine.id.at, record->machine.id.len);
    l->machines++;
    return ERR_OK;
}

static void on_refused(void *context, struct str id, const char *why)
{
    struct listing *l = context;

    (void)id;
    l->refused++;
    note_set(&l->note, "%s", why);
}

static void on_removed(void *context, struct str id)
{
    (void)id;
    ((struct listing *)context)->removed++;
}

static void decode(struct job *job)
{
    struct piece *piece = CONTAINER_OF(job, struct piece, job);
    struct listing *l = piece->listing;

    if (l->err) return;
    if (piece->chunk)
        l->err = provider_list_feed(l->list, piece->chunk->bytes, &l->note);
    else
        l->err = provider_list_finish(l->list, &l->end, &l->note);
    if (!piece->chunk && !l->err) l->whole = l->whole && l->end.whole;
}

static void list_page(struct listing *l, struct str token);

static void show(struct listing *l, const struct piece *piece)
{
    bool whole = !l->err && l->whole && piece->end == PROVIDER_DONE;

    printf("%s %s %d %llu %llu %llu %s %.*s %u %u %s%s\n", l->line->words[0], ends[piece->end],
           piece->status, (unsigned long long)l->machines, (unsigned long long)l->refused,
           (unsigned long long)l->removed, whole ? "whole" : "part",
           l->end.cursor.len ? (int)l->end.cursor.len : 1,
           l->end.cursor.len ? l->end.cursor.at : "-", l->pages, l->sum, piece->text, l->note.text);
    fflush(stdout);
}

static void decoded(struct job *job, enum err err)
{
    struct piece *piece = CONTAINER_OF(job, struct piece, job);
    struct listing *l = piece->listing;

    must(err == ERR_OK || err == ERR_CANCELLED, "a job");
    if (piece->chunk) {
        provider_chunk_done(piece->chunk);
        free(piece);
        return;
    }
    l->pages++;
    if (piece->end == PROVIDER_DONE && !l->err && l->end.more) {
        char token[200];
        size_t len = min_size(l->end.next_page.len, sizeof token);
        memcpy(token, l->end.next_page.at, len);
        provider_list_close(l->list);
        list_page(l, str_of(token, len));
        free(piece);
        return;
    }
    show(l, piece);
    provider_list_close(l->list);
    free(l->line);
    free(l);
    free(piece);
}

static void submit(struct listing *l, struct provider_chunk *chunk,
                   const struct provider_answer *answer)
{
    struct piece *piece = calloc(1, sizeof *piece);

    must(piece, "memory");
    piece->listing = l;
    piece->chunk = chunk;
    if (answer) {
        piece->end = answer->end;
        piece->status = (int)answer->status;
        snprintf(piece->text, sizeof piece->text, "%.*s", STR_ARG(answer->text));
    }
    job_init(&piece->job, decode, decoded);
    must(worker_submit(decider, &piece->job) == ERR_OK, "too many jobs");
}

static void on_chunk(void *context, struct provider_chunk *own_chunk)
{
    submit(context, own_chunk, NULL);
}

static void on_end(void *context, const struct provider_answer *answer)
{
    submit(context, NULL, answer);
}

static void list_page(struct listing *l, struct str token)
{
    static const struct provider_list_events list_events = {on_machine, on_refused, on_removed};
    static const struct provider_fetch_events fetch_events = {on_chunk, on_end};
    const char *cursor = l->line->words[2];
    const struct provider_fetch_request request = {
        .cursor = strcmp(cursor, "-") == 0 ? STR_EMPTY : str_from(cursor),
        .page_token = token,
        .page_size = (uint32_t)number(l->line, 3),
        .chunk_bytes = number(l->line, 4),
        .chunks_max = (uint32_t)number(l->line, 5),
    };

    must(!provider_list_open(reader, &list_events, l, &l->list), "a list");
    must(!provider_fetch_start(provider, &request, &fetch_events, l, &l->fetch), "a fetch");
}

static void list(struct line *own_line)
{
    struct listing *l = calloc(1, sizeof *l);

    must(l, "memory");
    l->line = own_line;
    l->whole = true;
    list_page(l, STR_EMPTY);
}

/* --- the program --- */

static void stats(struct line *own_line)
{
    struct provider_stats s = provider_stats(provider);

    printf("%s %u %u %u %lld\n", own_line->words[0], s.running, s.waiting, s.connections,
           (long long)s.sequence);
    fflush(stdout);
    free(own_line);
}

static void stop(void *owner)
{
    (void)owner;
    real_io_stop(real);
}

static void on_line(struct post *post)
{
    static const char *const verbs[] = {
        [PROVIDER_CREATE] = "create", [PROVIDER_CONFIGURE] = "configure",
        [PROVIDER_DRAIN] = "drain",   [PROVIDER_DELETE] = "delete",
        [PROVIDER_GET] = "get",
    };
    struct line *line = CONTAINER_OF(post, struct line, post);

    if (line->count == 0) {
        provider_close(provider, stop, NULL);
        free(line);
        return;
    }
    if (strcmp(line->words[1], "list") == 0) {
        list(line);
    } else if (strcmp(line->words[1], "stats") == 0) {
        stats(line);
    } else {
        size_t verb = 0;
        while (verb < ARRAY_LEN(verbs) && strcmp(line->words[1], verbs[verb]) != 0) verb++;
        must(verb < ARRAY_LEN(verbs), "no such verb");
        call(line, (enum provider_verb)verb);
    }
}

static void *read_lines(void *unused)
{
    char text[WORDS_MAX * WORD_CAP];
    bool more = true;

    while (more) {
        struct line *line = calloc(1, sizeof *line);
        char *rest = text, *word;
        must(line, "memory");
        more = fgets(text, sizeof text, stdin) != NULL;
        while (more && (word = strtok_r(rest, " \n", &rest)) != NULL && line->count < WORDS_MAX)
            snprintf(line->words[line->count++], WORD_CAP, "%s", word);
        post_init(&line->post, on_line);
        loop_post(io->loop, &line->post);
    }
    return unused;
}

int main(int argc, char **argv)
{
    struct provider_options options = {0};
    struct worker_options worker = {"decide", 64};
    struct tls_context *tls = NULL;
    struct note note = {""};
    pthread_t thread;

    must(argc >= 4, "usage: driver ADDRESS SHARD EPOCH [CERT KEY CA]");
    must(!real_io_open(&real), "io");
    io = real_io_io(real);
    if (argc >= 7) {
        const struct tls_options tls_options = {.side = TLS_CLIENT,
                                                .version_min = TLS_V1_3,
                                                .cert_file = argv[4],
                                                .key_file = argv[5],
                                                .ca_files = {argv[6]},
                                                .alpn = {"h2"}};
        must(!tls_context_open(io->fs, &tls_options, &tls, &note), note.text);
    }
    options = (struct provider_options){.io = io,
                                        .address = argv[1],
                                        .shard_id = argv[2],
                                        .epoch = strtoll(argv[3], NULL, 10),
                                        .tls = tls,
                                        .connections_max = 4,
                                        .backoff_max_ms = 200};
    dimensions_init(&dimensions);
    dimensions_init(&ack_dimensions);
    must(!machine_reader_open(&dimensions, &reader), "memory");
    must(!machine_reader_open(&ack_dimensions, &ack_reader), "memory");
    must(!worker_open(io->loop, &worker, &decider), "a thread");
    must(!provider_open(&options, &provider, &note), note.text);
    must(!pthread_create(&thread, NULL, read_lines, NULL), "a thread");
    real_io_run(real);
    pthread_join(thread, NULL);
    worker_close(decider);
    machine_reader_close(reader);
    machine_reader_close(ack_reader);
    dimensions_deinit(&dimensions);
    dimensions_deinit(&ack_dimensions);
    tls_context_unref(tls);
    real_io_close(real);
    return 0;
}
