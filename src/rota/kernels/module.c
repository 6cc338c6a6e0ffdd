/* The module. What each function does is said beside its twin: in plain.py and queues.py, and of walk in packing.py of the
   mechanisms. */
#include "arrays.h"

#define KERNELS(EACH) \
    EACH(append) EACH(arrange) EACH(book) EACH(by_chance) EACH(by_gpus) EACH(by_speed) EACH(charge) EACH(choose_ones) \
    EACH(is_permutation) EACH(look_up) EACH(queue_up) EACH(seat) EACH(slowest_full) EACH(slowest_many) \
    EACH(slowest_one) EACH(stay) EACH(walk) EACH(whole) EACH(without)

#define DECLARE(name) \
    KERNEL(name); \
    extern const Signature name##_signature;
KERNELS(DECLARE)

#define SIGNATURE_OF(name) &name##_signature,
#define ENTRY(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, NULL},

static PyMethodDef methods[] = {KERNELS(ENTRY){NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_compiled", "Inner loops of a round.", -1, methods, NULL, NULL, NULL, NULL,
};

/* The digest of these sources (sources.py), given by hatch_build.py. */
#ifndef ROTA_SOURCES
#define ROTA_SOURCES 0
#endif

/* What a kernel takes: (name, kind, shape, below, least) of every argument, as arrays.h says. */
static PyObject *described(const Signature *signature)
{
    PyObject *all = PyTuple_New(signature->count);
    for (int n = 0; all != NULL && n < signature->count; n++) {
        const Parameter *p = &signature->parameters[n];
        const char below[2] = {p->below, 0};
        PyObject *one = Py_BuildValue("sCzsi", p->name, p->kind, p->shape, below, p->least);
        if (one == NULL)
            Py_CLEAR(all);
        else
            PyTuple_SET_ITEM(all, n, one);
    }
    return all;
}

/* The same of all kernels, by name; tests make calls from it that have to be refused. */
static int add_signatures(PyObject *module)
{
    static const Signature *const signatures[] = {KERNELS(SIGNATURE_OF) NULL};
    PyObject *by_name = PyDict_New();
    for (const Signature *const *each = signatures; by_name != NULL && *each != NULL; each++) {
        PyObject *parameters = described(*each);
        if (parameters == NULL || PyDict_SetItemString(by_name, (*each)->name, parameters) < 0)
            Py_CLEAR(by_name);
        Py_XDECREF(parameters);
    }
    int added = by_name == NULL ? -1 : PyModule_AddObjectRef(module, "SIGNATURES", by_name);
    Py_XDECREF(by_name);
    return added;
}

PyMODINIT_FUNC PyInit__compiled(void)
{
    if (arrays_prepare() < 0)
        return NULL;
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL &&
        (PyModule_AddIntConstant(module, "SOURCES", ROTA_SOURCES) < 0 || add_signatures(module) < 0))
        Py_CLEAR(module);
    return module;
}
