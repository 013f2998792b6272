#include "applications.h"

namespace xpr {

namespace nb = nanobind;

namespace {

PyObject* set_quiet = nullptr;
PyObject* quiet_value = nullptr;
PyObject* reset_quiet = nullptr;

}  // namespace

bool mix_parameters(std::uintptr_t& mixed, PyObject* parameters) {
  Py_ssize_t position = 0;
  PyObject *name = nullptr, *value = nullptr;
  while (PyDict_Next(parameters, &position, &name, &value)) {
    Py_hash_t hash = PyObject_Hash(value);
    if (hash == -1) {
      PyErr_Clear();
      return false;
    }
    mixed = mix(mixed, static_cast<std::uintptr_t>(hash));
  }
  return true;
}

bool same_parameters(PyObject* one, PyObject* other) {
  if (PyDict_Size(one) != PyDict_Size(other)) return false;
  Py_ssize_t here = 0, there = 0;
  PyObject *name = nullptr, *value = nullptr, *other_name = nullptr, *other_value = nullptr;
  while (PyDict_Next(one, &here, &name, &value)) {
    if (!PyDict_Next(other, &there, &other_name, &other_value) || name != other_name) return false;
    if (value == other_value) continue;
    if (Py_TYPE(value) != Py_TYPE(other_value)) return false;
    int equal = PyObject_RichCompareBool(value, other_value, Py_EQ);
    if (equal < 0) PyErr_Clear();
    if (equal != 1) return false;
  }
  return true;
}

bool read_scalar(PyObject* scalar, HostOperand& operand, PyRef& made) {
  if (!PyArray_IsScalar(scalar, Float32) && !PyArray_IsScalar(scalar, Int32)) return false;
  made = PyRef::steal(PyArray_FromScalar(scalar, nullptr));
  if (!made) {
    PyErr_Clear();
    return false;
  }
  operand.type = reinterpret_cast<std::uintptr_t>(Py_TYPE(scalar)) | 1;
  operand.host = reinterpret_cast<PyArrayObject*>(made.get());
  return true;
}

Quiet::Quiet() : before_(PyRef::steal(call_with(set_quiet, quiet_value))) {}

Quiet::~Quiet() {
  if (!before_) return;
  nb::error_scope keep;  // the exception that the operation ends with, if it does
  PyRef done = PyRef::steal(call_with(reset_quiet, before_.get()));
  if (!done) PyErr_WriteUnraisable(reset_quiet);
}

void Quiet::by(PyObject* set, PyObject* value, PyObject* reset) {
  set_quiet = set;
  quiet_value = value;
  reset_quiet = reset;
}

PyRef as_host(PyRef result, PyObject* dtype) {
  bool is_plain = is_numpy_array(result.get()) &&
                  reinterpret_cast<PyObject*>(
                      PyArray_DESCR(reinterpret_cast<PyArrayObject*>(result.get()))) == dtype;
  if (is_plain) return result;
  auto* wanted = reinterpret_cast<PyArray_Descr*>(PyRef::borrow(dtype).release());
  return PyRef::steal(PyArray_FromAny(result.get(), wanted, 0, 0, 0, nullptr));
}

void freeze(PyObject* array) {
  while (array != nullptr && PyArray_Check(array)) {
    auto* host = reinterpret_cast<PyArrayObject*>(array);
    PyArray_CLEARFLAGS(host, NPY_ARRAY_WRITEABLE);
    array = PyArray_BASE(host);
  }
}

}  // namespace xpr
