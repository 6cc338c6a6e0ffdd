/* Arrays and numbers handed over from Python, looked at before a kernel touches them.

   Every kernel has a signature: what each argument is called, of which type it is, which lengths have to agree, and which
   whole numbers are positions somewhere. `arrays_take` checks all of it, so that no kernel reads or writes outside of what
   it was given, whoever calls it. What a signature cannot say is checked where it is used, with `arrays_refuse`.
   NumPy is not needed to build: see arrays.c. */
#ifndef ROTA_ARRAYS_H
#define ROTA_ARRAYS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#define MOST_ARGUMENTS 22
#define MOST_COUNT INT64_C(2147483647)

/* Instead of the letter of a dimension in `below`: any number, and a count of things, small enough to be added up. */
#define ANY_NUMBER '*'
#define COUNT '#'

typedef struct {
    const char *name; /* as its twin in plain.py calls it */
    char kind;        /* arrays: q int64, d float64, b bool, x one of the first two, the same for all; a capital letter is
                         written to. n a whole number, f a number, t a truth value. */
    const char *shape; /* A letter for each dimension, and the same letter for the same length; a figure for that length.
                          A small letter in front: that dimension may be missing. `>` in front: the first dimension may be
                          longer. `?` at the end: it may be empty. Of a whole number: the dimension that it has to be. */
    char below;        /* of arrays of whole numbers: the dimension in which they are positions, or see above */
    int least;         /* of these: the smallest that is allowed */
} Parameter;

typedef struct {
    const char *name;
    int count, least_count; /* arguments; those from the second on may be missing at the end */
    const Parameter *parameters;
} Signature;

typedef struct {
    const Signature *signature;
    void *data[MOST_ARGUMENTS];
    int64_t length[MOST_ARGUMENTS];
    union {
        int64_t whole;
        double number;
    } value[MOST_ARGUMENTS];
    int64_t dimension[26]; /* -1 if no argument has said it */
    int buffers;
    Py_buffer buffer[MOST_ARGUMENTS];
} Arrays;

/* Every function that Python calls. */
#define KERNEL(name) PyObject *name(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)

/* The signature of a kernel, as name_signature. */
#define SIGNATURE_FROM(kernel, least_count) \
    const Signature kernel##_signature = { \
        #kernel, (int)(sizeof(kernel##_parameters) / sizeof(Parameter)), least_count, kernel##_parameters}
#define SIGNATURE(kernel) SIGNATURE_FROM(kernel, (int)(sizeof(kernel##_parameters) / sizeof(Parameter)))

/* On failure nothing is held and an exception is set that names the kernel and the argument. */
int arrays_take(Arrays *held, const Signature *signature, PyObject *const *args, Py_ssize_t count);
void arrays_release(Arrays *held);

/* Whether whole numbers are from `least` on and below `limit`; an exception is set if not, and nothing is held then. */
int arrays_in_range(Arrays *held, int argument, int64_t least, int64_t limit);

/* An exception with the name of the kernel in front of the text. Always NULL, and nothing is held any more. */
PyObject *arrays_refuse(Arrays *held, PyObject *exception, const char *format, ...);

/* Called once: what has to be known of NumPy. */
int arrays_prepare(void);

#define TAKE(held, kernel) (arrays_take(&(held), &kernel##_signature, args, count) == 0)
#define INTS(held, n) ((int64_t *)(held).data[n])
#define FLOATS(held, n) ((double *)(held).data[n])
#define BOOLS(held, n) ((char *)(held).data[n])
#define LENGTH(held, n) ((held).length[n])
#define WHOLE(held, n) ((held).value[n].whole)
#define NUMBER(held, n) ((held).value[n].number)
#define DIMENSION(held, letter) ((held).dimension[(letter) - 'A'])

/* Where `id` stands in ascending `ids`, if they have it. */
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
