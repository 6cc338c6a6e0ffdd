/* Columns of the active jobs. Those that are added or taken out have items of eight bytes, whatever they mean. */
#include "arrays.h"

#include <string.h>

#define MOST 12

KERNEL(append)
{
    Arrays held;
    char letters[MOST + 1] = "qqQqqqqqqqqq";
    if (count < 4 || count > MOST)
        return PyErr_Format(PyExc_TypeError, "%zd arguments instead of 4 to %d", count, MOST);
    letters[count] = 0;
    if (arrays_take(&held, args, count, letters, 0) < 0)
        return NULL;
    const int64_t *old = INTS(held, 0), *template = INTS(held, 1), *rows = INTS(held, 3);
    int64_t *out = INTS(held, 2), all = LENGTH(held, 1), given = (int64_t)count - 4;
    int64_t before = LENGTH(held, 0) / all, after = LENGTH(held, 2) / all;
    for (int64_t row = 0; row < all; row++) {
        memcpy(out + row * after, old + row * before, (size_t)before * sizeof(int64_t));
        for (int64_t i = before; i < after; i++)
            out[row * after + i] = template[row];
    }
    for (int64_t i = 0; i < given && i < LENGTH(held, 3); i++)
        memcpy(out + rows[i] * after + before, INTS(held, 4 + i), (size_t)(after - before) * sizeof(int64_t));
    arrays_release(&held);
    Py_RETURN_NONE;
}

KERNEL(without)
{
    Arrays held;
    if (arrays_take(&held, args, count, "qqQ", 1) < 0)
        return NULL;
    const int64_t *old = INTS(held, 0), *gone = INTS(held, 1);
    int64_t *out = INTS(held, 2), some = LENGTH(held, 1), rows = PyLong_AsLongLong(args[3]);
    int64_t before = rows > 0 ? LENGTH(held, 0) / rows : 0, least = 0;
    for (int64_t i = 0; i < some; least = gone[i++] + 1)
        if (gone[i] < least || gone[i] >= before) {
            arrays_release(&held);
            return PyErr_Format(PyExc_IndexError, "column %lld of %lld", (long long)gone[i], (long long)before);
        }
    for (int64_t row = 0; row < rows; row++, old += before) {
        int64_t from = 0;
        for (int64_t i = 0; i <= some; i++) {
            int64_t to = i < some ? gone[i] : before;
            memcpy(out, old + from, (size_t)(to - from) * sizeof(int64_t));
            out += to - from;
            from = to + 1;
        }
    }
    arrays_release(&held);
    Py_RETURN_NONE;
}

KERNEL(seat)
{
    Arrays held;
    if (arrays_take(&held, args, count, "qqqqddQQD", 2) < 0)
        return NULL;
    const int64_t *jobs = INTS(held, 0), *group = INTS(held, 1), *first = INTS(held, 2), *kinds = INTS(held, 3);
    const double *best = LENGTH(held, 4) ? FLOATS(held, 4) : NULL, *given = FLOATS(held, 5);
    int64_t *rows = INTS(held, 6), *last = INTS(held, 7), active = LENGTH(held, 0), tasks = LENGTH(held, 2), task;
    double *speed = FLOATS(held, 8);
    int64_t types = PyLong_AsLongLong(args[9]), divided = PyObject_IsTrue(args[10]);
    for (int64_t row = 0; row < active; row++) {
        last[row] = -1;
        if (divided)
            speed[row] = best ? best[group[row]] : 1.0;
    }
    for (task = 0; task < tasks; task++) {
        int64_t row = rows[task] = position(jobs, active, first[task]);
        if (row == active || jobs[row] != first[task] || kinds[task] < 0 || kinds[task] >= types)
            break;
        last[row] = task;
        if (divided)
            speed[row] = given[task];
    }
    arrays_release(&held);
    return PyLong_FromLongLong(task);
}
