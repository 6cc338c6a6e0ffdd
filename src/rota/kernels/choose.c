/* Who runs, and who stays where it is. */
#include "arrays.h"

#include <math.h>
#include <string.h>

#define GOLDEN 0.6180339887498949

enum { FILLS = 1, SCATTERS = 2, BY_SPEED = 4 };

typedef struct {
    double first, second, third;
    int64_t row;
} Entry;

static inline int before(const Entry *a, const Entry *b)
{
    if (a->first != b->first)
        return a->first < b->first;
    if (a->second != b->second)
        return a->second < b->second;
    return a->third < b->third;
}

/* Stable: short runs by insertion, then merged. */
static void sort(Entry *entries, Entry *spare, int64_t count)
{
    const int64_t run = 12;
    for (int64_t begin = 0; begin < count; begin += run) {
        int64_t end = begin + run < count ? begin + run : count;
        for (int64_t i = begin + 1; i < end; i++) {
            Entry moving = entries[i];
            int64_t at = i;
            for (; at > begin && before(&moving, &entries[at - 1]); at--)
                entries[at] = entries[at - 1];
            entries[at] = moving;
        }
    }
    for (int64_t width = run; width < count; width *= 2) {
        for (int64_t begin = 0; begin + width < count; begin += 2 * width) {
            int64_t middle = begin + width, end = middle + width < count ? middle + width : count;
            if (!before(&entries[middle], &entries[middle - 1]))
                continue;
            memcpy(spare + begin, entries + begin, (size_t)width * sizeof(Entry));
            int64_t left = begin, right = middle, to = begin;
            while (left < middle && right < end)
                entries[to++] = before(&entries[right], &spare[left]) ? entries[right++] : spare[left++];
            while (left < middle)
                entries[to++] = spare[left++];
        }
    }
}

typedef struct {
    const char *runs_on;
    const int64_t *job_class, *jobs;
    const double *share, *received, *owed, *throughput, *type_time;
    int64_t count, types, flags;
} Queue;

/* Share over fraction of the time received, negative: who is first sorts first. */
static inline double behind(const Queue *q, int64_t kind, int64_t row)
{
    int64_t cell = kind * q->count + row;
    double priority = q->share[cell] / (q->received[cell] / q->type_time[kind]);
    if (!isfinite(priority))
        priority = q->share[cell] * 1e9;
    return -priority;
}

/* The rows with a share on this type, into `entries`; if there are more than `free`, the best of them. */
static int64_t with_share(const Queue *q, int64_t kind, int64_t free, const char *unchosen, Entry *entries, Entry *spare)
{
    const double *share = q->share + kind * q->count, *owed = q->owed + kind * q->count;
    int64_t found = 0;
    for (int64_t row = 0; row < q->count; row++)
        if (unchosen[row] && share[row] > 0 && q->runs_on[q->job_class[row] * q->types + kind])
            entries[found++].row = row;
    if (found <= free || free <= 0)
        return found;
    for (int64_t i = 0; i < found; i++) {
        entries[i].first = behind(q, kind, entries[i].row);
        entries[i].second = entries[i].third = 0.0;
    }
    sort(entries, spare, found);
    if (entries[free - 1].first != entries[free].first)
        return found;
    for (int64_t i = 0; i < found; i++) {
        int64_t row = entries[i].row;
        double whole;
        entries[i].second = q->flags & SCATTERS ? modf((double)q->jobs[row] * GOLDEN, &whole) : -owed[row];
        entries[i].third = q->flags & SCATTERS ? 0.0 : -share[row];
    }
    sort(entries, spare, found);
    return found;
}

/* The rows without a share on this type that may fill it, the first to fill first. */
static int64_t without_share(const Queue *q, int64_t kind, const char *unchosen, Entry *entries, Entry *spare)
{
    const double *share = q->share + kind * q->count, *owed = q->owed + kind * q->count;
    int64_t found = 0;
    for (int64_t row = 0; row < q->count; row++) {
        if (!unchosen[row] || share[row] > 0 || !q->runs_on[q->job_class[row] * q->types + kind])
            continue;
        Entry *entry = &entries[found++];
        entry->row = row;
        entry->second = -owed[row];
        entry->first = entry->third = 0.0;
        if (q->flags & BY_SPEED) {
            const double *rates = q->throughput + q->job_class[row] * q->types;
            double best = rates[0];
            for (int64_t other = 1; other < q->types; other++)
                best = rates[other] > best ? rates[other] : best;
            entry->first = -(rates[kind] / best);
        }
    }
    sort(entries, spare, found);
    return found;
}

static const Parameter choose_ones_parameters[] = {
    {"order", 'q', "O", 'T', 0},
    {"capacity", 'q', "T", 0, 0},
    {"runs_on", 'b', "CT", 0, 0},
    {"job_class", 'q', "J", 'C', 0},
    {"jobs", 'q', "J", 0, 0},
    {"share", 'd', "TJ", 0, 0},
    {"received", 'd', "TJ", 0, 0},
    {"owed", 'd', "TJ", 0, 0},
    {"throughput", 'd', "CT", 0, 0},
    {"type_time", 'd', "T", 0, 0},
    {"rows", 'Q', ">J", 0, 0},
    {"gpu_types", 'Q', ">J", 0, 0},
    {"flags", 'n', NULL, 0, 0},
};
SIGNATURE(choose_ones);

KERNEL(choose_ones)
{
    Arrays held;
    if (!TAKE(held, choose_ones))
        return NULL;
    int64_t flags = WHOLE(held, 12);
    const int64_t *order = INTS(held, 0), *capacity = INTS(held, 1);
    Queue q = {
        .runs_on = BOOLS(held, 2), .job_class = INTS(held, 3), .jobs = INTS(held, 4), .share = FLOATS(held, 5),
        .received = FLOATS(held, 6), .owed = FLOATS(held, 7), .throughput = FLOATS(held, 8),
        .type_time = FLOATS(held, 9), .count = LENGTH(held, 3), .types = LENGTH(held, 1), .flags = flags,
    };
    int64_t *rows = INTS(held, 10), *kinds = INTS(held, 11), at = 0;
    int crowded = 0;
    char *unchosen = PyMem_Malloc((size_t)q.count + 1);
    Entry *entries = PyMem_Malloc(2 * ((size_t)q.count + 1) * sizeof(Entry)), *spare = entries + q.count + 1;
    if (unchosen == NULL || entries == NULL) {
        PyMem_Free(unchosen);
        PyMem_Free(entries);
        arrays_release(&held);
        return PyErr_NoMemory();
    }
    memset(unchosen, 1, (size_t)q.count);
    for (int64_t turn = 0; turn < LENGTH(held, 0) && at < q.count; turn++) {
        int64_t kind = order[turn], free = capacity[kind], begin = at;
        int64_t found = with_share(&q, kind, free, unchosen, entries, spare);
        crowded |= found > free;
        for (int64_t i = 0; i < found && at - begin < free; i++) {
            rows[at++] = entries[i].row;
            unchosen[entries[i].row] = 0;
        }
        if (at - begin < free && at < q.count && flags & FILLS) {
            found = without_share(&q, kind, unchosen, entries, spare);
            for (int64_t i = 0; i < found && at - begin < free; i++) {
                rows[at++] = entries[i].row;
                unchosen[entries[i].row] = 0;
            }
        }
        for (int64_t i = begin; i < at; i++)
            kinds[i] = kind;
    }
    PyMem_Free(unchosen);
    PyMem_Free(entries);
    arrays_release(&held);
    return Py_BuildValue("LO", (long long)at, crowded ? Py_True : Py_False);
}

static const Parameter stay_parameters[] = {
    {"rows", 'q', "K", 'J', 0},
    {"gpu_types", 'q', "K", 0, 0},
    {"last_task", 'q', "J", 'L', -1},
    {"last_type", 'q', "L", 0, 0},
    {"row", 'Q', "K", 0, 0},
    {"kept", 'B', "K", 0, 0},
};
SIGNATURE(stay);

KERNEL(stay)
{
    Arrays held;
    if (!TAKE(held, stay))
        return NULL;
    const int64_t *rows = INTS(held, 0), *kinds = INTS(held, 1), *last_task = INTS(held, 2), *last_type = INTS(held, 3);
    int64_t *row = INTS(held, 4), tasks = LENGTH(held, 0);
    char *kept = BOOLS(held, 5);
    int same = tasks == LENGTH(held, 3);
    for (int64_t i = 0; i < tasks; i++) {
        int64_t last = last_task[rows[i]];
        row[i] = last >= 0 && last_type[last] == kinds[i] ? last : -1;
        kept[i] = row[i] >= 0;
        same &= row[i] == i;
    }
    arrays_release(&held);
    return PyBool_FromLong(same);
}

static const Parameter arrange_parameters[] = {
    {"rows", 'q', "N", 'J', 0},
    {"gpu_types", 'q', "N", 0, 0},
    {"put", 'q', "K", 'N', 0},
    {"config", 'q', "K", 'C', 0},
    {"jobs", 'q', "J", 0, 0},
    {"gpus", 'q', "J", 0, 0},
    {"last", 'q', "J", 0, 0},
    {"cpus", 'd', "C", 0, 0},
    {"memory", 'd', "C", 0, 0},
    {"speed", 'd', "C", 0, 0},
    {"out", 'Q', "4K", 0, 0},
    {"beside", 'D', "3K", 0, 0},
    {"kept", 'B', "K", 0, 0},
};
SIGNATURE(arrange);

KERNEL(arrange)
{
    Arrays held;
    if (!TAKE(held, arrange))
        return NULL;
    const int64_t *rows = INTS(held, 0), *kinds = INTS(held, 1), *put = INTS(held, 2), *config = INTS(held, 3);
    const int64_t *jobs = INTS(held, 4), *gpus = INTS(held, 5), *last = INTS(held, 6);
    const double *cpus = FLOATS(held, 7), *memory = FLOATS(held, 8), *speed = FLOATS(held, 9);
    int64_t tasks = LENGTH(held, 2), active = LENGTH(held, 4), at = 0;
    int64_t *order = INTS(held, 10), *first = order + tasks, *type = first + tasks, *size = type + tasks;
    double *beside = FLOATS(held, 11);
    char *kept = BOOLS(held, 12);
    int64_t *place = PyMem_Malloc(((size_t)active + 1) * sizeof(int64_t));
    if (place == NULL) {
        arrays_release(&held);
        return PyErr_NoMemory();
    }
    memset(place, -1, (size_t)active * sizeof(int64_t));
    for (int64_t i = 0; i < tasks; i++)
        place[rows[put[i]]] = i;
    for (int64_t row = 0; row < active && at < tasks; row++) {
        int64_t i = place[row];
        if (i < 0)
            continue;
        order[at] = i;
        first[at] = jobs[row];
        type[at] = kinds[put[i]];
        size[at] = gpus[row];
        beside[at] = cpus[config[i]];
        beside[tasks + at] = memory[config[i]];
        beside[2 * tasks + at] = speed[config[i]];
        kept[at++] = last[row] >= 0;
    }
    PyMem_Free(place);
    if (at < tasks)
        return arrays_refuse(&held, PyExc_ValueError, "put names two tasks of one job");
    arrays_release(&held);
    Py_RETURN_NONE;
}

static const Parameter by_gpus_parameters[] = {
    {"queue", 'q', "Q", 'J', 0},
    {"gpus", 'q', "J", COUNT, 0},
    {"taken", 'Q', ">Q", 0, 0},
    {"free", 'n', NULL, 0, 0},
};
SIGNATURE(by_gpus);

KERNEL(by_gpus)
{
    Arrays held;
    if (!TAKE(held, by_gpus))
        return NULL;
    int64_t free = WHOLE(held, 3);
    const int64_t *queue = INTS(held, 0), *gpus = INTS(held, 1);
    int64_t *taken = INTS(held, 2), at = 0;
    for (int64_t i = 0; i < LENGTH(held, 0) && free > 0; i++)
        if (gpus[queue[i]] <= free) {
            free -= gpus[queue[i]];
            taken[at++] = queue[i];
        }
    arrays_release(&held);
    return PyLong_FromLongLong(at);
}

static const Parameter is_permutation_parameters[] = {
    {"order", 'q', "K", 0, 0},
    {"count", 'n', NULL, 0, 0},
};
SIGNATURE(is_permutation);

KERNEL(is_permutation)
{
    Arrays held;
    if (!TAKE(held, is_permutation))
        return NULL;
    const int64_t *order = INTS(held, 0);
    int64_t length = LENGTH(held, 0), wanted = WHOLE(held, 1), good = length == wanted;
    char *seen = good ? PyMem_Calloc((size_t)length + 1, 1) : NULL;
    if (good && seen == NULL) {
        arrays_release(&held);
        return PyErr_NoMemory();
    }
    for (int64_t i = 0; good && i < length; i++) {
        good = order[i] >= 0 && order[i] < length && !seen[order[i]];
        if (good)
            seen[order[i]] = 1;
    }
    PyMem_Free(seen);
    arrays_release(&held);
    return PyBool_FromLong((long)good);
}
