#include "muster/dev_ports.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "io/fs.h"

enum { GRPC_PORT = 7790, RAFT_PORT = 7791, HTTP_PORT = 8790, APART = 10, FILE_MAX = 4096 };

void dev_ports_usual(struct dev_ports *ports, size_t replicas)
{
    for (size_t i = 0; i < replicas; i++) {
        ports->grpc[i] = (uint16_t)(GRPC_PORT + APART * i);
        ports->raft[i] = (uint16_t)(RAFT_PORT + APART * i);
        ports->http[i] = (uint16_t)(HTTP_PORT + APART * i);
    }
}

static uint16_t *port_at(struct dev_ports *ports, size_t at)
{
    uint16_t *const columns[DEV_PORTS_EACH] = {ports->grpc, ports->raft, ports->http};
    return &columns[at % DEV_PORTS_EACH][at / DEV_PORTS_EACH];
}

static void refuse(void *owner, struct stream *stream)
{
    (void)owner;
    stream_close(stream);
}

/* All are held until the last is drawn, so none is drawn twice. */
static enum err draw(struct io *io, size_t count, struct dev_ports *ports, struct note *note)
{
    struct listen_options options = {.address = "127.0.0.1:0", .on_accept = refuse};
    struct listener *held[DEV_REPLICAS_MAX * DEV_PORTS_EACH] = {NULL};
    struct address_parts parts = {.port = 0};
    enum err err = ERR_OK;

    for (size_t i = 0; !err && i < count; i++) {
        err = net_listen(io->net, &options, &held[i], note);
        if (!err) err = address_split(listener_address(held[i]), &parts, note);
        if (!err) *port_at(ports, i) = parts.port;
    }
    for (size_t i = 0; i < count; i++) listener_close(held[i]);
    return err;
}

static enum err parse(struct str text, size_t count, struct dev_ports *ports)
{
    struct str line;
    uint64_t port;

    for (size_t i = 0; i < count; i++) {
        if (!str_split(&text, '\n', &line) || str_to_u64(line, &port) || port > UINT16_MAX)
            return ERR_PARSE;
        *port_at(ports, i) = (uint16_t)port;
    }
    return ERR_OK;
}

enum err dev_ports_free(struct io *io, const char *dir, size_t replicas, struct dev_ports *ports,
                        struct note *note)
{
    size_t count = replicas * DEV_PORTS_EACH;
    char path[4096];
    struct buf text;
    enum err err;

    if (snprintf(path, sizeof path, "%s/ports", dir) >= (int)sizeof path) return ERR_TOO_LARGE;
    buf_init(&text, FILE_MAX);
    err = fs_read_whole(io->fs, path, FILE_MAX, &text);
    if (!err) {
        err = parse(buf_peek(&text), count, ports);
        if (err) note_set(note, "%s: no list of %zu ports", path, count);
    } else if (err == ERR_NOT_FOUND) {
        err = draw(io, count, ports, note);
        buf_clear(&text);
        for (size_t i = 0; !err && i < count; i++)
            err = buf_appendf(&text, "%u\n", *port_at(ports, i));
        if (!err) err = fs_publish(io->fs, path, buf_peek(&text), 0644, entropy_u64(io->entropy));
    }
    buf_deinit(&text);
    return err;
}
