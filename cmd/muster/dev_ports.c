/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/dev_ports.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "io/fs.h"

enum {
    GRPC_PORT = 7790,
    RAFT_PORT = 7791,
    HTTP_PORT = 8790,
    APART = 10,
    PROVIDER_PORT = 7770,
    PROVIDER_HTTP_PORT = 8771,
    SHARD_PORT = 7780,
    SHARD_HTTP_PORT = 8780,
    OPERATOR_HTTP_PORT = 8770, /* the next ones stand behind the provider's */
    WORKERS_PORT = 50051,
    FILE_MAX = 4096,
    FIRST_DRAWN = 24000,
    DRAWN = 8000, /* where the first may be */
    TRIES = 512,
    COUNT = 4 * DEV_REPLICAS_MAX + 2 + 2 * DEV_SHARDS_MAX + DEV_OPERATORS,
};

void dev_ports_usual(struct dev_ports *ports)
{
    for (size_t i = 0; i < DEV_REPLICAS_MAX; i++) {
        ports->grpc[i] = (uint16_t)(GRPC_PORT + APART * i);
        ports->raft[i] = (uint16_t)(RAFT_PORT + APART * i);
        ports->http[i] = (uint16_t)(HTTP_PORT + APART * i);
        ports->workers[i] = (uint16_t)(WORKERS_PORT + APART * i);
    }
    ports->provider_grpc = PROVIDER_PORT;
    ports->provider_http = PROVIDER_HTTP_PORT;
    for (size_t i = 0; i < DEV_SHARDS_MAX; i++) {
        ports->shard_grpc[i] = (uint16_t)(SHARD_PORT + i);
        ports->shard_http[i] = (uint16_t)(SHARD_HTTP_PORT + i);
    }
    for (size_t i = 0; i < DEV_OPERATORS; i++)
        ports->operator_http[i] = (uint16_t)(OPERATOR_HTTP_PORT + (i ? i + 1 : 0));
}

/* In the order of the file; what is new stands at its end. */
static void list(struct dev_ports *ports, uint16_t *ret_list[COUNT])
{
    size_t n = 0;

    for (size_t i = 0; i < DEV_REPLICAS_MAX; i++) {
        ret_list[n++] = &ports->grpc[i];
        ret_list[n++] = &ports->raft[i];
        ret_list[n++] = &ports->http[i];
    }
    ret_list[n++] = &ports->provider_grpc;
    ret_list[n++] = &ports->provider_http;
    for (size_t i = 0; i < DEV_SHARDS_MAX; i++) {
        ret_list[n++] = &ports->shard_grpc[i];
        ret_list[n++] = &ports->shard_http[i];
    }
    for (size_t i = 0; i < DEV_OPERATORS; i++) ret_list[n++] = &ports->operator_http[i];
    for (size_t i = 0; i < DEV_REPLICAS_MAX; i++) ret_list[n++] = &ports->workers[i];
    assert(n == COUNT);
}

static void refuse(void *owner, struct stream *stream)
{
    (void)owner;
    stream_close(stream);
}

/* Below the ports that Linux gives to connections: one of those could be taken by anybody between
 * here and the moment its process listens. All are held until the last is drawn, so none is drawn
 * twice. */
static enum err draw(struct io *io, uint16_t *const *ports, size_t count, struct note *note)
{
    struct listener *held[COUNT] = {NULL};
    char address[32];
    struct listen_options options = {.address = address, .on_accept = refuse};
    uint64_t port = FIRST_DRAWN + entropy_u64(io->entropy) % DRAWN;
    enum err err = ERR_OK;
    size_t drawn = 0;

    for (size_t tries = 0; drawn < count && tries < TRIES; tries++, port++) {
        snprintf(address, sizeof address, "127.0.0.1:%u", (unsigned)port);
        err = net_listen(io->net, &options, &held[drawn], note);
        if (!err) *ports[drawn++] = (uint16_t)port;
    }
    for (size_t i = 0; i < drawn; i++) listener_close(held[i]);
    return drawn == count ? ERR_OK : err;
}

/* How many a file of this or an earlier release holds. */
static enum err parse(struct str text, uint16_t *const *ports, size_t *ret_count)
{
    struct str line;
    uint64_t port;

    *ret_count = 0;
    while (*ret_count < COUNT && str_split(&text, '\n', &line) && line.len) {
        if (str_to_u64(line, &port) || port > UINT16_MAX) return ERR_PARSE;
        *ports[(*ret_count)++] = (uint16_t)port;
    }
    return ERR_OK;
}

enum err dev_ports_free(struct io *io, const char *dir, struct dev_ports *ports, struct note *note)
{
    uint16_t *all[COUNT];
    size_t known = 0;
    char path[4096];
    struct buf text;
    enum err err;

    if (snprintf(path, sizeof path, "%s/ports", dir) >= (int)sizeof path) return ERR_TOO_LARGE;
    list(ports, all);
    buf_init(&text, FILE_MAX);
    err = fs_read_whole(io->fs, path, FILE_MAX, &text);
    if (!err) {
        err = parse(buf_peek(&text), all, &known);
        if (err) note_set(note, "%s: no list of ports", path);
    } else if (err == ERR_NOT_FOUND) {
        err = ERR_OK;
    }
    if (!err && known < COUNT) {
        err = draw(io, all + known, COUNT - known, note);
        buf_clear(&text);
        for (size_t i = 0; !err && i < COUNT; i++) err = buf_appendf(&text, "%u\n", *all[i]);
        if (!err) err = fs_publish(io->fs, path, buf_peek(&text), 0644, entropy_u64(io->entropy));
    }
    buf_deinit(&text);
    return err;
}
