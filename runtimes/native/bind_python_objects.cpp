#include "python_objects.h"

namespace xpr {

namespace nb = nanobind;

Py_ssize_t slot_offset(PyTypeObject* type, const char* name) {
  PyRef instance = PyRef::steal(PyType_GenericAlloc(type, 0));
  PyRef marker = PyRef::steal(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)));
  PyRef size =
      PyRef::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__basicsize__"));
  if (!instance || !marker || !size) throw nb::python_error();
  Py_ssize_t end = PyLong_AsSsize_t(size.get());
  if (PyObject_SetAttrString(instance.get(), name, marker.get()) < 0) throw nb::python_error();
  constexpr auto step = static_cast<Py_ssize_t>(sizeof(PyObject*));
  for (auto at = static_cast<Py_ssize_t>(sizeof(PyObject)); at + step <= end; at += step) {
    if (slot(instance.get(), at) == marker.get()) return at;
  }
  PyErr_Format(PyExc_TypeError, "class %R has no slot %s", type, name);
  throw nb::python_error();
}

}  // namespace xpr
