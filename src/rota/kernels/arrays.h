/* Arrays handed over from Python: their memory through the buffer protocol, so that NumPy is not needed to build. */
#ifndef ROTA_ARRAYS_H
#define ROTA_ARRAYS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#define MOST_ARRAYS 16

typedef struct {
    Py_buffer view[MOST_ARRAYS];
    int count;
} Arrays;

/* Every function that Python calls. */
#define KERNEL(name) PyObject *name(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)

/* The arrays that `args` begin with, one letter each: q int64, d float64, b bool; capitals are written to. So many numbers
   follow them. On failure nothing is held and an exception is set. */
int arrays_take(Arrays *held, PyObject *const *args, Py_ssize_t count, const char *letters, Py_ssize_t numbers);
void arrays_release(Arrays *held);

#define INTS(held, n) ((int64_t *)(held).view[n].buf)
#define FLOATS(held, n) ((double *)(held).view[n].buf)
#define BOOLS(held, n) ((char *)(held).view[n].buf)
#define LENGTH(held, n) ((held).view[n].len / (held).view[n].itemsize)

/* Where `id` stands in ascending `ids`, which have it. */
static inline int64_t position(const int64_t *ids, int64_t count, int64_t id)
{
    int64_t low = 0, high = count;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (ids[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

#endif
