/* Arguments of kernels: where their memory is, and whether they are what the signature says.

   Arrays of NumPy are looked at directly. The first fields of its array object are part of NumPy's binary interface, which
   every compiled extension has built in, so no header of NumPy is needed for them; `arrays_prepare` compares them with
   what an array says of itself, and if they are different, arrays are taken as all other memory is: by the buffer
   protocol, which has to allocate for each of them. */
#include "arrays.h"

#include <string.h>

typedef struct {
    PyObject_HEAD
    char *data;
    int axes;
    Py_ssize_t *shape, *strides;
    PyObject *base, *type;
    int flags;
} NumpyArray;

enum { CONTIGUOUS = 0x1, ALIGNED = 0x100, WRITEABLE = 0x400 };

/* What NumPy calls its array and its types; NULL if arrays are not looked at directly. */
static PyTypeObject *array_type;
static PyObject *int_type, *float_type, *bool_type;

static int is_array_kind(char kind)
{
    return strchr("qdbx", kind | 32) != NULL;
}

PyObject *arrays_refuse(Arrays *held, PyObject *exception, const char *format, ...)
{
    va_list rest;
    va_start(rest, format);
    PyObject *text = PyUnicode_FromFormatV(format, rest);
    va_end(rest);
    if (text != NULL)
        PyErr_Format(exception, "%s: %U", held->signature->name, text);
    Py_XDECREF(text);
    arrays_release(held);
    return NULL;
}

void arrays_release(Arrays *held)
{
    while (held->buffers > 0)
        PyBuffer_Release(&held->buffer[--held->buffers]);
}

/* Whether an array has the dimensions that its signature says; those that were not known before are now. */
static int has_shape(Arrays *held, const char *letters, int axes, const Py_ssize_t *shape)
{
    const int may_be_longer = *letters == '>';
    int axis = 0;
    letters += may_be_longer;
    if (*letters >= 'a' && axes + 1 == (int)strlen(letters))
        letters++;
    for (; *letters && *letters != '?'; letters++, axis++) {
        if (axis == axes)
            return 0;
        const int64_t length = shape[axis];
        if (*letters <= '9') {
            if (length != *letters - '0')
                return 0;
            continue;
        }
        int64_t *known = &DIMENSION(*held, *letters & ~32);
        if (*known < 0)
            *known = length;
        else if (length != *known && !(may_be_longer && axis == 0 && length > *known))
            return 0;
    }
    return axis == axes;
}

static int bad_shape(Arrays *held, const Parameter *p, int axes, const Py_ssize_t *shape)
{
    PyObject *found = PyTuple_New(axes);
    for (int axis = 0; found != NULL && axis < axes; axis++) {
        PyObject *length = PyLong_FromSsize_t(shape[axis]);
        if (length == NULL)
            Py_CLEAR(found);
        else
            PyTuple_SET_ITEM(found, axis, length);
    }
    if (found == NULL) {
        arrays_release(held);
        return -1;
    }
    arrays_refuse(held, PyExc_ValueError, "%s has the shape %R, which does not go with the other arguments ([%s])", p->name,
                  found, p->shape);
    Py_DECREF(found);
    return -1;
}

static int put(Arrays *held, int n, void *data, int axes, const Py_ssize_t *shape)
{
    const Parameter *p = &held->signature->parameters[n];
    uint64_t length = 1; /* an empty array may have any other dimensions */
    for (int axis = 0; axis < axes; axis++)
        length *= (uint64_t)shape[axis];
    held->data[n] = data;
    held->length[n] = (int64_t)length;
    if (length == 0 && axes == 1 && p->shape[strlen(p->shape) - 1] == '?')
        return 0;
    return has_shape(held, p->shape, axes, shape) ? 0 : bad_shape(held, p, axes, shape);
}

static int bad_type(Arrays *held, int n)
{
    static const char *const names[] = {"int64", "float64", "bool", "int64 or float64, like the others"};
    const Parameter *p = &held->signature->parameters[n];
    const char *name = names[strchr("qdbx", p->kind | 32) - "qdbx"];
    arrays_refuse(held, PyExc_TypeError, "%s is no array of %s", p->name, name);
    return -1;
}

/* Whether items of this type may be there; `either` is the type of the first array that may have one of two. */
static int has_type(char kind, char found, char *either)
{
    kind |= 32;
    if (kind != 'x' || found == 0 || found == 'b')
        return kind == found;
    if (*either == 0)
        *either = found;
    return found == *either;
}

/* The letter of the items of a buffer, 0 if it is none of ours. */
static char letter_of(const Py_buffer *view)
{
    const char *format = view->format == NULL ? "B" : view->format;
    if (format[0] == '@' || format[0] == '=')
        format++;
    if (format[0] == 0 || format[1] != 0)
        return 0;
    if ((format[0] == 'l' || format[0] == 'q') && view->itemsize == 8)
        return 'q';
    if (format[0] == 'd' && view->itemsize == 8)
        return 'd';
    return format[0] == '?' && view->itemsize == 1 ? 'b' : 0;
}

/* Memory that is not a plain array of NumPy, or whose items do not lie one after the other: a copy of these if they are
   only read. */
static int take_buffer(Arrays *held, int n, PyObject *given, char *either)
{
    const Parameter *p = &held->signature->parameters[n];
    const int writable = p->kind < 'a';
    Py_buffer *view = &held->buffer[held->buffers];
    int taken = PyObject_GetBuffer(given, view, PyBUF_FORMAT | (writable ? PyBUF_CONTIG : PyBUF_CONTIG_RO));
    if (taken < 0 && !PyObject_CheckBuffer(given)) {
        PyErr_Clear();
        return bad_type(held, n);
    }
    if (taken < 0 && writable) {
        PyErr_Clear();
        arrays_refuse(held, PyExc_ValueError, "%s is written to, and is read-only or not contiguous", p->name);
        return -1;
    }
    if (taken < 0) {
        PyErr_Clear();
        PyObject *copy = PyMemoryView_GetContiguous(given, PyBUF_READ, 'C');
        taken = copy == NULL ? -1 : PyObject_GetBuffer(copy, view, PyBUF_FORMAT | PyBUF_CONTIG_RO);
        Py_XDECREF(copy);
    }
    if (taken < 0) {
        PyErr_Clear();
        return bad_type(held, n);
    }
    held->buffers++;
    if (!has_type(p->kind, letter_of(view), either))
        return bad_type(held, n);
    if (view->len > 0 && (uintptr_t)view->buf % (uintptr_t)view->itemsize != 0) {
        arrays_refuse(held, PyExc_ValueError, "the memory of %s is not aligned", p->name);
        return -1;
    }
    return put(held, n, view->buf, view->ndim, view->shape);
}

static int take_array(Arrays *held, int n, PyObject *given, char *either)
{
    const Parameter *p = &held->signature->parameters[n];
    const NumpyArray *array = (const NumpyArray *)given;
    if (Py_TYPE(given) != array_type)
        return take_buffer(held, n, given, either);
    char found = array->type == int_type ? 'q' : array->type == float_type ? 'd' : array->type == bool_type ? 'b' : 0;
    const int wanted = CONTIGUOUS | ALIGNED | (p->kind < 'a' ? WRITEABLE : 0);
    if (found == 0 || (array->flags & wanted) != wanted)
        return take_buffer(held, n, given, either);
    if (!has_type(p->kind, found, either))
        return bad_type(held, n);
    return put(held, n, array->data, array->axes, array->shape);
}

/* Numbers may run code of the caller's (__index__, __float__, __bool__), so they come before all arrays. */
static int take_number(Arrays *held, int n, PyObject *given)
{
    const Parameter *p = &held->signature->parameters[n];
    if (p->kind == 'f')
        held->value[n].number = PyFloat_CheckExact(given) ? PyFloat_AS_DOUBLE(given) : PyFloat_AsDouble(given);
    else if (p->kind == 't')
        held->value[n].whole = PyObject_IsTrue(given);
    else
        held->value[n].whole = PyLong_AsLongLong(given);
    if (PyErr_Occurred()) {
        int large = PyErr_ExceptionMatches(PyExc_OverflowError);
        PyErr_Clear();
        arrays_refuse(held, large ? PyExc_ValueError : PyExc_TypeError, "%s is %s", p->name,
                      large ? "too large a number" : p->kind == 'n' ? "no whole number" : "no number");
        return -1;
    }
    if (p->kind != 'n' || p->shape == NULL)
        return 0;
    if (WHOLE(*held, n) < 0) {
        arrays_refuse(held, PyExc_ValueError, "%s is %lld", p->name, (long long)WHOLE(*held, n));
        return -1;
    }
    DIMENSION(*held, *p->shape) = WHOLE(*held, n);
    return 0;
}

int arrays_in_range(Arrays *held, int argument, int64_t least, int64_t limit)
{
    const int64_t *numbers = INTS(*held, argument);
    const uint64_t low = (uint64_t)least, high = (uint64_t)limit - 1;
    const int64_t count = LENGTH(*held, argument);
    uint64_t one = 0, two = 0; /* the first bit is set if a number is out of range: no branch for each of them */
    int64_t i = 0;
    for (; i + 1 < count; i += 2) {
        one |= ((uint64_t)numbers[i] - low) | (high - (uint64_t)numbers[i]);
        two |= ((uint64_t)numbers[i + 1] - low) | (high - (uint64_t)numbers[i + 1]);
    }
    if (i < count)
        one |= ((uint64_t)numbers[i] - low) | (high - (uint64_t)numbers[i]);
    if (!((one | two) >> 63))
        return 1;
    for (i = 0; numbers[i] >= least && numbers[i] < limit;)
        i++;
    const Parameter *p = &held->signature->parameters[argument];
    PyObject *exception = p->below == COUNT ? PyExc_ValueError : PyExc_IndexError;
    if (limit > least)
        arrays_refuse(held, exception, "%s[%lld] is %lld; allowed is %lld to %lld", p->name, (long long)i,
                      (long long)numbers[i], (long long)least, (long long)limit - 1);
    else
        arrays_refuse(held, exception, "%s[%lld] is %lld, and there is nothing that this could be a position in", p->name,
                      (long long)i, (long long)numbers[i]);
    return 0;
}

static int ranges_are_right(Arrays *held, int count)
{
    for (int n = 0; n < count; n++) {
        const Parameter *p = &held->signature->parameters[n];
        if (!p->below)
            continue;
        int64_t limit = p->below == COUNT        ? MOST_COUNT + 1
                        : p->below == ANY_NUMBER ? INT64_MAX
                                                 : DIMENSION(*held, p->below);
        if (!arrays_in_range(held, n, p->least, limit))
            return 0;
    }
    return 1;
}

/* What is written to must not be something else as well: numbers would change after they were looked at. */
static int are_apart(Arrays *held, int count)
{
    const Parameter *parameters = held->signature->parameters;
    for (int n = 0; n < count; n++) {
        if (parameters[n].kind >= 'a' || LENGTH(*held, n) == 0)
            continue;
        const char *begin = held->data[n], *end = begin + LENGTH(*held, n) * (parameters[n].kind == 'B' ? 1 : 8);
        for (int other = 0; other < count; other++) {
            if (other == n || LENGTH(*held, other) == 0)
                continue;
            const char *there = held->data[other];
            if (there < end && begin < there + LENGTH(*held, other) * ((parameters[other].kind | 32) == 'b' ? 1 : 8)) {
                arrays_refuse(held, PyExc_ValueError, "%s is written to, and shares memory with %s", parameters[n].name,
                              parameters[other].name);
                return 0;
            }
        }
    }
    return 1;
}

int arrays_take(Arrays *held, const Signature *signature, PyObject *const *args, Py_ssize_t count)
{
    held->signature = signature;
    held->buffers = 0;
    memset(held->dimension, -1, sizeof(held->dimension));
    if (count < signature->least_count || count > signature->count) {
        arrays_refuse(held, PyExc_TypeError, "%zd arguments instead of %d", count, signature->count);
        return -1;
    }
    int arrays = (int)count;
    char either = 0;
    while (arrays > 0 && !is_array_kind(signature->parameters[arrays - 1].kind))
        arrays--;
    for (int n = arrays; n < count; n++)
        if (take_number(held, n, args[n]) < 0)
            return -1;
    for (int n = 0; n < arrays; n++)
        if (take_array(held, n, args[n], &either) < 0)
            return -1;
    return ranges_are_right(held, arrays) && are_apart(held, arrays) ? 0 : -1;
}

/* Whether the fields of an array are where they are thought to be. */
static int is_as_thought(PyObject *given, const Py_buffer *view)
{
    const NumpyArray *array = (const NumpyArray *)given;
    return Py_TYPE(given)->tp_basicsize >= (Py_ssize_t)sizeof(NumpyArray) && array->axes == 2 &&
           array->type == int_type && array->data == view->buf && array->shape[0] == 3 && array->shape[1] == 5 &&
           array->strides[0] == 40 && array->strides[1] == 8 && array->base == NULL &&
           (array->flags & (ALIGNED | WRITEABLE)) == (ALIGNED | WRITEABLE) && (array->flags & 3) == CONTIGUOUS;
}

int arrays_prepare(void)
{
    PyObject *numpy = PyImport_ImportModule("numpy");
    if (numpy == NULL)
        return -1;
    int_type = PyObject_CallMethod(numpy, "dtype", "s", "int64");
    float_type = PyObject_CallMethod(numpy, "dtype", "s", "float64");
    bool_type = PyObject_CallMethod(numpy, "dtype", "s", "bool");
    PyObject *kind = PyObject_GetAttrString(numpy, "ndarray");
    PyObject *array = PyObject_CallMethod(numpy, "zeros", "(nn)s", (Py_ssize_t)3, (Py_ssize_t)5, "int64");
    Py_DECREF(numpy);
    Py_buffer view;
    int fine = int_type && float_type && bool_type && kind && array && PyObject_GetBuffer(array, &view, PyBUF_SIMPLE) == 0;
    if (fine) {
        if ((PyObject *)Py_TYPE(array) == kind && is_as_thought(array, &view))
            array_type = (PyTypeObject *)kind;
        PyBuffer_Release(&view);
    }
    Py_XDECREF(array);
    return fine ? 0 : -1;
}
