/* The module. What each function does is said beside its twin: in plain.py and queues.py, and of walk in packing.py of the
   mechanisms. */
#include "arrays.h"

#include <string.h>

#define KERNELS(EACH) \
    EACH(append) EACH(arrange) EACH(book) EACH(by_chance) EACH(by_gpus) EACH(by_speed) EACH(charge) EACH(choose_ones) \
    EACH(is_permutation) EACH(look_up) EACH(queue_up) EACH(seat) EACH(slowest_full) EACH(slowest_many) \
    EACH(slowest_one) EACH(stay) EACH(walk) EACH(whole) EACH(without)

#define DECLARE(name) KERNEL(name);
KERNELS(DECLARE)

/* Read-only memory of an array whose items do not lie one after the other: a copy. */
static int take_copy(PyObject *array, Py_buffer *view)
{
    PyErr_Clear();
    PyObject *copy = PyMemoryView_GetContiguous(array, PyBUF_READ, 'C');
    if (copy == NULL)
        return -1;
    int taken = PyObject_GetBuffer(copy, view, PyBUF_SIMPLE);
    Py_DECREF(copy);
    return taken;
}

int arrays_take(Arrays *held, PyObject *const *args, Py_ssize_t count, const char *letters, Py_ssize_t numbers)
{
    Py_ssize_t wanted = (Py_ssize_t)strlen(letters) + numbers;
    held->count = 0;
    if (count != wanted) {
        PyErr_Format(PyExc_TypeError, "%zd arguments instead of %zd", count, wanted);
        return -1;
    }
    for (const char *letter = letters; *letter; letter++, args++) {
        int writable = *letter < 'a';
        Py_ssize_t size = (*letter | 32) == 'b' ? 1 : 8;
        Py_buffer *view = &held->view[held->count];
        if (PyObject_GetBuffer(*args, view, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE) < 0 &&
            (writable || take_copy(*args, view) < 0)) {
            arrays_release(held);
            return -1;
        }
        held->count++;
        if (view->itemsize != size) {
            PyErr_Format(PyExc_TypeError, "argument %d has items of %zd bytes instead of %zd", held->count - 1,
                         view->itemsize, size);
            arrays_release(held);
            return -1;
        }
    }
    return 0;
}

void arrays_release(Arrays *held)
{
    while (held->count > 0)
        PyBuffer_Release(&held->view[--held->count]);
}

#define ENTRY(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, NULL},

static PyMethodDef methods[] = {KERNELS(ENTRY){NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_compiled", "Inner loops of a round.", -1, methods, NULL, NULL, NULL, NULL,
};

/* The digest of these sources (sources.py), given by hatch_build.py. */
#ifndef ROTA_SOURCES
#define ROTA_SOURCES 0
#endif

PyMODINIT_FUNC PyInit__compiled(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL && PyModule_AddIntConstant(module, "SOURCES", ROTA_SOURCES) < 0)
        Py_CLEAR(module);
    return module;
}
