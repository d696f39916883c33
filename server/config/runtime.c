/* The runtime section: addresses, and the checks that need more than one key. */
#include "config/runtime.h"

#include "config/address.h"
#include "config/budget.h"
#include "config/draft.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

void lk_runtime_done(struct lk_runtime *runtime)
{
    for (uint32_t i = 0; i < runtime->n_listen; i++)
        free(runtime->listen[i]);
    free(runtime->listen);
    free(runtime->run_dir);
    free(runtime->fd_socket);
    free(runtime->http);
    free(runtime->workers_listen);
    free(runtime->worker_token_file);
    free(runtime->snapshot_dir);
    free(runtime->counts_dir);
    free(runtime->index_dir);
    *runtime = (struct lk_runtime){0};
}

static enum lk_code read_url(struct lk_reading *r, const struct lk_key *key,
                             const struct lk_yaml *node, char **ret_url)
{
    if (node->kind != LK_YAML_SCALAR)
        return lk_read_expected(r, key, node, NULL);
    const char *problem = lk_address_parse(node->text, r->dir, ret_url);
    return problem == NULL ? LK_OK : lk_read_expected(r, key, node, problem);
}

static enum lk_code add_listen(struct lk_reading *r, const struct lk_key *key,
                               const struct lk_yaml *node, struct lk_runtime *runtime)
{
    char *url = NULL;
    LK_TRY(read_url(r, key, node, &url));
    LK_CHECK(url != NULL);
    for (uint32_t i = 0; i < runtime->n_listen; i++) {
        if (strcmp(runtime->listen[i], url) != 0)
            continue;
        free(url);
        return lk_read_fail(r, node, "this address is given twice");
    }
    runtime->listen[runtime->n_listen++] = url;
    return LK_OK;
}

enum lk_code lk_read_listen(struct lk_reading *r, const struct lk_key *key,
                            const struct lk_yaml *node, void *object)
{
    struct lk_runtime *runtime = &((struct lk_root_draft *)object)->config.runtime;
    if (node->kind == LK_YAML_MAP ||
        (node->kind == LK_YAML_LIST && (node->n == 0 || node->n > LK_LISTEN_MAX)))
        return lk_read_expected(r, key, node, NULL);
    runtime->listen = lk_zalloc(LK_LISTEN_MAX, sizeof *runtime->listen);
    if (node->kind == LK_YAML_SCALAR)
        return add_listen(r, key, node, runtime);
    for (uint32_t i = 0; i < node->n; i++) {
        size_t mark = lk_path_push_index(r, i);
        LK_TRY(add_listen(r, key, &node->item[i], runtime));
        lk_path_pop(r, mark);
    }
    return LK_OK;
}

enum lk_code lk_read_address(struct lk_reading *r, const struct lk_key *key,
                             const struct lk_yaml *node, void *object)
{
    char *url = NULL;
    LK_TRY(read_url(r, key, node, &url));
    memcpy((char *)object + key->offset, &url, sizeof url);
    return LK_OK;
}

enum lk_code lk_read_host_port(struct lk_reading *r, const struct lk_key *key,
                               const struct lk_yaml *node, void *object)
{
    if (node->kind != LK_YAML_SCALAR)
        return lk_read_expected(r, key, node, NULL);
    const char *problem = lk_host_port_check(node->text);
    if (problem != NULL)
        return lk_read_expected(r, key, node, problem);
    char *text = lk_strdup(node->text);
    memcpy((char *)object + key->offset, &text, sizeof text);
    return LK_OK;
}

/* Processors that this process may use, which in a container are fewer than the machine has. */
static uint32_t usable_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int n = CPU_COUNT(&set);
    return n < 1 ? 1 : n > LK_WORKERS_MAX ? LK_WORKERS_MAX : (uint32_t)n;
}

static enum lk_code settle_sockets(struct lk_reading *r, const struct lk_yaml *at,
                                   struct lk_runtime *runtime)
{
    if (runtime->fd_socket == NULL)
        runtime->fd_socket = lk_format("%s/memory.sock", runtime->run_dir);
    if (strlen(runtime->fd_socket) > LK_SOCKET_PATH_MAX)
        return lk_read_fail(r, at,
                            "fd_socket: the whole path of the socket is longer than 107 bytes; set "
                            "\"run_dir\" or \"fd_socket\" to a shorter one");
    if (runtime->n_listen > 0)
        return LK_OK;
    char *text = lk_format("ipc://%s/lanekeeper.sock", runtime->run_dir), *url = NULL;
    const char *problem = lk_address_parse(text, NULL, &url);
    free(text);
    if (problem != NULL)
        return lk_read_fail(r, at, "listen: %s; set \"run_dir\" or \"listen\" to a shorter one",
                            problem);
    runtime->listen = lk_zalloc(1, sizeof *runtime->listen);
    runtime->listen[runtime->n_listen++] = url;
    return LK_OK;
}

static enum lk_code check_workers(struct lk_reading *r, const struct lk_yaml *at,
                                  const struct lk_runtime *runtime)
{
    if (runtime->workers == 0 && runtime->workers_listen == NULL)
        return lk_read_fail(r, at,
                            "workers: expected at least 1, or \"workers_listen\" for those of other "
                            "machines: found 0 and none, so nothing could be read");
    if (runtime->workers_listen != NULL && runtime->worker_token_file == NULL)
        return lk_read_fail(r, at,
                            "workers_listen: expected \"worker_token_file\" beside it, found none: "
                            "anyone who can reach the address could join and make up tokens");
    return LK_OK;
}

enum lk_code lk_finish_runtime(struct lk_reading *r, const struct lk_yaml *root,
                               struct lk_config *config)
{
    struct lk_runtime *runtime = &config->runtime;
    const struct lk_yaml *node = lk_yaml_get(root, "runtime");
    const struct lk_yaml *at = node != NULL ? node : root;
    size_t mark = lk_path_push(r, "runtime");
    if (runtime->workers == UINT32_MAX)
        runtime->workers = usable_cores();
    LK_TRY(settle_sockets(r, at, runtime));
    LK_TRY(check_workers(r, at, runtime));
    LK_TRY(lk_check_budgets(r, at, config));
    lk_path_pop(r, mark);
    return LK_OK;
}
