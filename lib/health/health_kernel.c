/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the links, and the bytes waiting in their queues, by rtnetlink. */
#include "health/health_campaign.h"

#include <linux/gen_stats.h>
#include <linux/if.h>
#include <linux/netlink.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/tick.h"

enum { ANSWER_BYTES = 32 << 10 };

/* If samples are further apart the queue may have been empty in between. */
static const double apart_s = 5e-3;

typedef void (*answer_fn)(struct health_kernel *k, const struct nlmsghdr *h, void *arg);

/* Reads one dump, message by message; -1 if the kernel rejects the request. */
static int dump(struct health_kernel *k, int type, answer_fn take, void *arg)
{
    _Alignas(struct nlmsghdr) char space[ANSWER_BYTES];
    struct {
        struct nlmsghdr head;
        union {
            struct tcmsg tc;
            struct ifinfomsg link;
        } body;
    } request;

    memset(&request, 0, sizeof request);
    request.head.nlmsg_len = sizeof request;
    request.head.nlmsg_type = (unsigned short)type;
    request.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    request.body.link.ifi_family = AF_UNSPEC;
    if (k->fd < 0 || send(k->fd, &request, sizeof request, 0) != sizeof request)
        return -1;
    for (;;) {
        ssize_t got = recv(k->fd, space, sizeof space, 0);
        if (got <= 0)
            return -1;
        unsigned left = (unsigned)got;
        for (struct nlmsghdr *h = (struct nlmsghdr *)(void *)space; NLMSG_OK(h, left);
             h = NLMSG_NEXT(h, left)) {
            if (h->nlmsg_type == NLMSG_DONE)
                return 0;
            if (h->nlmsg_type == NLMSG_ERROR)
                return -1;
            take(k, h, arg);
        }
    }
}

static const struct rtattr *kernel_find(const struct rtattr *a, int bytes, int type)
{
    for (; RTA_OK(a, bytes); a = RTA_NEXT(a, bytes))
        if ((a->rta_type & NLA_TYPE_MASK) == type)
            return a;
    return NULL;
}

/* ---- links ---- */

static int has_carrier(const struct ifinfomsg *info)
{
    return (info->ifi_flags & IFF_UP) && (info->ifi_flags & IFF_LOWER_UP);
}

static const struct rtattr *attribute(const struct nlmsghdr *h, int type)
{
    const struct ifinfomsg *info = NLMSG_DATA(h);
    int left = (int)h->nlmsg_len - (int)NLMSG_LENGTH(sizeof *info);

    return kernel_find(IFLA_RTA(info), left, type);
}

static int64_t downs_of(const struct nlmsghdr *h)
{
    const struct rtattr *a = attribute(h, IFLA_CARRIER_DOWN_COUNT);
    uint32_t count = 0;

    if (!a || RTA_PAYLOAD(a) < sizeof count)
        return -1;
    memcpy(&count, RTA_DATA(a), sizeof count);
    return count;
}

static void take_link(struct health_kernel *k, const struct nlmsghdr *h, void *arg)
{
    const struct ifinfomsg *info = NLMSG_DATA(h);
    const struct rtattr *name = attribute(h, IFLA_IFNAME);

    (void)arg;
    if ((info->ifi_flags & IFF_LOOPBACK) || !has_carrier(info) || k->links == HEALTH_LINKS_MOST)
        return;
    k->link[k->links].index = info->ifi_index;
    k->link[k->links].downs = downs_of(h);
    if (name)
        strncpy(k->link[k->links].name, RTA_DATA(name), sizeof k->link[0].name - 1);
    k->links++;
}

static void take_change(struct health_kernel *k, const struct nlmsghdr *h, void *arg)
{
    const struct ifinfomsg *info = NLMSG_DATA(h);
    struct health_change *most = arg;

    for (int i = 0; i < k->links; i++) {
        if (k->link[i].index != info->ifi_index)
            continue;
        int64_t now = downs_of(h), downs = now < 0 ? -1 : now - k->link[i].downs;
        int lost = !has_carrier(info);
        if (lost < most->lost || (lost == most->lost && downs <= most->downs))
            continue;
        most->lost = lost;
        most->downs = downs;
        memcpy(most->name, k->link[i].name, sizeof most->name);
    }
}

void health_kernel_open(struct health_kernel *k)
{
    struct timeval patience = {.tv_usec = 100000};

    memset(k, 0, sizeof *k);
    k->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (k->fd >= 0)
        setsockopt(k->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    dump(k, RTM_GETLINK, take_link, NULL);
}

void health_kernel_close(struct health_kernel *k)
{
    if (k->fd >= 0)
        close(k->fd);
    k->fd = -1;
}

void health_kernel_change(struct health_kernel *k, struct health_change *out)
{
    *out = (struct health_change){.downs = 0};
    dump(k, RTM_GETLINK, take_change, out);
}

/* ---- queues ---- */

static void take_queue(struct health_kernel *k, const struct nlmsghdr *h, void *arg)
{
    const struct tcmsg *tc = NLMSG_DATA(h);
    int left = (int)h->nlmsg_len - (int)NLMSG_LENGTH(sizeof *tc);
    struct health_queue *link = NULL;
    struct gnet_stats_queue queue;
    struct gnet_stats_basic basic; /* 64-bit byte count comes first */
    double now = *(const double *)arg;

    for (int i = 0; i < k->links; i++)
        if (k->link[i].index == tc->tcm_ifindex)
            link = &k->link[i];
    if (!link || tc->tcm_parent != TC_H_ROOT) /* the root's sum includes inner queues */
        return;
    const struct rtattr *stats = kernel_find(TCA_RTA(tc), left, TCA_STATS2);
    int space = stats ? (int)RTA_PAYLOAD(stats) : 0;
    const struct rtattr *q =
        stats ? kernel_find(RTA_DATA(stats), space, TCA_STATS_QUEUE) : NULL;
    const struct rtattr *b =
        stats ? kernel_find(RTA_DATA(stats), space, TCA_STATS_BASIC) : NULL;
    if (!q || !b || RTA_PAYLOAD(q) < sizeof queue || RTA_PAYLOAD(b) < sizeof basic.bytes)
        return;
    memcpy(&queue, RTA_DATA(q), sizeof queue);
    memcpy(&basic.bytes, RTA_DATA(b), sizeof basic.bytes);
    if (link->waits && queue.backlog && now - link->at_s < apart_s) {
        link->drained += (double)(basic.bytes - link->sent);
        link->drained_s += now - link->at_s;
    }
    link->sent = basic.bytes;
    link->at_s = now;
    link->waits = queue.backlog > 0;
    k->looks++;
}

void health_kernel_look(void *kernel)
{
    double now = tick_now_s();

    dump(kernel, RTM_GETQDISC, take_queue, &now);
}

void health_kernel_forget(struct health_kernel *k)
{
    k->looks = 0;
    for (int i = 0; i < k->links; i++) {
        k->link[i].drained = k->link[i].drained_s = 0;
        k->link[i].waits = 0;
    }
}

double health_kernel_drain(const struct health_kernel *k)
{
    double most = 0, Bps = 0;

    for (int i = 0; i < k->links; i++)
        if (k->link[i].drained > most) {
            most = k->link[i].drained;
            Bps = most / k->link[i].drained_s;
        }
    return k->looks ? Bps : -1;
}
