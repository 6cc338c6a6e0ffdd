/* The cheapest queues, by shortest augmenting paths over the places of queues. The twin of queues.py, which says what is
   done and why. */
#include "arrays.h"

#include <math.h>
#include <string.h>

typedef struct {
    double distance;
    int64_t node;
} Entry;

typedef struct {
    int64_t jobs, types, known;  /* `known`: jobs that have a place */
    const double *seconds;       /* [jobs, types] */
    int64_t *workers, *order;    /* [types], and [jobs] who comes first: copies, because signals are heeded between jobs */
    int64_t *first, *queued;     /* [types] the node of the first place; jobs in queues of that type */
    int64_t **queue, **every;    /* [types] those jobs, and all that have a place; longest on that type first */
    int64_t **ahead;             /* [types] of every job, how many of `every` come before it */
    int64_t *type_of, *rank;     /* [jobs] -1 without a place; how many of its queues are longer */
    int64_t *low, *high;         /* [types] places between which the job that comes belongs */
    double *price, *distance;    /* [nodes] `price` without what all places have become dearer by */
    int64_t *node_type, *state;  /* [nodes] state: 0 not seen, 1 reached, 2 settled */
    int64_t *leaver, *to;        /* [nodes] who leaves, and where to, on the shortest way to a place with room */
    int64_t *touched, touches;
    double dearer, nearest;      /* `nearest`: the shortest way found so far */
    int starved;                 /* there was no memory */
    Entry *heap;
    int64_t heaped, room;
} Queues;

static inline int before(Entry a, Entry b)
{
    return a.distance < b.distance || (a.distance == b.distance && a.node < b.node);
}

static int push(Queues *q, Entry entry)
{
    if (q->heaped == q->room) {
        int64_t room = q->room ? 2 * q->room : 1024;
        Entry *heap = PyMem_Realloc(q->heap, (size_t)room * sizeof(Entry));
        if (heap == NULL) {
            q->starved = 1;
            return 0;
        }
        q->heap = heap;
        q->room = room;
    }
    int64_t at = q->heaped++;
    for (; at > 0 && before(entry, q->heap[(at - 1) / 2]); at = (at - 1) / 2)
        q->heap[at] = q->heap[(at - 1) / 2];
    q->heap[at] = entry;
    return 1;
}

static Entry pop(Queues *q)
{
    Entry top = q->heap[0], last = q->heap[--q->heaped];
    int64_t at = 0;
    for (int64_t child = 1; child < q->heaped; child = 2 * at + 1) {
        if (child + 1 < q->heaped && before(q->heap[child + 1], q->heap[child]))
            child++;
        if (!before(q->heap[child], last))
            break;
        q->heap[at] = q->heap[child];
        at = child;
    }
    q->heap[at] = last;
    return top;
}

static inline double seconds_of(const Queues *q, int64_t job, int64_t type)
{
    return q->seconds[job * q->types + type];
}

/* Place `place` of a type, counted from 1 at the end of queues. */
static inline int64_t node_at(const Queues *q, int64_t type, int64_t place)
{
    return q->first[type] + place - 1;
}

static inline int is_full(const Queues *q, int64_t type, int64_t place)
{
    return q->queued[type] >= place * q->workers[type];
}

static inline double cost(const Queues *q, int64_t job, int64_t type, int64_t place)
{
    double price = is_full(q, type, place) ? q->price[node_at(q, type, place)] + q->dearer : 0.0;
    return (double)place * seconds_of(q, job, type) + price;
}

/* How many of these jobs are longer on a type than so many seconds; of equals, those with a smaller number too. */
static int64_t longer(const Queues *q, const int64_t *jobs, int64_t count, int64_t type, double seconds, int64_t job)
{
    int64_t low = 0, high = count;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        double other = seconds_of(q, jobs[middle], type);
        if (other > seconds || (other == seconds && jobs[middle] < job))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Into a list, longest first; `at` says where everybody stands in it. */
static void insert(const Queues *q, int64_t *jobs, int64_t count, int64_t type, int64_t job, int64_t *at)
{
    int64_t place = longer(q, jobs, count, type, seconds_of(q, job, type), job);
    for (int64_t i = count; i > place; i--) {
        jobs[i] = jobs[i - 1];
        at[jobs[i]] = i;
    }
    jobs[place] = job;
    at[job] = place;
}

static void leave(int64_t *jobs, int64_t count, int64_t job, int64_t *at)
{
    for (int64_t i = at[job]; i < count - 1; i++) {
        jobs[i] = jobs[i + 1];
        at[jobs[i]] = i;
    }
}

static int reach(Queues *q, int64_t node, double distance, int64_t leaver, int64_t to)
{
    if (distance >= q->nearest || q->state[node] == 2 || (q->state[node] == 1 && q->distance[node] <= distance))
        return 1;
    if (q->state[node] == 0)
        q->touched[q->touches++] = node;
    q->state[node] = 1;
    q->distance[node] = distance;
    q->leaver[node] = leaver;
    q->to[node] = to;
    return push(q, (Entry){distance, node});
}

/* A job may go from its place to another one, from which it is so far. */
static int may_go(Queues *q, int64_t job, int64_t from, int64_t place_there, int64_t type, int64_t place, double distance)
{
    double more = cost(q, job, type, place) - cost(q, job, from, place_there);
    return reach(q, node_at(q, from, place_there), distance + more, job, node_at(q, type, place));
}

/* All who may come to a place: the nearest of the same queues, and those of other types who would belong there. */
static int may_come(Queues *q, int64_t type, int64_t place, double distance)
{
    int64_t workers = q->workers[type], *queue = q->queue[type], *every = q->every[type], begin = 0;
    double shortest = -INFINITY;
    if (place > 1) {
        int64_t job = queue[(place - 1) * workers - 1];
        begin = q->ahead[type][job] + 1;
        if (!may_go(q, job, type, place - 1, type, place, distance))
            return 0;
    }
    if (q->queued[type] > place * workers) {
        int64_t job = queue[place * workers];
        shortest = seconds_of(q, job, type);
        if (!may_go(q, job, type, place + 1, type, place, distance))
            return 0;
    }
    for (int64_t i = begin; i < q->known; i++) {
        int64_t job = every[i], other = q->type_of[job];
        if (seconds_of(q, job, type) < shortest)
            break;
        if (other == type)
            continue;
        if (!may_go(q, job, other, q->rank[job] / q->workers[other] + 1, type, place, distance))
            return 0;
    }
    return 1;
}

/* Where the job belongs by its length on each type; the least that it pays there, and whether that place has room. */
static double least_cost(Queues *q, int64_t job, int64_t *best_type, int *has_room)
{
    double least = INFINITY;
    for (int64_t type = 0; type < q->types; type++) {
        if (q->workers[type] == 0)
            continue;
        int64_t ahead = longer(q, q->queue[type], q->queued[type], type, seconds_of(q, job, type), job);
        q->high[type] = ahead / q->workers[type] + 1;
        q->low[type] = q->high[type] - (ahead > 0 && ahead % q->workers[type] == 0);
        for (int64_t place = q->low[type]; place <= q->high[type]; place++) {
            double much = cost(q, job, type, place);
            if (much < least) {
                least = much;
                *best_type = type;
                *has_room = !is_full(q, type, place);
            }
        }
    }
    return least;
}

/* The place at which the shortest way of a job to a place with room begins, -1 if there is none; prices follow. */
static int64_t entry_of(Queues *q, int64_t job, double least)
{
    int64_t entry = -1;
    q->nearest = INFINITY;
    q->heaped = q->touches = 0;
    for (int64_t type = 0; type < q->types; type++)
        if (q->workers[type] && !reach(q, node_at(q, type, q->queued[type] / q->workers[type] + 1), 0.0, -1, -1))
            return -1;
    while (q->heaped > 0 && q->heap[0].distance < q->nearest) {
        Entry top = pop(q);
        if (q->state[top.node] == 2)
            continue;
        q->state[top.node] = 2;
        int64_t type = q->node_type[top.node], place = top.node - q->first[type] + 1;
        if (place >= q->low[type] && place <= q->high[type]) {
            double way = cost(q, job, type, place) - least + top.distance;
            if (way < q->nearest) {
                q->nearest = way;
                entry = top.node;
            }
        }
        if (!may_come(q, type, place, top.distance))
            return -1;
    }
    for (int64_t i = 0; i < q->touches; i++) {
        int64_t node = q->touched[i];
        if (q->state[node] == 2 && q->distance[node] < q->nearest)
            q->price[node] += q->distance[node] - q->nearest;
        q->state[node] = 0;
    }
    q->dearer += q->nearest;
    return entry;
}

/* A job goes to the queues of another type. */
static void move(Queues *q, int64_t job, int64_t type)
{
    int64_t old = q->type_of[job];
    if (old == type)
        return;
    if (old >= 0)
        leave(q->queue[old], q->queued[old]--, job, q->rank);
    insert(q, q->queue[type], q->queued[type]++, type, job, q->rank);
    q->type_of[job] = type;
}

static int place_job(Queues *q, int64_t job)
{
    int64_t type = -1, comer = job;
    int has_room = 0;
    double least = least_cost(q, job, &type, &has_room);
    if (!has_room) {
        int64_t node = entry_of(q, job, least);
        if (node < 0)
            return 0;
        for (;; node = q->to[node]) {
            int64_t leaver = q->leaver[node];
            type = q->node_type[node];
            move(q, comer, type);
            if (leaver < 0)
                break;
            comer = leaver;
        }
    } else
        move(q, job, type);
    if (q->queued[type] % q->workers[type] == 0)
        q->price[node_at(q, type, q->queued[type] / q->workers[type])] = -q->dearer;
    for (type = 0; type < q->types; type++)
        insert(q, q->every[type], q->known, type, job, q->ahead[type]);
    q->known++;
    return 1;
}

static int64_t places_of(const Queues *q, int64_t type)
{
    return q->workers[type] ? q->jobs / q->workers[type] + 2 : 0;
}

static int64_t *prepare(Queues *q)
{
    int64_t nodes = 0, types = q->types, jobs = q->jobs;
    for (int64_t type = 0; type < types; type++)
        nodes += places_of(q, type);
    size_t items = (size_t)(7 * nodes + 8 * types + 3 * jobs + 3 * types * (jobs + 1));
    int64_t *memory = PyMem_Calloc(items, sizeof(int64_t)), *next = memory;
    if (memory == NULL)
        return NULL;
    memcpy(next, q->workers, (size_t)types * sizeof(int64_t));
    q->workers = next, next += types;
    memcpy(next, q->order, (size_t)jobs * sizeof(int64_t));
    q->order = next, next += jobs;
    q->first = next, next += types;
    q->queued = next, next += types;
    q->low = next, next += types;
    q->high = next, next += types;
    q->queue = (int64_t **)next, next += types;
    q->every = (int64_t **)next, next += types;
    q->ahead = (int64_t **)next, next += types;
    q->price = (double *)next, next += nodes;
    q->distance = (double *)next, next += nodes;
    q->node_type = next, next += nodes;
    q->state = next, next += nodes;
    q->leaver = next, next += nodes;
    q->to = next, next += nodes;
    q->touched = next, next += nodes;
    q->type_of = next, next += jobs;
    q->rank = next, next += jobs;
    for (int64_t job = 0; job < jobs; job++)
        q->type_of[job] = -1;
    int64_t node = 0;
    for (int64_t type = 0; type < types; type++) {
        q->queue[type] = next, next += jobs + 1;
        q->every[type] = next, next += jobs + 1;
        q->ahead[type] = next, next += jobs + 1;
        q->first[type] = node;
        for (int64_t place = 0; place < places_of(q, type); place++)
            q->node_type[node++] = type;
    }
    return memory;
}

static const Parameter queue_up_parameters[] = {
    {"seconds", 'd', "JT", 0, 0},
    {"workers", 'q', "T", COUNT, 0},
    {"order", 'q', "J", 'J', 0},
    {"types", 'Q', "J", 0, 0},
    {"places", 'Q', "J", 0, 0},
};
SIGNATURE(queue_up);

KERNEL(queue_up)
{
    Arrays held;
    if (!TAKE(held, queue_up))
        return NULL;
    Queues q = {.seconds = FLOATS(held, 0), .workers = INTS(held, 1), .order = INTS(held, 2), .jobs = LENGTH(held, 2),
                .types = LENGTH(held, 1)};
    int64_t *types = INTS(held, 3), *places = INTS(held, 4), workers = 0;
    for (int64_t type = 0; type < q.types; type++)
        workers += q.workers[type];
    if (workers == 0 && q.jobs > 0)
        return arrays_refuse(&held, PyExc_ValueError, "workers has nobody");
    int64_t *memory = prepare(&q);
    int fine = memory != NULL, stopped = 0;
    q.starved = !fine;
    for (int64_t i = 0; i < q.jobs && fine && !stopped; i++) {
        fine = q.type_of[q.order[i]] < 0 && place_job(&q, q.order[i]);
        stopped = i % 64 == 0 && PyErr_CheckSignals() < 0;
    }
    for (int64_t type = 0; type < q.types && fine && !stopped; type++)
        for (int64_t i = 0; i < q.queued[type]; i++) {
            types[q.queue[type][i]] = type;
            places[q.queue[type][i]] = i / q.workers[type] + 1;
        }
    PyMem_Free(memory);
    PyMem_Free(q.heap);
    arrays_release(&held);
    if (stopped)
        return NULL;
    if (q.starved)
        return PyErr_NoMemory();
    if (!fine)
        return arrays_refuse(&held, PyExc_ValueError, "order has a job twice, or seconds are no numbers or too large");
    Py_RETURN_NONE;
}
