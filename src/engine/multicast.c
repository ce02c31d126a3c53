/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/multicast.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_state.h"
#include "engine/explain.h"

struct engine_group {
	LIST_ENTRY(engine_group) next;
	struct engine_link *link;
	uint32_t member_count, room;
	struct engine_qp **members;
};

void groups_init(struct groups *groups)
{
	pthread_mutex_init(&groups->lock, NULL);
	LIST_INIT(&groups->list);
}

void groups_fini(struct groups *groups)
{
	struct engine_group *group;

	while ((group = LIST_FIRST(&groups->list))) {
		LIST_REMOVE(group, next);
		free(group->members);
		free(group);
	}
	pthread_mutex_destroy(&groups->lock);
}

/* --- under the lock --- */

static struct engine_group *find(struct groups *groups, const struct engine_link *link)
{
	struct engine_group *group;

	LIST_FOREACH(group, &groups->list, next)
	if (group->link == link)
		return group;
	return NULL;
}

static struct engine_group *add(struct groups *groups, struct engine_link *link)
{
	struct engine_group *group = calloc(1, sizeof(*group));

	if (!group)
		return NULL;
	group->link = link;
	LIST_INSERT_HEAD(&groups->list, group, next);
	groups->count++;
	return group;
}

/* member_count: @qp is none. */
static uint32_t index_of(const struct engine_group *group, const struct engine_qp *qp)
{
	uint32_t i = 0;

	while (i < group->member_count && group->members[i] != qp)
		i++;
	return i;
}

static int set_joined(const struct engine_group *group, bool is_joined)
{
	struct link *link = group->link->link;

	return link->ops->set_joined(link, is_joined);
}

static int add_member(struct engine_group *group, struct engine_qp *qp)
{
	int error;

	if (group->member_count == group->room) {
		uint32_t room = group->room ? 2 * group->room : 4;
		struct engine_qp **members = realloc(group->members, room * sizeof(void *));

		if (!members)
			return -ENOMEM;
		group->members = members;
		group->room = room;
	}
	error = group->member_count ? 0 : set_joined(group, true);
	if (error)
		return error;
	group->members[group->member_count++] = qp;
	qp->group_count++;
	return 0;
}

static void remove_member(struct engine_group *group, uint32_t index)
{
	group->members[index]->group_count--;
	group->member_count--;
	memmove(&group->members[index], &group->members[index + 1],
		(group->member_count - index) * sizeof(void *));
	/* What fails here is a socket that is gone; nothing comes by it any more. */
	if (!group->member_count)
		set_joined(group, false);
}

/* --- calls --- */

static bool device_has_family(const struct device *device, bool is_ipv4)
{
	for (uint32_t i = 0; i < device->gid_count; i++)
		if (device->gids[i].is_valid &&
		    link_address_is_ipv4(&device->gids[i].address) == is_ipv4)
			return true;
	return false;
}

static int fill_group(const struct engine_qp *qp, const uint8_t *gid, const char *call,
		      struct link_address *address)
{
	memcpy(address->gid, gid, sizeof(address->gid));
	address->scope = qp->device->interface_index;
	if (!qp->ahs)
		return explain_call(-EINVAL, call,
				    "QP 0x%06x is connected; only UD QPs are attached to groups",
				    qp->qp->number);
	if (!link_address_is_multicast(address))
		return explain_call(-EINVAL, call,
				    "the GID is no multicast address: ff00::/8, or 224.0.0.0/4 in "
				    "its mapped form ::ffff:a.b.c.d");
	if (!device_has_family(qp->device, link_address_is_ipv4(address)))
		return explain_call(-EINVAL, call, "%s has no address of the group's kind (%s)",
				    qp->device->name,
				    link_address_is_ipv4(address) ? "IPv4" : "IPv6");
	return 0;
}

/* Under the lock. */
static int attach(struct engine_qp *qp, struct engine_link *link)
{
	struct groups *groups = &qp->engine->groups;
	struct engine_group *group = find(groups, link);

	if (!group)
		group = add(groups, link);
	if (!group)
		return -ENOMEM;
	return index_of(group, qp) < group->member_count ? 0 : add_member(group, qp);
}

/*
 * Links are kept, whoever uses them: other groups than those that were used already count. (Two
 * threads may pass here with the last one; links have a limit of their own.)
 */
static int admit(struct engine *engine, const struct link_address *address, const char *call)
{
	struct groups *groups = &engine->groups;
	int error = 0;

	if (links_find(engine, address))
		return 0;
	pthread_mutex_lock(&groups->lock);
	if (groups->count >= DEVICE_MAX_GROUPS)
		error = -ENOSPC;
	pthread_mutex_unlock(&groups->lock);
	if (error)
		return explain_call(error, call, "a process uses at most %d multicast groups",
				    DEVICE_MAX_GROUPS);
	return 0;
}

int engine_qp_attach(struct engine_qp *qp, const uint8_t *gid)
{
	static const char call[] = "ibv_attach_mcast";
	struct engine *engine = qp->engine;
	struct link_address address;
	struct engine_link *link;
	int error;

	if (engine_is_inherited(engine))
		return -EIO;
	error = fill_group(qp, gid, call, &address);
	if (!error)
		error = admit(engine, &address, call);
	if (!error)
		error = links_open(engine, &address, call, &link);
	if (error)
		return error;
	pthread_mutex_lock(&engine->groups.lock);
	error = attach(qp, link);
	pthread_mutex_unlock(&engine->groups.lock);
	helper_start(engine);
	return error ? explain_call(error, call, "the group cannot be joined on %s: %s",
				    qp->device->interface, strerror(-error))
		     : 0;
}

int engine_qp_detach(struct engine_qp *qp, const uint8_t *gid)
{
	static const char call[] = "ibv_detach_mcast";
	struct groups *groups = &qp->engine->groups;
	struct link_address address;
	struct engine_group *group;
	bool is_member;
	int error;

	if (engine_is_inherited(qp->engine))
		return -EIO;
	error = fill_group(qp, gid, call, &address);
	if (error)
		return error;
	pthread_mutex_lock(&groups->lock);
	group = find(groups, links_find(qp->engine, &address));
	is_member = group && index_of(group, qp) < group->member_count;
	if (is_member)
		remove_member(group, index_of(group, qp));
	pthread_mutex_unlock(&groups->lock);
	return is_member ? 0
			 : explain_call(-EINVAL, call, "QP 0x%06x is not attached to the group",
					qp->qp->number);
}

struct engine_qp *multicast_pin_member(struct engine *engine, const struct engine_link *link,
				       uint32_t index)
{
	struct groups *groups = &engine->groups;
	struct engine_qp *qp = NULL;
	struct engine_group *group;

	pthread_mutex_lock(&groups->lock);
	group = find(groups, link);
	/* A member cannot be destroyed, so that its number is there. */
	if (group && index < group->member_count) {
		qp = group->members[index];
		pin_table_pin(&engine->qps, qp->qp->number);
	}
	pthread_mutex_unlock(&groups->lock);
	return qp;
}
