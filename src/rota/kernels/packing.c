/* Tasks on servers, one after the other: first fit, and what Synergy-Tune does for those that do not fit.
   The twin of Packing in mechanisms/divide/packing.py and of tune.py there, which say what is done and why. */
#include "arrays.h"

#include <string.h>

#define SLACK 1e-9

typedef struct {
    /* Servers. */
    int64_t *gpus, servers, free, full; /* `full`: the first so many have no free GPU */
    double *cpus, *memory;
    /* Configurations: what they hold, and the server from which on there may be room for one. */
    const double *hold_cpus, *hold_memory;
    int64_t *hints, configs;
    double fair_cpus, fair_memory;
    /* Tasks in the order of serving. */
    const int64_t *sizes, *wishes, *fair;
    int64_t tasks;
    /* What has been put; room for so many tasks and slots. */
    int64_t *task_of, *config_of, *start_of, *server_of, *part_of, rows, most, most_slots;
    int full_up; /* there was no room for a task or slot, or a server has not the GPUs that a task should have there */
    /* Who is on a server: in the order in which they were put, and from the first use on in that in which they came.
       NULL as long as nobody had to make room. */
    int64_t *here, *here_count, *here_seen, most_here, changes;
    double *came;
    int64_t *target; /* [servers] and [servers] servers and GPUs of slots, and rows on a server */
} Packing;

static inline double part_of_whole(double whole, int64_t part, int64_t size)
{
    return whole * (double)part / (double)size;
}

static int64_t first_server(Packing *p, int64_t wish)
{
    double cpus = p->hold_cpus[wish], memory = p->hold_memory[wish];
    int64_t server = p->hints[wish] > p->full ? p->hints[wish] : p->full;
    while (server < p->servers && (p->gpus[server] == 0 || p->cpus[server] < cpus || p->memory[server] < memory))
        server++;
    p->hints[wish] = server;
    return server;
}

static void skip_full(Packing *p)
{
    while (p->full < p->servers && p->gpus[p->full] == 0)
        p->full++;
}

/* Whether another task with so many slots can be written down. */
static int has_room(Packing *p, int64_t slots)
{
    p->full_up |= p->rows >= p->most || slots > p->most_slots - p->start_of[p->rows];
    return !p->full_up;
}

/* So many, or fewer if there is not enough for them. */
static inline int64_t fewer(int64_t part, double enough)
{
    if (enough < (double)part)
        return enough > 0 ? (int64_t)enough : 0;
    return part;
}

/* Where a task would go, behind the slots of those that are there; how many slots, 0 if there is no room. */
static int64_t fit(Packing *p, int64_t size, int64_t wish)
{
    int64_t *server_of = p->server_of + p->start_of[p->rows], *part_of = p->part_of + p->start_of[p->rows], slots = 0;
    if (p->hints[wish] >= p->servers)
        return 0; /* it has failed before */
    skip_full(p);
    if (!has_room(p, 1))
        return 0;
    if (size == 1) {
        server_of[0] = first_server(p, wish);
        part_of[0] = 1;
        return server_of[0] < p->servers;
    }
    double cpus = p->hold_cpus[wish] / (double)size, memory = p->hold_memory[wish] / (double)size;
    for (int64_t server = p->full; server < p->servers; server++) {
        int64_t part = p->gpus[server] < size ? p->gpus[server] : size;
        if (part > 0 && cpus > 0)
            part = fewer(part, p->cpus[server] / cpus);
        if (part > 0 && memory > 0)
            part = fewer(part, p->memory[server] / memory);
        if (part <= 0)
            continue;
        if (!has_room(p, slots + 1))
            return 0;
        server_of[slots] = server;
        part_of[slots++] = part;
        size -= part;
        if (size == 0)
            return slots;
    }
    p->hints[wish] = p->servers;
    return 0;
}

/* Let a task hold the slots that `fit` found. */
static void put(Packing *p, int64_t task, int64_t size, int64_t wish, int64_t slots)
{
    int64_t begin = p->start_of[p->rows], end = begin + slots;
    for (int64_t slot = begin; slot < end; slot++) {
        int64_t server = p->server_of[slot], part = p->part_of[slot];
        if (part > p->gpus[server]) {
            p->full_up = 1;
            return;
        }
        p->gpus[server] -= part;
        p->cpus[server] -= part_of_whole(p->hold_cpus[wish], part, size);
        p->memory[server] -= part_of_whole(p->hold_memory[wish], part, size);
        if (p->here != NULL)
            p->here[server * p->most_here + p->here_count[server]++] = p->rows;
    }
    p->free -= size;
    p->task_of[p->rows] = task;
    p->config_of[p->rows] = wish;
    p->start_of[++p->rows] = end;
}

static int beyond(const Packing *p, int64_t size, int64_t wish)
{
    return p->hold_cpus[wish] > (double)size * p->fair_cpus + SLACK ||
           p->hold_memory[wish] > (double)size * p->fair_memory + SLACK;
}

/* The rows on a server. */
static int64_t *tasks_on(Packing *p, int64_t server)
{
    int64_t *here = p->here + server * p->most_here, count = p->here_count[server];
    if (!p->here_seen[server] && p->changes)
        for (int64_t i = 1; i < count; i++) {
            int64_t moving = here[i], at = i;
            for (; at > 0 && p->came[moving] < p->came[here[at - 1]]; at--)
                here[at] = here[at - 1];
            here[at] = moving;
        }
    p->here_seen[server] = 1;
    return here;
}

/* Who gives first: those on few servers, then those with much per GPU. */
static int greedier(const Packing *p, int64_t a, int64_t b)
{
    int64_t slots_a = p->start_of[a + 1] - p->start_of[a], slots_b = p->start_of[b + 1] - p->start_of[b];
    if (slots_a != slots_b)
        return slots_a < slots_b;
    double size_a = (double)p->sizes[p->task_of[a]], size_b = (double)p->sizes[p->task_of[b]];
    double cpus_a = p->hold_cpus[p->config_of[a]] / size_a, cpus_b = p->hold_cpus[p->config_of[b]] / size_b;
    if (cpus_a != cpus_b)
        return cpus_a > cpus_b;
    return p->hold_memory[p->config_of[a]] / size_a > p->hold_memory[p->config_of[b]] / size_b;
}

/* Let a task hold another configuration on the same GPUs; it counts as the last that came to its servers. */
static void change(Packing *p, int64_t row, int64_t wish)
{
    int64_t size = p->sizes[p->task_of[row]], old = p->config_of[row], known = p->came[row] != (double)row;
    p->came[row] = (double)p->rows - 0.5 + 1e-6 * (double)p->changes;
    p->changes += !known;
    for (int64_t slot = p->start_of[row]; slot < p->start_of[row + 1]; slot++) {
        int64_t server = p->server_of[slot], part = p->part_of[slot];
        p->cpus[server] += part_of_whole(p->hold_cpus[old] - p->hold_cpus[wish], part, size);
        p->memory[server] += part_of_whole(p->hold_memory[old] - p->hold_memory[wish], part, size);
        for (int64_t config = 0; config < p->configs; config++) /* there may be room on it again */
            p->hints[config] = p->hints[config] < server ? p->hints[config] : server;
        if (!p->here_seen[server])
            continue;
        int64_t *here = tasks_on(p, server), count = p->here_count[server], at = 0;
        while (here[at] != row)
            at++;
        memmove(here + at, here + at + 1, (size_t)(count - at - 1) * sizeof(int64_t));
        here[count - 1] = row;
    }
    p->config_of[row] = wish;
}

/* Let others on a server give back what they hold beyond their share, until so much is free there. */
static void make_room(Packing *p, int64_t server, double cpus, double memory, int64_t *chosen)
{
    double lack_cpus = cpus - p->cpus[server], lack_memory = memory - p->memory[server];
    if (lack_cpus <= SLACK && lack_memory <= SLACK)
        return;
    int64_t *here = tasks_on(p, server), count = p->here_count[server], givers = 0;
    for (int64_t i = 1; i < count; i++) {
        int64_t moving = here[i], at = i;
        for (; at > 0 && greedier(p, moving, here[at - 1]); at--)
            here[at] = here[at - 1];
        here[at] = moving;
    }
    while (givers < count && (givers == 0 || lack_cpus > SLACK || lack_memory > SLACK)) {
        int64_t row = here[givers], slot = p->start_of[row], config = p->config_of[row];
        while (p->server_of[slot] != server)
            slot++;
        double part = (double)p->part_of[slot], ratio = part / (double)p->sizes[p->task_of[row]];
        double more_cpus = p->hold_cpus[config] * ratio - part * p->fair_cpus;
        double more_memory = p->hold_memory[config] * ratio - part * p->fair_memory;
        lack_cpus -= more_cpus > 0 ? more_cpus : 0.0;
        lack_memory -= more_memory > 0 ? more_memory : 0.0;
        chosen[givers++] = row;
    }
    for (int64_t i = 0; i < givers; i++) {
        int64_t task = p->task_of[chosen[i]];
        change(p, chosen[i], beyond(p, p->sizes[task], p->wishes[task]) ? p->fair[task] : p->wishes[task]);
    }
}

/* The servers on which a task that finds no room will displace others: one with all the GPUs if there is one, otherwise
   those with the fewest free GPUs; how many slots that makes. */
static int64_t emptied(Packing *p, int64_t size, int64_t *server_of, int64_t *part_of)
{
    int64_t slots = 0;
    skip_full(p);
    if (size > 1)
        for (int64_t server = p->full; server < p->servers; server++)
            if (p->gpus[server] >= size) {
                server_of[0] = server;
                part_of[0] = size;
                return 1;
            }
    for (int64_t level = 1; level <= p->most_here && size > 0; level++)
        for (int64_t server = p->full; server < p->servers && size > 0; server++)
            if (p->gpus[server] == level) {
                server_of[slots] = server;
                part_of[slots] = level < size ? level : size;
                size -= part_of[slots++];
            }
    return slots;
}

/* What happens to a task whose wish does not fit. */
static void squeeze(Packing *p, int64_t task, int64_t size, int64_t wish)
{
    int64_t slots = 0, *servers = p->target, *parts = servers + p->servers, *chosen = parts + p->servers;
    if (beyond(p, size, wish)) {
        wish = p->fair[task];
        slots = fit(p, size, wish);
    }
    if (slots == 0) {
        int64_t count = emptied(p, size, servers, parts);
        for (int64_t i = 0; i < count; i++)
            make_room(p, servers[i], part_of_whole(p->hold_cpus[wish], parts[i], size),
                      part_of_whole(p->hold_memory[wish], parts[i], size), chosen);
        slots = fit(p, size, wish);
        if (slots == 0) {
            if (!has_room(p, count))
                return;
            memcpy(p->server_of + p->start_of[p->rows], servers, (size_t)count * sizeof(int64_t));
            memcpy(p->part_of + p->start_of[p->rows], parts, (size_t)count * sizeof(int64_t));
            slots = count;
        }
    }
    put(p, task, size, wish, slots);
}

/* Memory for who is on which server, in one piece: NULL if there is none. A server has no more tasks than GPUs, free or
   taken. */
static int64_t *prepare(Packing *p)
{
    int64_t *gpus = PyMem_Malloc((size_t)p->servers * sizeof(int64_t)), used = p->start_of[p->rows];
    if (gpus == NULL)
        return NULL;
    memcpy(gpus, p->gpus, (size_t)p->servers * sizeof(int64_t));
    for (int64_t slot = 0; slot < used; slot++)
        gpus[p->server_of[slot]] += p->part_of[slot];
    p->most_here = 0;
    for (int64_t server = 0; server < p->servers; server++)
        p->most_here = gpus[server] > p->most_here ? gpus[server] : p->most_here;
    PyMem_Free(gpus);
    if (p->most_here > MOST_COUNT)
        return NULL;
    size_t items = (size_t)(p->servers * (p->most_here + 4) + p->most + p->most_here);
    int64_t *memory = PyMem_Malloc(items * sizeof(int64_t));
    if (memory == NULL)
        return NULL;
    p->here = memory;
    p->here_count = p->here + p->servers * p->most_here;
    p->here_seen = p->here_count + p->servers;
    p->came = (double *)(p->here_seen + p->servers);
    p->target = (int64_t *)p->came + p->most;
    memset(p->here_count, 0, (size_t)(2 * p->servers) * sizeof(int64_t));
    for (int64_t row = 0; row < p->most; row++)
        p->came[row] = (double)row;
    for (int64_t row = 0; row < p->rows; row++)
        for (int64_t slot = p->start_of[row]; slot < p->start_of[row + 1]; slot++)
            p->here[p->server_of[slot] * p->most_here + p->here_count[p->server_of[slot]]++] = row;
    return memory;
}

/* Whether a task would find room on exactly the slots behind those that are there. */
static int fits_there(const Packing *p, int64_t size, int64_t wish, int64_t slots)
{
    int64_t begin = p->start_of[p->rows];
    for (int64_t slot = begin; slot < begin + slots; slot++) {
        int64_t server = p->server_of[slot], part = p->part_of[slot];
        if (p->gpus[server] < part || p->cpus[server] < part_of_whole(p->hold_cpus[wish], part, size) ||
            p->memory[server] < part_of_whole(p->hold_memory[wish], part, size))
            return 0;
    }
    return 1;
}

/* Let a task go on where it was, with its wish or else what it is cut to; others make room if they may. Whether it
   could. */
static int stay_there(Packing *p, int64_t task, const int64_t *server, const int64_t *part, int64_t slots, int squeezes)
{
    int64_t size = p->sizes[task], wish = p->wishes[task], begin = p->start_of[p->rows];
    if (!has_room(p, slots))
        return 0;
    memcpy(p->server_of + begin, server, (size_t)slots * sizeof(int64_t));
    memcpy(p->part_of + begin, part, (size_t)slots * sizeof(int64_t));
    if (!fits_there(p, size, wish, slots))
        wish = p->fair[task];
    if (!fits_there(p, size, wish, slots)) {
        if (!squeezes || (p->here == NULL && prepare(p) == NULL))
            return 0;
        for (int64_t i = 0; i < slots; i++)
            make_room(p, server[i], part_of_whole(p->hold_cpus[wish], part[i], size),
                      part_of_whole(p->hold_memory[wish], part[i], size), p->target);
    }
    put(p, task, size, wish, slots);
    return 1;
}

/* Let a task go where there is room, or if it may where others make room; 0 if memory for that was missing. */
static int go_anywhere(Packing *p, int64_t task, int squeezes)
{
    int64_t size = p->sizes[task], wish = p->wishes[task];
    if (size > p->free)
        return 1;
    int64_t slots = fit(p, size, wish);
    if (slots > 0) {
        put(p, task, size, wish, slots);
    } else if (squeezes) {
        if (p->here == NULL && prepare(p) == NULL)
            return 0;
        squeeze(p, task, size, wish);
    }
    return 1;
}

static const Parameter walk_parameters[] = {
    {"gpus", 'Q', "S", COUNT, 0},
    {"cpus", 'D', "S", 0, 0},
    {"memory", 'D', "S", 0, 0},
    {"hold_cpus", 'd', "C", 0, 0},
    {"hold_memory", 'd', "C", 0, 0},
    {"sizes", 'q', "N", COUNT, 1},
    {"wishes", 'q', "N", 'C', 0},
    {"cut", 'q', "N", 'C', 0},
    {"task_of", 'Q', "M", 0, 0},
    {"config_of", 'Q', "M", 0, 0},
    {"start_of", 'Q', "U", 0, 0},
    {"server_of", 'Q', "P", 0, 0},
    {"part_of", 'Q', "P", 0, 0},
    {"stay_start", 'q', "Y", 0, 0},
    {"stay_server", 'q', "Z", 'S', 0},
    {"stay_part", 'q', "Z", COUNT, 1},
    {"at", 'n', NULL, 0, 0},
    {"rows", 'n', NULL, 0, 0},
    {"free", 'n', NULL, 0, 0},
    {"fair_cpus", 'f', NULL, 0, 0},
    {"fair_memory", 'f', NULL, 0, 0},
    {"squeezes", 't', NULL, 0, 0},
};
SIGNATURE(walk);

/* Whether starts of slots ascend within so many slots. */
static int ascends(const int64_t *start, int64_t tasks, int64_t slots)
{
    int fine = start[0] >= 0 && start[tasks] <= slots;
    for (int64_t task = 0; task < tasks; task++)
        fine &= start[task] <= start[task + 1];
    return fine;
}

/* Whether what has been put before makes sense. */
static int is_sound(const Packing *p)
{
    if (p->start_of[0] != 0 || !ascends(p->start_of, p->rows, p->most_slots))
        return 0;
    int fine = 1;
    for (int64_t row = 0; row < p->rows; row++)
        fine &= p->task_of[row] >= 0 && p->task_of[row] < p->tasks && p->config_of[row] >= 0 &&
                p->config_of[row] < p->configs;
    for (int64_t slot = 0; slot < p->start_of[p->rows]; slot++)
        fine &= p->server_of[slot] >= 0 && p->server_of[slot] < p->servers && p->part_of[slot] > 0 &&
                p->part_of[slot] <= MOST_COUNT;
    return fine;
}

KERNEL(walk)
{
    Arrays held;
    if (!TAKE(held, walk))
        return NULL;
    int64_t at = WHOLE(held, 16), staying = LENGTH(held, 13) - 1;
    int squeezes = WHOLE(held, 21) != 0, fine = 1;
    Packing p = {.rows = WHOLE(held, 17), .free = WHOLE(held, 18), .fair_cpus = NUMBER(held, 19),
                 .fair_memory = NUMBER(held, 20)};
    p.gpus = INTS(held, 0), p.cpus = FLOATS(held, 1), p.memory = FLOATS(held, 2), p.servers = LENGTH(held, 0);
    p.hold_cpus = FLOATS(held, 3), p.hold_memory = FLOATS(held, 4), p.configs = LENGTH(held, 3);
    p.sizes = INTS(held, 5), p.wishes = INTS(held, 6), p.fair = INTS(held, 7), p.tasks = LENGTH(held, 6);
    p.most = LENGTH(held, 8), p.task_of = INTS(held, 8), p.config_of = INTS(held, 9), p.start_of = INTS(held, 10);
    p.server_of = INTS(held, 11), p.part_of = INTS(held, 12), p.most_slots = LENGTH(held, 11);
    const int64_t *start = INTS(held, 13), *server = INTS(held, 14), *part = INTS(held, 15);
    if (LENGTH(held, 10) != p.most + 1 || p.rows < 0 || p.rows > p.most || !is_sound(&p))
        return arrays_refuse(&held, PyExc_ValueError, "task_of, config_of, start_of, server_of and part_of are not %lld tasks",
                             (long long)p.rows);
    if (staying < 0 || staying > p.tasks || at < 0 || !ascends(start, staying, LENGTH(held, 14)))
        return arrays_refuse(&held, PyExc_ValueError, "stay_start has not the slots of the first tasks");
    if (p.free < 0 || p.free > p.servers * MOST_COUNT)
        return arrays_refuse(&held, PyExc_ValueError, "free is %lld GPUs", (long long)p.free);
    p.hints = PyMem_Calloc((size_t)p.configs, sizeof(int64_t));
    fine = p.hints != NULL;
    for (; at < staying && fine && !p.full_up; at++)
        if (!stay_there(&p, at, server + start[at], part + start[at], start[at + 1] - start[at], squeezes)) {
            fine = !squeezes;
            break;
        }
    for (; at >= staying && at < p.tasks && p.free > 0 && fine && !p.full_up; at++)
        fine = go_anywhere(&p, at, squeezes);
    PyMem_Free(p.hints);
    PyMem_Free(p.here);
    if (p.full_up)
        return arrays_refuse(&held, PyExc_ValueError, "the slots of tasks need more GPUs or room than there is");
    arrays_release(&held);
    if (!fine)
        return PyErr_NoMemory();
    return Py_BuildValue("LL", (long long)p.rows, (long long)p.free);
}
