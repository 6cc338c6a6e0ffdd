/* How far tasks get in a round, and what is booked about it. */
#include "arrays.h"

#include <math.h>

static const Parameter look_up_parameters[] = {
    {"first", 'q', "K", 0, 0},
    {"gpu_types", 'q', "K", 'T', 0},
    {"jobs", 'q', "J", 0, 0},
    {"job_class", 'q', "J", 'C', 0},
    {"throughput", 'd', "CT", 0, 0},
    {"total", 'd', "J", 0, 0},
    {"done", 'd', "J", 0, 0},
    {"speed", 'd', "K?", 0, 0},
    {"seconds", 'd', "CT", 0, 0},
    {"rate", 'D', "K", 0, 0},
    {"left", 'D', "K", 0, 0},
    {"chunk", 'D', "K?", 0, 0},
    {"types", 'n', "T", 0, 0},
    {"length", 'f', NULL, 0, 0},
};
SIGNATURE(look_up);

KERNEL(look_up)
{
    Arrays held;
    if (!TAKE(held, look_up))
        return NULL;
    int64_t types = WHOLE(held, 12);
    double length = NUMBER(held, 13);
    const int64_t *first = INTS(held, 0), *kinds = INTS(held, 1), *jobs = INTS(held, 2), *job_class = INTS(held, 3);
    const double *rates = FLOATS(held, 4), *total = FLOATS(held, 5), *done = FLOATS(held, 6);
    const double *speed = LENGTH(held, 7) ? FLOATS(held, 7) : NULL, *seconds = FLOATS(held, 8);
    double *rate = FLOATS(held, 9), *left = FLOATS(held, 10), *chunk = LENGTH(held, 11) ? FLOATS(held, 11) : NULL;
    int64_t tasks = LENGTH(held, 0), active = LENGTH(held, 2);
    for (int64_t i = 0; i < tasks; i++) {
        int64_t at = position(jobs, active, first[i]);
        if (at == active || jobs[at] != first[i])
            return arrays_refuse(&held, PyExc_IndexError, "first[%lld] is job %lld, which is not among jobs", (long long)i,
                                 (long long)first[i]);
        int64_t cell = job_class[at] * types + kinds[i];
        left[i] = total[at] - done[at];
        rate[i] = speed == NULL ? rates[cell] : rates[cell] * speed[i];
        if (chunk != NULL) {
            double steps = floor(length / (speed == NULL ? seconds[cell] : seconds[cell] / speed[i]));
            chunk[i] = steps > 1 ? steps : 1.0;
        }
    }
    arrays_release(&held);
    Py_RETURN_NONE;
}

/* totals[kind] += the sum of its tasks' amounts, each sum by itself first. */
static void add_by_type(double *totals, int64_t types, const int64_t *kinds, const double *amounts, const int64_t *times,
                        int64_t tasks)
{
    for (int64_t kind = 0; kind < types; kind++) {
        double sum = 0.0;
        for (int64_t i = 0; i < tasks; i++)
            if (kinds[i] == kind)
                sum += times == NULL ? amounts[i] : amounts[i] * (double)times[i];
        totals[kind] += sum;
    }
}

/* What two columns make together, added up from the first to the last. */
static double product(const double *one, const double *two, int64_t count)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++)
        sum += one[i] * two[i];
    return sum;
}

static const Parameter charge_parameters[] = {
    {"first", 'q', "K", ANY_NUMBER, 0},
    {"second", 'q', "K", ANY_NUMBER, -1},
    {"gpu_types", 'q', "K", 'T', 0},
    {"gpus", 'q', "K", 0, 0},
    {"seconds", 'd', "K", 0, 0},
    {"prices", 'd', "T", 0, 0},
    {"cpus", 'd', "K?", 0, 0},
    {"memory", 'd', "K?", 0, 0},
    {"gpu_s", 'D', "N", 0, 0},
    {"price", 'D', "N", 0, 0},
    {"by_type", 'D', "T", 0, 0},
    {"unsaid", 'D', "T", 0, 0},
    {"beside", 'D', "2", 0, 0},
};
SIGNATURE(charge);

KERNEL(charge)
{
    Arrays held;
    if (!TAKE(held, charge))
        return NULL;
    const int64_t *first = INTS(held, 0), *second = INTS(held, 1), *kinds = INTS(held, 2), *gpus = INTS(held, 3);
    const double *seconds = FLOATS(held, 4), *prices = FLOATS(held, 5);
    double *gpu_s = FLOATS(held, 8), *price = FLOATS(held, 9), *beside = FLOATS(held, 12);
    int64_t tasks = LENGTH(held, 0), types = LENGTH(held, 10), room = LENGTH(held, 8);
    if (LENGTH(held, 6) != LENGTH(held, 7))
        return arrays_refuse(&held, PyExc_ValueError, "cpus and memory have different lengths");
    for (int64_t i = 0; i < tasks; i++)
        if (first[i] >= room || second[i] >= room) {
            arrays_release(&held);
            Py_RETURN_FALSE;
        }
    for (int64_t i = 0; i < tasks; i++) {
        double amount = seconds[i] * (double)gpus[i], cost = amount * prices[kinds[i]];
        double part = second[i] >= 0 ? 0.5 : 1.0;
        gpu_s[first[i]] += amount * part;
        price[first[i]] += cost * part;
        if (second[i] >= 0) {
            gpu_s[second[i]] += amount * part;
            price[second[i]] += cost * part;
        }
    }
    add_by_type(FLOATS(held, 10), types, kinds, seconds, gpus, tasks);
    if (LENGTH(held, 6) == tasks) {
        beside[0] += product(seconds, FLOATS(held, 6), tasks);
        beside[1] += product(seconds, FLOATS(held, 7), tasks);
    } else
        add_by_type(FLOATS(held, 11), types, kinds, seconds, gpus, tasks);
    arrays_release(&held);
    Py_RETURN_TRUE;
}

static const Parameter book_parameters[] = {
    {"rows", 'q', "K", 'J', 0},
    {"gpu_types", 'q', "K", 'T', 0},
    {"gpus", 'q', "K", 0, 0},
    {"steps", 'd', "K", 0, 0},
    {"seconds", 'd', "K", 0, 0},
    {"each", 'd', "rK", 0, 0},
    {"done", 'D', "J", 0, 0},
    {"attained", 'D', "J", 0, 0},
    {"last_ran", 'D', "J", 0, 0},
    {"received", 'D', "TJ", 0, 0},
    {"type_time", 'D', "T?", 0, 0},
    {"now", 'f', NULL, 0, 0},
};
SIGNATURE(book);

KERNEL(book)
{
    Arrays held;
    if (!TAKE(held, book))
        return NULL;
    const int64_t *rows = INTS(held, 0), *kinds = INTS(held, 1), *gpus = INTS(held, 2);
    const double *steps = FLOATS(held, 3), *seconds = FLOATS(held, 4), *each = FLOATS(held, 5);
    double *done = FLOATS(held, 6), *attained = FLOATS(held, 7), *last_ran = FLOATS(held, 8);
    double *received = FLOATS(held, 9), *type_time = FLOATS(held, 10), now = NUMBER(held, 11);
    int64_t tasks = LENGTH(held, 0), active = LENGTH(held, 6), types = LENGTH(held, 10);
    int64_t rounds = tasks && types ? LENGTH(held, 5) / tasks : 0;
    for (int64_t i = 0; i < tasks; i++) {
        done[rows[i]] += steps[i];
        attained[rows[i]] += seconds[i] * (double)gpus[i];
        last_ran[rows[i]] = now;
        for (int64_t round = 0; round < rounds; round++)
            received[kinds[i] * active + rows[i]] += each[round * tasks + i];
    }
    add_by_type(type_time, types, kinds, seconds, NULL, tasks);
    arrays_release(&held);
    Py_RETURN_NONE;
}

static const Parameter slowest_full_parameters[] = {
    {"rate", 'd', "K", 0, 0},
    {"left", 'd', "K", 0, 0},
    {"length", 'f', NULL, 0, 0},
};
SIGNATURE(slowest_full);

KERNEL(slowest_full)
{
    Arrays held;
    if (!TAKE(held, slowest_full))
        return NULL;
    double length = NUMBER(held, 2);
    const double *rate = FLOATS(held, 0), *left = FLOATS(held, 1);
    double fewest = INFINITY, longest = 0.0;
    for (int64_t i = 0; i < LENGTH(held, 0); i++) {
        double chunk = floor(rate[i] * length);
        if (chunk <= 0) {
            fewest = longest = 0.0;
            break;
        }
        double rounds = left[i] / chunk, span = chunk / rate[i];
        fewest = rounds < fewest ? rounds : fewest;
        longest = span > longest ? span : longest;
    }
    arrays_release(&held);
    fewest = ceil(fewest) - 1;
    return Py_BuildValue("dd", fewest > 0 ? fewest : 0.0, longest);
}

static const Parameter slowest_many_parameters[] = {
    {"rate", 'd', "K", 0, 0},
    {"left", 'D', "K", 0, 0},
    {"starts", 'd', "R", 0, 0},
    {"each", 'D', ">RK", 0, 0},
    {"steps", 'D', "K", 0, 0},
    {"seconds", 'D', "K", 0, 0},
    {"length", 'f', NULL, 0, 0},
    {"start", 'f', NULL, 0, 0},
};
SIGNATURE(slowest_many);

KERNEL(slowest_many)
{
    Arrays held;
    if (!TAKE(held, slowest_many))
        return NULL;
    double length = NUMBER(held, 6), start = NUMBER(held, 7);
    const double *rate = FLOATS(held, 0), *starts = FLOATS(held, 2);
    double *left = FLOATS(held, 1), *each = FLOATS(held, 3), *steps = FLOATS(held, 4), *seconds = FLOATS(held, 5);
    int64_t tasks = LENGTH(held, 0), rounds = LENGTH(held, 2);
    for (int64_t i = 0; i < tasks; i++) {
        double chunk = floor(rate[i] * length), span = chunk / rate[i], sum = 0.0;
        for (int64_t round = 0; round < rounds; round++) {
            double took = (starts[round] + span) - (round == 0 ? start : starts[round]);
            each[round * tasks + i] = took;
            sum = round == 0 ? took : sum + took;
        }
        steps[i] = chunk * (double)rounds;
        left[i] -= steps[i];
        seconds[i] = sum;
    }
    arrays_release(&held);
    Py_RETURN_NONE;
}

static const Parameter slowest_one_parameters[] = {
    {"rate", 'd', "K", 0, 0},
    {"left", 'D', "K", 0, 0},
    {"gpus", 'q', "K", 0, 0},
    {"steps", 'D', "K", 0, 0},
    {"seconds", 'D', "K", 0, 0},
    {"finish", 'D', "K", 0, 0},
    {"length", 'f', NULL, 0, 0},
    {"now", 'f', NULL, 0, 0},
    {"start", 'f', NULL, 0, 0},
    {"split_fails", 't', NULL, 0, 0},
};
SIGNATURE(slowest_one);

KERNEL(slowest_one)
{
    Arrays held;
    if (!TAKE(held, slowest_one))
        return NULL;
    double length = NUMBER(held, 6), now = NUMBER(held, 7), start = NUMBER(held, 8);
    int split_fails = WHOLE(held, 9) != 0;
    const double *rate = FLOATS(held, 0);
    const int64_t *gpus = INTS(held, 2);
    double *left = FLOATS(held, 1), *steps = FLOATS(held, 3), *seconds = FLOATS(held, 4), *finish = FLOATS(held, 5);
    int64_t tasks = LENGTH(held, 0), through = 0, failed = 0;
    double end = -INFINITY;
    for (int64_t i = 0; i < tasks; i++) {
        double chunk = floor(rate[i] * length);
        steps[i] = chunk < left[i] ? chunk : left[i];
        failed |= steps[i] <= 0 || (gpus[i] > 1 && steps[i] < (double)gpus[i]);
    }
    if (failed && split_fails) {
        arrays_release(&held);
        Py_RETURN_NONE;
    }
    for (int64_t i = 0; i < tasks; i++) {
        finish[i] = steps[i] / rate[i] + now;
        seconds[i] = finish[i] - start;
        left[i] -= steps[i];
        through += left[i] <= 0;
        end = finish[i] > end ? finish[i] : end;
    }
    arrays_release(&held);
    return Py_BuildValue("dL", end, (long long)through);
}

static const Parameter whole_parameters[] = {
    {"chunk", 'd', "K", 0, 0},
    {"left", 'D', "K", 0, 0},
    {"steps", 'D', "K", 0, 0},
    {"rounds", 'f', NULL, 0, 0},
};
SIGNATURE(whole);

KERNEL(whole)
{
    Arrays held;
    if (!TAKE(held, whole))
        return NULL;
    double rounds = NUMBER(held, 3);
    const double *chunk = FLOATS(held, 0);
    double *left = FLOATS(held, 1), *steps = FLOATS(held, 2);
    int64_t through = 0;
    for (int64_t i = 0; i < LENGTH(held, 0); i++) {
        double most = chunk[i] * rounds;
        steps[i] = most < left[i] ? most : left[i];
        left[i] -= steps[i];
        through += left[i] <= 0;
    }
    arrays_release(&held);
    return PyLong_FromLongLong(through);
}
