/* SPDX-License-Identifier: Apache-2.0 */
/* Decides whether a directory may hold a file store, by its file system and by probes of system
 * calls (store.h). Runs at open. A file system that is not on the list of accepted ones is
 * refused. */
#include "prim/file/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

static const struct {
    const char *type;
    uint32_t magic;
    bool durable, overlay;
} accepted[] = {
    {"ext4", 0xEF53, true, false},         {"ext3", 0xEF53, true, false},
    {"xfs", 0x58465342, true, false},      {"btrfs", 0x9123683E, true, false},
    {"f2fs", 0xF2F52010, true, false},     {"zfs", 0x2FC12FC1, true, false},
    {"bcachefs", 0xCA451A4E, true, false}, {"tmpfs", 0x01021994, false, false},
    {"overlay", 0x794C7630, true, true},
};

static const struct {
    const char *name;
    uint32_t magic;
    bool network;
} refused[] = {
    {"NFS", 0x6969, true},        {"SMB", 0x517B, true},      {"CIFS", 0xFF534D42, true},
    {"SMB2", 0xFE534D42, true},   {"FUSE", 0x65735546, true}, {"Ceph", 0x00C36400, true},
    {"Lustre", 0x0BD00BD0, true}, {"GPFS", 0x47504653, true}, {"BeeGFS", 0x19830326, true},
    {"OCFS2", 0x7461636F, true},  {"GFS2", 0x01161970, true}, {"9p", 0x01021997, true},
    {"vboxsf", 0x786F4256, true}, {"AFS", 0x5346414F, true},  {"AFS", 0x6B414653, true},
    {"Coda", 0x73757245, true},   {"FAT", 0x4D44, false},     {"exFAT", 0x2011BAB0, false},
};

/* -- the file system's type -- */

struct mount_key {
    uint64_t id; /* 0: unknown */
    unsigned major, minor;
};

/* Parses "36 35 98:0 /root /point rw shared:1 - ext4 /dev/x rw". */
static bool match_line(struct str line, const struct mount_key *key, char *type, size_t cap)
{
    struct str rest = line, part;
    uint64_t id;
    char device[32];
    bool same = false;
    (void)snprintf(device, sizeof device, "%u:%u", key->major, key->minor);
    for (int field = 1; str_split(&rest, ' ', &part); field++) {
        if (field == 1 && key->id != 0) same = str_to_u64(part, &id) == ERR_OK && id == key->id;
        if (field == 3 && key->id == 0) same = str_equal(part, str_from(device));
        if (field > 6 && str_equal(part, STR("-"))) break;
    }
    if (!same || !str_split(&rest, ' ', &part) || part.len == 0 || part.len >= cap) return false;
    memcpy(type, part.at, part.len);
    type[part.len] = '\0';
    return true;
}

static bool search_mounts(const struct mount_key *key, char *type, size_t cap)
{
    FILE *mounts = fopen("/proc/self/mountinfo", "re");
    char *line = NULL;
    size_t room = 0;
    bool found = false;
    if (mounts == NULL) return false;
    while (!found) {
        ssize_t len = getline(&line, &room, mounts);
        if (len <= 0) break;
        found = match_line(str_trim(str_of(line, (size_t)len)), key, type, cap);
    }
    free(line);
    (void)fclose(mounts);
    return found;
}

/* Uses the mount id if possible, because the device of a btrfs subvolume is in no mount table.
 * Also returns false in a chroot below the mount point. */
static bool mount_type(int dir, char *type, size_t cap)
{
    struct statx info;
    if (statx(dir, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_MNT_ID, &info) < 0) return false;
    struct mount_key key = {.major = info.stx_dev_major, .minor = info.stx_dev_minor};
    if ((info.stx_mask & STATX_MNT_ID) != 0) key.id = info.stx_mnt_id;
    if (key.id != 0 && search_mounts(&key, type, cap)) return true;
    key.id = 0;
    return search_mounts(&key, type, cap);
}

static coord_result refuse(const struct medium *medium)
{
    if (medium->known != NULL && medium->network) {
        return prim_answer(COORD_UNSUPPORTED, COORD_R_FILE_SYSTEM,
                           "%s (%s): its locks, renames and clocks cannot be relied on between "
                           "hosts; netfs=create-only allows create and get without leases",
                           medium->known, medium->type);
    }
    return prim_answer(COORD_UNSUPPORTED, COORD_R_FILE_SYSTEM,
                       "%s with magic 0x%" PRIx64 " is not a file system that may carry a store",
                       medium->type, (uint64_t)medium->magic);
}

coord_result admission_look(int dir, struct medium *ret_medium)
{
    struct statfs info;
    struct medium medium = {.type = "?"};
    if (fstatfs(dir, &info) < 0) return file_trouble(errno, "statfs");
    medium.magic = (int64_t)(uint32_t)info.f_type;
    bool typed = mount_type(dir, medium.type, sizeof medium.type);
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        if (medium.magic != refused[i].magic) continue;
        medium.known = refused[i].name;
        medium.network = refused[i].network;
    }
    *ret_medium = medium;
    for (size_t i = 0; i < ARRAY_LEN(accepted); i++) {
        if (medium.magic != accepted[i].magic) continue;
        if (typed && strcmp(medium.type, accepted[i].type) != 0) continue;
        if (!typed) strcpy(ret_medium->type, accepted[i].type); /* ext2 counts as ext4 then */
        ret_medium->durable = accepted[i].durable;
        ret_medium->overlay = accepted[i].overlay;
        return prim_ok(COORD_R_NONE);
    }
    return refuse(ret_medium);
}

/* -- probes -- */

static coord_result admission_failed(const char *probe, int error)
{
    if (error == ENOSPC || error == EDQUOT || error == EIO || error == EROFS || error == EACCES ||
        error == EMFILE || error == ENFILE)
        return file_trouble(error, probe); /* proves nothing about the file system */
    return prim_answer(COORD_UNSUPPORTED, COORD_R_FILE_SYSTEM, "probe %s failed%s%s", probe,
                       error != 0 ? ": " : "", error != 0 ? strerrordesc_np(error) : "");
}

struct probe {
    int dir;
    char a[LAYOUT_TEMP_CAP], b[LAYOUT_TEMP_CAP];
};

static int admission_touch(const struct file_store *store, int dir, const char *name)
{
    int fd = sys_open(dir, name, O_RDWR | O_CREAT | O_EXCL, file_mode(store));
    if (fd < 0) return errno;
    sys_close(fd);
    return 0;
}

static coord_result probe_link(const struct probe *probe)
{
    struct stat info;
    if (linkat(probe->dir, probe->a, probe->dir, probe->b, 0) < 0)
        return admission_failed("link", errno);
    if (fstatat(probe->dir, probe->a, &info, 0) < 0 || info.st_nlink != 2)
        return admission_failed("link", 0);
    if (linkat(probe->dir, probe->a, probe->dir, probe->b, 0) == 0 || errno != EEXIST)
        return admission_failed("no_clobber_link", 0);
    return prim_ok(COORD_R_NONE);
}

static coord_result probe_names(const struct probe *probe)
{
    struct stat info;
    if (renameat2(probe->dir, probe->a, probe->dir, probe->b, RENAME_NOREPLACE) == 0)
        return admission_failed("no_clobber_rename", 0);
    if (errno != EEXIST && errno != EINVAL && errno != ENOSYS)
        return admission_failed("no_clobber_rename", errno);
    if (renameat(probe->dir, probe->a, probe->dir, probe->b) < 0)
        return admission_failed("replace_by_rename", errno);
    if (fstatat(probe->dir, probe->a, &info, 0) == 0 || fstatat(probe->dir, probe->b, &info, 0) < 0)
        return admission_failed("replace_by_rename", 0);
    return prim_ok(COORD_R_NONE);
}

static coord_result probe_locks(const struct probe *probe)
{
    int first = sys_open(probe->dir, probe->b, O_RDWR, 0);
    int second = first < 0 ? -1 : sys_open(probe->dir, probe->b, O_RDWR, 0);
    coord_result result = prim_ok(COORD_R_NONE);
    if (second < 0) {
        result = admission_failed("open", errno);
    } else if (sys_lock(first, 0, LOCK_EXCLUSIVE) != 0) {
        result = admission_failed("lock", 0);
    } else if (sys_lock(second, 0, LOCK_EXCLUSIVE) != EAGAIN) {
        result = admission_failed("lock_conflict", 0);
    } else {
        sys_close(first);
        first = -1;
        if (sys_lock(second, 0, LOCK_EXCLUSIVE) != 0)
            result = admission_failed("lock_freed_on_close", 0);
    }
    sys_close(first);
    sys_close(second);
    return result;
}

static coord_result await_rename(struct file_store *store, const struct probe *probe, int fd)
{
    char path[40], events[4096];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", probe->dir);
    if (inotify_add_watch(fd, path, IN_MOVED_TO | IN_ONLYDIR) < 0) {
        if (errno != ENOSPC && errno != ENOMEM) return admission_failed("inotify", errno);
        atomic_store(&store->poll, true);
        return prim_ok(COORD_R_NONE);
    }
    if (renameat(probe->dir, probe->b, probe->dir, probe->a) < 0)
        return admission_failed("inotify", errno);
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    int ready;
    do {
        ready = poll(&wait, 1, 1000);
    } while (ready < 0 && errno == EINTR);
    if (ready <= 0 || read(fd, events, sizeof events) <= 0) return admission_failed("inotify", 0);
    return prim_ok(COORD_R_NONE);
}

static coord_result probe_events(struct file_store *store, const struct probe *probe)
{
    int fd = sys_inotify();
    if (fd < 0) {
        atomic_store(&store->poll, true); /* without inotify, polling finds the changes (B2.10) */
        return prim_ok(COORD_R_NONE);
    }
    coord_result result = await_rename(store, probe, fd);
    sys_close(fd);
    return result;
}

coord_result admission_probe(struct file_store *store)
{
    struct probe probe = {.dir = store->meta};
    file_temp_name(store, probe.a);
    file_temp_name(store, probe.b);
    int error = admission_touch(store, probe.dir, probe.a);
    coord_result result = error == 0 ? probe_link(&probe) : admission_failed("create", error);
    if (result.code == COORD_OK && !store->settings.create_only) {
        (void)unlinkat(probe.dir, probe.b, 0); /* `b` becomes a second file, not a second link */
        error = admission_touch(store, probe.dir, probe.b);
        result = error == 0 ? probe_names(&probe) : admission_failed("create", error);
        if (result.code == COORD_OK) result = probe_locks(&probe);
        if (result.code == COORD_OK) result = probe_events(store, &probe);
    }
    (void)unlinkat(probe.dir, probe.a, 0);
    (void)unlinkat(probe.dir, probe.b, 0);
    return result;
}

coord_result admission_clock(void)
{
    char text[256] = {0};
    size_t got = 0;
    int error = sys_read_file(AT_FDCWD, "/proc/self/timens_offsets", text, sizeof text - 1, &got);
    if (error != 0) { return prim_ok(COORD_R_NONE); } /* a kernel without time namespaces */
    const char *line = strstr(text, "boottime");
    if (line == NULL) return prim_ok(COORD_R_NONE);
    char *end;
    long long seconds = strtoll(line + strlen("boottime"), &end, 10);
    long long nanoseconds = strtoll(end, NULL, 10);
    if (seconds == 0 && nanoseconds == 0) return prim_ok(COORD_R_NONE);
    return prim_answer(COORD_UNSUPPORTED, COORD_R_FILE_SYSTEM,
                       "timens: CLOCK_BOOTTIME is shifted by %lld s in this time namespace",
                       seconds);
}
