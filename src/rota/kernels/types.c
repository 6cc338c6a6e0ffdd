/* On which type the jobs of a ranking run. */
#include "arrays.h"

#include <math.h>
#include <string.h>

/* Jobs of one kind have the same class and ran on the same type last: for all of them a type is worth as much. */
typedef struct {
    const double *value;  /* [kinds, types] */
    int64_t *placed;      /* [kinds, types] jobs of the kind on the type */
    const int64_t *size;  /* [kinds] GPUs of a job */
    const int64_t *present; /* kinds that have jobs */
    int64_t *free;
    double *gain, *reach; /* [nodes, nodes] and [nodes] to work with */
    int64_t *who, *from, *line; /* [nodes, nodes], [nodes] and [types] to work with */
    int64_t kinds, types;
} Exchange;

enum { NOBODY = -1 };
#define LEAST_GAIN 1e-9
#define MOST_VALUE 1000.0 /* so that no rounding error of a sum is taken for a gain, for ever */

/* A round of exchanges between types among jobs of `size` GPUs that raises the sum of values: nodes are the types and,
   last, GPUs that are free. Whether there was one. */
static int exchange_once(const Exchange *x, int64_t size)
{
    int64_t types = x->types, nodes = types + 1, spare = types;
    double *gain = x->gain, *reach = x->reach;
    int64_t *who = x->who, *from = x->from, met = -1;
    for (int64_t edge = 0; edge < nodes * nodes; edge++) {
        gain[edge] = -INFINITY;
        who[edge] = NOBODY;
    }
    for (int64_t t = 0; t < types; t++) {
        gain[spare * nodes + t] = 0.0;
        if (x->free[t] >= size)
            gain[t * nodes + spare] = 0.0;
    }
    for (int64_t i = 0; i < x->kinds; i++) {
        int64_t kind = x->present[i];
        if (x->size[kind] != size)
            continue;
        const double *value = x->value + kind * types;
        const int64_t *placed = x->placed + kind * types;
        for (int64_t a = 0; a < types; a++)
            for (int64_t b = 0; placed[a] > 0 && b < types; b++)
                if (b != a && value[b] - value[a] > gain[a * nodes + b]) {
                    gain[a * nodes + b] = value[b] - value[a];
                    who[a * nodes + b] = kind;
                }
    }
    for (int64_t a = 0; a < nodes; a++) {
        reach[a] = 0.0;
        from[a] = -1;
    }
    for (int64_t turn = 0; turn < nodes; turn++) {
        met = -1;
        for (int64_t a = 0; a < nodes; a++)
            for (int64_t b = 0; b < nodes; b++)
                if (reach[a] + gain[a * nodes + b] > reach[b] + LEAST_GAIN) {
                    reach[b] = reach[a] + gain[a * nodes + b];
                    from[b] = a;
                    met = b;
                }
        if (met < 0)
            return 0;
    }
    for (int64_t turn = 0; turn < nodes && met >= 0; turn++)
        met = from[met];
    if (met < 0)
        return 0;
    int64_t most = INT64_MAX, b = met;
    do {
        int64_t a = from[b], there = INT64_MAX;
        if (a != spare)
            there = b == spare ? x->free[a] / size : x->placed[who[a * nodes + b] * types + a];
        most = there < most ? there : most;
        b = a;
    } while (b != met);
    do {
        int64_t a = from[b];
        if (a == spare)
            x->free[b] += most * size;
        else if (b == spare)
            x->free[a] -= most * size;
        else {
            x->placed[who[a * nodes + b] * types + a] -= most;
            x->placed[who[a * nodes + b] * types + b] += most;
        }
        b = a;
    } while (b != met);
    return 1;
}

/* Jobs of `size` GPUs make way, each for the next, along the shortest chain of types from those of `wish` to one with room.
   The type at its beginning, which has room then; -1 if there is no chain. */
static int64_t make_way(const Exchange *x, const int64_t *wish, int64_t size, int64_t *idle)
{
    int64_t types = x->types, *line = x->line, *from = x->from, *who = x->who, length = 0, room = 0;
    for (int64_t t = 0; t < types; t++) {
        from[t] = NOBODY;
        who[t] = NOBODY;
        room |= x->free[t] >= size;
    }
    if (!room)
        return -1;
    for (int64_t i = 0; i < types && wish[i] >= 0; i++) {
        if (from[wish[i]] != NOBODY)
            continue;
        line[length++] = wish[i];
        from[wish[i]] = wish[i];
    }
    for (int64_t at = 0; at < length; at++)
        for (int64_t a = line[at], b = 0; b < types; b++) {
            if (from[b] != NOBODY)
                continue;
            for (int64_t i = 0; i < x->kinds && who[b] == NOBODY; i++) {
                int64_t kind = x->present[i];
                if (x->size[kind] == size && x->placed[kind * types + a] > 0 && x->value[kind * types + b] > -INFINITY)
                    who[b] = kind;
            }
            if (who[b] == NOBODY)
                continue;
            from[b] = a;
            line[length++] = b;
            if (x->free[b] < size)
                continue;
            x->free[b] -= size;
            idle[b] -= size;
            for (; from[b] != b; b = from[b]) {
                x->placed[who[b] * types + from[b]]--;
                x->placed[who[b] * types + b]++;
            }
            x->free[b] += size;
            idle[b] += size;
            return b;
        }
    return -1;
}

static const Parameter by_speed_parameters[] = {
    {"queue", 'q', "Q", 'J', 0},
    {"gpus", 'q', "J", COUNT, 1},
    {"job_class", 'q', "J", 'C', 0},
    {"wish", 'q', "CT", 'T', -1},
    {"value", 'd', "CET", 0, 0},
    {"last", 'q', "J", 'T', -1},
    {"free", 'Q', "T", COUNT, 0},
    {"rows", 'Q', ">Q", 0, 0},
    {"gpu_types", 'Q', ">Q", 0, 0},
    {"placed", 'Q', "CET", 0, 0},
    {"size_of", 'Q', "CE", 0, 0},
};
SIGNATURE(by_speed);

KERNEL(by_speed)
{
    Arrays held;
    if (!TAKE(held, by_speed))
        return NULL;
    const int64_t *queue = INTS(held, 0), *gpus = INTS(held, 1), *job_class = INTS(held, 2), *wish = INTS(held, 3);
    const double *value = FLOATS(held, 4);
    const int64_t *last = INTS(held, 5);
    int64_t *free = INTS(held, 6), *rows = INTS(held, 7), *kinds = INTS(held, 8);
    int64_t *placed = INTS(held, 9), *size_of = INTS(held, 10);
    int64_t length = LENGTH(held, 0), types = LENGTH(held, 6), all = LENGTH(held, 10), spare = 0, goes_on = 0, at = 0;
    int64_t nodes = types + 1, edges = nodes * nodes, moved = 0;
    if (DIMENSION(held, 'E') != nodes)
        return arrays_refuse(&held, PyExc_ValueError, "value has %lld last types for %lld types",
                             (long long)DIMENSION(held, 'E') - 1, (long long)types);
    for (int64_t i = 0; i < LENGTH(held, 4); i++)
        if (!(value[i] <= MOST_VALUE && (value[i] >= -MOST_VALUE || value[i] == -INFINITY)))
            return arrays_refuse(&held, PyExc_ValueError, "value has an entry that is neither -inf nor within %d of 0",
                                 (int)MOST_VALUE);
    memset(placed, 0, (size_t)LENGTH(held, 9) * sizeof(int64_t));
    memset(size_of, 0, (size_t)all * sizeof(int64_t));
    int64_t *idle = PyMem_Calloc((size_t)(2 * types + 2 * all + edges + nodes), sizeof(int64_t));
    int64_t *present = idle + types, *stuck = present + all /* by class */, *who = stuck + all, *from = who + edges;
    double *gain = PyMem_Malloc((size_t)(edges + nodes) * sizeof(double));
    Exchange x = {
        .value = value, .placed = placed, .size = size_of, .present = present, .free = free, .gain = gain,
        .reach = gain + edges, .who = who, .from = from, .line = from + nodes, .kinds = 0, .types = types,
    };
    if (idle == NULL || gain == NULL) {
        PyMem_Free(idle);
        PyMem_Free(gain);
        arrays_release(&held);
        return PyErr_NoMemory();
    }
    memcpy(idle, free, (size_t)types * sizeof(int64_t));
    for (int64_t t = 0; t < types; t++)
        spare += free[t];
    for (; goes_on < length && gpus[queue[goes_on]] <= spare; goes_on++) {
        int64_t job = queue[goes_on];
        spare -= gpus[job];
        if (last[job] >= 0)
            idle[last[job]] -= gpus[job];
    }
    for (int64_t i = 0; i < length; i++) {
        int64_t job = queue[i], size = gpus[job], group = job_class[job], here = last[job], kind = here;
        const int64_t *wishes = wish + group * types;
        if (i < goes_on && here >= 0)
            idle[here] += size;
        if (here < 0 || free[here] < size) {
            kind = -1;
            for (int64_t choice = 0; kind < 0 && choice < types && wishes[choice] >= 0; choice++)
                if (idle[wishes[choice]] >= size)
                    kind = wishes[choice];
            for (int64_t choice = 0; kind < 0 && choice < types && wishes[choice] >= 0; choice++)
                if (free[wishes[choice]] >= size)
                    kind = wishes[choice];
        }
        if (kind < 0 && !stuck[group]) {
            kind = make_way(&x, wishes, size, idle);
            moved |= kind >= 0;
        }
        if (kind < 0) {
            stuck[group] = 1;
            continue;
        }
        int64_t group_here = group * (types + 1) + here + 1;
        free[kind] -= size;
        idle[kind] -= size;
        rows[at] = job;
        kinds[at++] = kind;
        if (size_of[group_here] == 0) {
            size_of[group_here] = size;
            present[x.kinds++] = group_here;
        }
        placed[group_here * types + kind]++;
    }
    for (int again = 1; again;) {
        again = 0;
        for (int64_t size = INT64_MAX; size > 0;) {
            int64_t next = 0;
            for (int64_t i = 0; i < x.kinds; i++)
                if (size_of[present[i]] < size && size_of[present[i]] > next)
                    next = size_of[present[i]];
            size = next;
            while (size > 0 && exchange_once(&x, size))
                again = moved = 1;
        }
    }
    int found = 1;
    for (int64_t i = 0; moved && found && i < at; i++) {
        int64_t job = rows[i], group = job_class[job];
        const int64_t *wishes = wish + group * types;
        int64_t *there = placed + (group * (types + 1) + last[job] + 1) * types, choice = 0;
        while (choice < types && wishes[choice] >= 0 && there[wishes[choice]] == 0)
            choice++;
        found = choice < types && wishes[choice] >= 0;
        if (!found)
            break;
        kinds[i] = wishes[choice];
        there[wishes[choice]]--;
    }
    PyMem_Free(idle);
    PyMem_Free(gain);
    if (!found)
        return arrays_refuse(&held, PyExc_ValueError, "a job ran last on a type that is not among those of wish");
    arrays_release(&held);
    return Py_BuildValue("LO", (long long)at, moved ? Py_True : Py_False);
}

/* A number in [0, 1) that belongs to a job: splitmix64 of its id and the seed. */
static double drawn(int64_t job, int64_t seed)
{
    uint64_t x = ((uint64_t)seed + 1) * 0xD1342543DE82EF95u + ((uint64_t)job + 1) * 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    x ^= x >> 31;
    return (double)(x >> 11) * 0x1p-53;
}

/* The type of one GPU drawn among those that are there; -1 if the job fits nowhere. */
static int64_t some_type(const int64_t *there, const char *runs_on, int64_t types, int64_t size, double part)
{
    int64_t total = 0, kind = -1;
    for (int64_t t = 0; t < types; t++)
        if (runs_on[t] && there[t] >= size)
            total += there[t];
    double left = part * (double)total;
    for (int64_t t = 0; t < types; t++)
        if (runs_on[t] && there[t] >= size) {
            kind = t;
            if (left < (double)there[t])
                break;
            left -= (double)there[t];
        }
    return kind;
}

static const Parameter by_chance_parameters[] = {
    {"queue", 'q', "Q", 'J', 0},
    {"gpus", 'q', "J", COUNT, 0},
    {"job_class", 'q', "J", 'C', 0},
    {"jobs", 'q', "J", 0, 0},
    {"runs_on", 'b', "CT", 0, 0},
    {"last", 'q', "J", 'T', -1},
    {"free", 'Q', "T", COUNT, 0},
    {"rows", 'Q', ">Q", 0, 0},
    {"gpu_types", 'Q', ">Q", 0, 0},
    {"seed", 'n', NULL, 0, 0},
};
SIGNATURE(by_chance);

KERNEL(by_chance)
{
    Arrays held;
    if (!TAKE(held, by_chance))
        return NULL;
    const int64_t *queue = INTS(held, 0), *gpus = INTS(held, 1), *job_class = INTS(held, 2), *jobs = INTS(held, 3);
    const char *runs_on = BOOLS(held, 4);
    const int64_t *last = INTS(held, 5);
    int64_t *free = INTS(held, 6), *rows = INTS(held, 7), *kinds = INTS(held, 8), seed = WHOLE(held, 9);
    int64_t length = LENGTH(held, 0), types = LENGTH(held, 6), spare = 0, stays = 0, at = 0;
    int64_t *idle = PyMem_Malloc((size_t)types * sizeof(int64_t));
    if (idle == NULL) {
        arrays_release(&held);
        return PyErr_NoMemory();
    }
    memcpy(idle, free, (size_t)types * sizeof(int64_t));
    for (int64_t t = 0; t < types; t++)
        spare += free[t];
    for (; stays < length && gpus[queue[stays]] <= spare; stays++) {
        int64_t job = queue[stays];
        spare -= gpus[job];
        if (last[job] >= 0)
            idle[last[job]] -= gpus[job];
    }
    for (int64_t i = 0; i < length; i++) {
        int64_t job = queue[i], size = gpus[job], here = last[job], kind = here;
        const char *runs = runs_on + job_class[job] * types;
        if (i < stays && here >= 0)
            idle[here] += size;
        if (here < 0 || free[here] < size) {
            double part = drawn(jobs[job], seed);
            kind = some_type(idle, runs, types, size, part);
            if (kind < 0)
                kind = some_type(free, runs, types, size, part);
        }
        if (kind < 0)
            continue;
        free[kind] -= size;
        idle[kind] -= size;
        rows[at] = job;
        kinds[at++] = kind;
    }
    PyMem_Free(idle);
    arrays_release(&held);
    return PyLong_FromLongLong(at);
}
