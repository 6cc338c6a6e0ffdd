/* The module: what Python calls. What each function does is said beside its twin in plain.py. */
#include "arrays.h"

PyObject *choose_ones(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *settle(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *stay(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *look_up(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *arrange(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *charge(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *book(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *by_gpus(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *slowest_full(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *slowest_many(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *slowest_one(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *walk(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *whole(PyObject *module, PyObject *const *args, Py_ssize_t count);

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

int arrays_take(Arrays *held, PyObject *const *args, const char *letters)
{
    held->count = 0;
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
            PyErr_Format(PyExc_TypeError, "array %d has items of %zd bytes, not %zd", held->count - 1, view->itemsize, size);
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

#define ENTRY(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, NULL}

static PyMethodDef methods[] = {
    ENTRY(arrange), ENTRY(charge), ENTRY(choose_ones), ENTRY(settle), ENTRY(stay), ENTRY(look_up), ENTRY(book), ENTRY(by_gpus), ENTRY(slowest_full),
    ENTRY(slowest_many), ENTRY(slowest_one), ENTRY(walk), ENTRY(whole), {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_compiled", "Inner loops of a round.", -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__compiled(void)
{
    return PyModule_Create(&definition);
}
