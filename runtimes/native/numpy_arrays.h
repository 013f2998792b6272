// NumPy's arrays, by NumPy's own interface for C.
#pragma once

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL xpr_numpy_api
#ifndef XPR_IMPORTS_NUMPY
#define NO_IMPORT_ARRAY
#endif
#include <Python.h>
#include <numpy/arrayobject.h>
#include <numpy/ufuncobject.h>

namespace xpr {

inline bool is_numpy_array(PyObject* object) { return Py_TYPE(object) == &PyArray_Type; }

// The number of NumPy's for a dtype.
inline int type_number(PyObject* dtype) {
  return reinterpret_cast<PyArray_Descr*>(dtype)->type_num;
}

// What an array says of itself; `is_numpy_array` holds, or it is of a subclass.
class NumpyView {
 public:
  explicit NumpyView(PyObject* array) : array_(reinterpret_cast<PyArrayObject*>(array)) {}

  int ndim() const { return PyArray_NDIM(array_); }
  npy_intp extent(int axis) const { return PyArray_DIM(array_, axis); }
  PyObject* dtype() const { return reinterpret_cast<PyObject*>(PyArray_DESCR(array_)); }
  void* data() const { return PyArray_DATA(array_); }
  npy_intp nbytes() const { return PyArray_NBYTES(array_); }
  bool is_contiguous() const { return PyArray_IS_C_CONTIGUOUS(array_); }

 private:
  PyArrayObject* array_;
};

}  // namespace xpr
