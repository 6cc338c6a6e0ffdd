/* Columns of the active jobs. Those that are added or taken out have items of eight bytes, whatever they mean. */
#include "arrays.h"

#include <math.h>
#include <string.h>

/* Columns are two blocks of rows: what jobs asked for, and what became of them. */

static const Parameter append_parameters[] = {
    {"top", 'x', "AB", 0, 0},
    {"bottom", 'x', "DB", 0, 0},
    {"new", 'x', "R1", 0, 0},
    {"out", 'X', "RN", 0, 0},
    {"rows", 'q', "G", 'R', 0},
    {"values", 'x', "V", 0, 0},
    {"values", 'x', "V", 0, 0},
    {"values", 'x', "V", 0, 0},
    {"values", 'x', "V", 0, 0},
    {"values", 'x', "V", 0, 0},
    {"values", 'x', "V", 0, 0},
    {"values", 'x', "V", 0, 0},
};
SIGNATURE_FROM(append, 5);

KERNEL(append)
{
    Arrays held;
    if (!TAKE(held, append))
        return NULL;
    const int64_t *top = INTS(held, 0), *bottom = INTS(held, 1), *template = INTS(held, 2), *rows = INTS(held, 4);
    int64_t *out = INTS(held, 3), given = (int64_t)count - 5;
    int64_t above = DIMENSION(held, 'A'), all = DIMENSION(held, 'R');
    int64_t before = DIMENSION(held, 'B'), after = DIMENSION(held, 'N');
    if (above + DIMENSION(held, 'D') != all)
        return arrays_refuse(&held, PyExc_ValueError, "out has not as many rows as top and bottom");
    if (given != LENGTH(held, 4) || after < before || (given > 0 && after - before != DIMENSION(held, 'V')))
        return arrays_refuse(&held, PyExc_ValueError, "as many values are needed as rows, for every new column of out");
    for (int64_t row = 0; row < all; row++) {
        const int64_t *old = row < above ? top + row * before : bottom + (row - above) * before;
        memcpy(out + row * after, old, (size_t)before * sizeof(int64_t));
        for (int64_t i = before; i < after; i++)
            out[row * after + i] = template[row];
    }
    for (int64_t i = 0; i < given; i++)
        memcpy(out + rows[i] * after + before, INTS(held, 5 + i), (size_t)(after - before) * sizeof(int64_t));
    arrays_release(&held);
    Py_RETURN_NONE;
}

/* The columns of a block but for these; where the next block goes. */
static int64_t *keep(const int64_t *old, int64_t rows, int64_t before, const int64_t *gone, int64_t some, int64_t *out)
{
    for (int64_t row = 0; row < rows; row++, old += before) {
        int64_t from = 0;
        for (int64_t i = 0; i <= some; i++) {
            int64_t to = i < some ? gone[i] : before;
            memcpy(out, old + from, (size_t)(to - from) * sizeof(int64_t));
            out += to - from;
            from = to + 1;
        }
    }
    return out;
}

static const Parameter without_parameters[] = {
    {"top", 'x', "AB", 0, 0},
    {"bottom", 'x', "DB", 0, 0},
    {"gone", 'q', "G", 0, 0},
    {"out", 'X', "RN", 0, 0},
    {"rows", 'n', "R", 0, 0},
};
SIGNATURE(without);

KERNEL(without)
{
    Arrays held;
    if (!TAKE(held, without))
        return NULL;
    const int64_t *gone = INTS(held, 2);
    int64_t some = LENGTH(held, 2), rows = WHOLE(held, 4), before = DIMENSION(held, 'B'), least = 0;
    if (DIMENSION(held, 'A') + DIMENSION(held, 'D') != rows)
        return arrays_refuse(&held, PyExc_ValueError, "top and bottom have not %lld rows", (long long)rows);
    for (int64_t i = 0; i < some; least = gone[i++] + 1)
        if (gone[i] < least || gone[i] >= before)
            return arrays_refuse(&held, PyExc_IndexError, "gone, which has to ascend, has column %lld of %lld",
                                 (long long)gone[i], (long long)before);
    if (DIMENSION(held, 'N') != before - some)
        return arrays_refuse(&held, PyExc_ValueError, "out has not the columns that are left");
    int64_t *out = keep(INTS(held, 0), DIMENSION(held, 'A'), before, gone, some, INTS(held, 3));
    keep(INTS(held, 1), DIMENSION(held, 'D'), before, gone, some, out);
    arrays_release(&held);
    Py_RETURN_NONE;
}

static const Parameter seat_parameters[] = {
    {"jobs", 'q', "J", 0, 0},
    {"group", 'q', "J", 0, 0},
    {"first", 'q', "K", 0, 0},
    {"gpu_types", 'q', "K", 0, 0},
    {"best", 'd', "C", 0, 0},
    {"given", 'd', "K?", 0, 0},
    {"rows", 'Q', "K", 0, 0},
    {"last", 'Q', "J", 0, 0},
    {"speed", 'D', "J?", 0, 0},
    {"types", 'n', NULL, 0, 0},
    {"divided", 't', NULL, 0, 0},
};
SIGNATURE(seat);

KERNEL(seat)
{
    Arrays held;
    if (!TAKE(held, seat))
        return NULL;
    const int64_t *jobs = INTS(held, 0), *group = INTS(held, 1), *first = INTS(held, 2), *kinds = INTS(held, 3);
    const double *best = LENGTH(held, 4) ? FLOATS(held, 4) : NULL, *given = FLOATS(held, 5);
    int64_t *rows = INTS(held, 6), *last = INTS(held, 7), active = LENGTH(held, 0), tasks = LENGTH(held, 2), task;
    double *speed = FLOATS(held, 8);
    int64_t types = WHOLE(held, 9), divided = WHOLE(held, 10);
    if (divided && (LENGTH(held, 5) != tasks || LENGTH(held, 8) != active))
        return arrays_refuse(&held, PyExc_ValueError, "given or speed is empty although speeds are divided");
    if (divided && best != NULL && !arrays_in_range(&held, 1, 0, LENGTH(held, 4)))
        return NULL;
    for (int64_t row = 0; row < active; row++) {
        last[row] = -1;
        if (divided)
            speed[row] = best ? best[group[row]] : 1.0;
    }
    for (task = 0; task < tasks; task++) {
        int64_t row = rows[task] = position(jobs, active, first[task]);
        if (row == active || jobs[row] != first[task] || kinds[task] < 0 || kinds[task] >= types)
            break;
        if (divided && !(given[task] > 0 && given[task] < INFINITY))
            break;
        last[row] = task;
        if (divided)
            speed[row] = given[task];
    }
    arrays_release(&held);
    return PyLong_FromLongLong(task);
}
