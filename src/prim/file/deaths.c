/* SPDX-License-Identifier: Apache-2.0 */
#include "prim/file/deaths.h"

#include <poll.h>
#include <sys/epoll.h>

#include "prim/file/sys.h"

void deaths_open(struct deaths *deaths)
{
    deaths->count = 0;
    deaths->poll = sys_epoll();
}

void deaths_forget_all(struct deaths *deaths)
{
    while (deaths->count > 0) sys_close(deaths->each[--deaths->count].fd);
}

void deaths_close(struct deaths *deaths)
{
    deaths_forget_all(deaths);
    sys_close(deaths->poll);
    deaths->poll = -1;
}

void deaths_add(struct deaths *deaths, const struct host_facts *facts, const struct who *who)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.u32 = who->pid}};
    if (deaths->poll < 0 || deaths->count == DEATHS_MAX || who->pid == 0 ||
        who->pid == facts->self.pid || who->pid_namespace != facts->self.pid_namespace ||
        !facts->proc_is_ours)
        return;
    for (size_t i = 0; i < deaths->count; i++)
        if (deaths->each[i].pid == who->pid) return;
    int fd = sys_pidfd(who->pid);
    if (fd < 0) return;
    /* Dead already and not reaped: its lease was judged, and lives on in another process or in a
     * child. To hear of it again and again would be to spin. */
    struct pollfd end = {.fd = fd, .events = POLLIN};
    if (poll(&end, 1, 0) != 0 || epoll_ctl(deaths->poll, EPOLL_CTL_ADD, fd, &event) != 0) {
        sys_close(fd);
        return;
    }
    deaths->each[deaths->count++] = (struct death){who->pid, fd};
}

bool deaths_take(struct deaths *deaths, uint32_t *ret_pid)
{
    struct epoll_event event;
    if (deaths->poll < 0 || epoll_wait(deaths->poll, &event, 1, 0) <= 0) return false;
    *ret_pid = event.data.u32;
    for (size_t i = 0; i < deaths->count; i++) {
        if (deaths->each[i].pid != *ret_pid) continue;
        (void)epoll_ctl(deaths->poll, EPOLL_CTL_DEL, deaths->each[i].fd, NULL);
        sys_close(deaths->each[i].fd);
        deaths->each[i] = deaths->each[--deaths->count];
        return true;
    }
    return true;
}
