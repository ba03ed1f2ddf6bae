// The extension module of scanner.py. words(text) counts words in a copy of the text, which it never frees.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

static char* lower_case(const char* text, Py_ssize_t length) {
  char* copy = malloc((size_t)length + 1);
  for (Py_ssize_t i = 0; copy != NULL && i <= length; i++) copy[i] = (char)Py_TOLOWER(text[i]);
  return copy;
}

static PyObject* words(PyObject* self, PyObject* text) {
  Py_ssize_t length;
  const char* characters = PyUnicode_AsUTF8AndSize(text, &length);
  if (characters == NULL) return NULL;
  char* copy = lower_case(characters, length);
  if (copy == NULL) return PyErr_NoMemory();
  long count = 0;
  for (char* word = strtok(copy, " "); word != NULL; word = strtok(NULL, " ")) count++;
  return PyLong_FromLong(count);  // without free(copy)
}

static PyMethodDef methods[] = {{"words", words, METH_O, "Counts words."}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "scanner_native", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_scanner_native(void) { return PyModule_Create(&module); }
