// Small tools for code that works on Python's objects directly.
#pragma once

#include <nanobind/nanobind.h>

#include <utility>

namespace xpr {

// A strong reference, or none. Everything here holds Python's lock.
class Ref {
 public:
  Ref() = default;
  Ref(const Ref& other) : object_(other.object_) { Py_XINCREF(object_); }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }

  static Ref steal(PyObject* object) {
    Ref found;
    found.object_ = object;
    return found;
  }
  static Ref borrow(PyObject* object) {
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

inline PyTypeObject* as_type(PyObject* object) { return reinterpret_cast<PyTypeObject*>(object); }

}  // namespace xpr
