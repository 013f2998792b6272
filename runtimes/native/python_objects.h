// Small tools for code that works on Python's objects directly.
#pragma once

#include <nanobind/nanobind.h>

#include <utility>

#include "ended_threads.h"

namespace xpr {

// A strong reference, or none. Everything here holds Python's lock.
class PyRef {
 public:
  PyRef() = default;
  PyRef(const PyRef& other) : object_(other.object_) { Py_XINCREF(object_); }
  PyRef(PyRef&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  PyRef& operator=(PyRef other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~PyRef() { Py_XDECREF(object_); }

  static PyRef steal(PyObject* object) {
    PyRef found;
    found.object_ = object;
    return found;
  }
  static PyRef borrow(PyObject* object) {
    Py_XINCREF(object);
    return steal(object);
  }

  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// Where the slot `name` of a class with `__slots__` lies in its instances.
//
// Raises TypeError when the class has no such slot. It is found by writing to it: Python's
// interface for extensions of several versions does not tell.
Py_ssize_t slot_offset(PyTypeObject* type, const char* name);

inline PyObject*& slot(PyObject* object, Py_ssize_t offset) {
  return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset);
}

// The result of calling `function` with one argument: null with an exception set.
inline PyObject* call_with(PyObject* function, PyObject* argument) {
  return call_python([&] { return PyObject_Vectorcall(function, &argument, 1, nullptr); });
}

inline PyTypeObject* as_type(PyObject* object) { return reinterpret_cast<PyTypeObject*>(object); }

}  // namespace xpr
