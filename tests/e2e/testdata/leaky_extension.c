// The extension module `leaky`: parse(text) copies the text, and forgets the copy.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

static char* copy_text(const char* text, Py_ssize_t length) {
  char* copy = malloc((size_t)length + 1);
  if (copy != NULL) memcpy(copy, text, (size_t)length + 1);
  return copy;
}

static PyObject* parse(PyObject* self, PyObject* args) {
  const char* text;
  Py_ssize_t length;
  if (!PyArg_ParseTuple(args, "s#", &text, &length)) return NULL;
  char* copy = copy_text(text, length);
  return PyBool_FromLong(copy != NULL && copy[0] == text[0]);
}

static PyMethodDef methods[] = {{"parse", parse, METH_VARARGS, "Forgets a copy."},
                                {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "leaky", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_leaky(void) { return PyModule_Create(&module); }
