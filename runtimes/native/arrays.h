// Arrays as the native part sees them: instances of the Python classes `ArrayImpl` and
// `HostBuffer`, whose slots are read and written directly.
#pragma once

#include <vector>

#include "python_objects.h"

namespace xpr {

// The classes, and where their slots are; all null until `learn_arrays` was called.
struct ArrayClasses {
  PyTypeObject* array = nullptr;    // ArrayImpl
  PyTypeObject* buffer = nullptr;   // HostBuffer
  PyTypeObject* sharded = nullptr;  // ShardedArrayImpl
  Py_ssize_t aval = 0, buffers = 0, committed = 0, sharding = 0;
  Py_ssize_t gathered = 0, deleted = 0;  // of a ShardedArrayImpl
  Py_ssize_t host = 0, device = 0, frozen = 0, type = 0, block = 0, view = 0, memory = 0;
  std::vector<Py_ssize_t> others;  // the buffer's other slots, None in a new one
};
inline ArrayClasses classes;

inline bool is_array(PyObject* object) { return Py_TYPE(object) == classes.array; }
// An array of several devices.
inline bool is_sharded_array(PyObject* object) { return Py_TYPE(object) == classes.sharded; }
inline bool is_none(PyObject* object) { return object == nullptr || object == Py_None; }

// The fields below belong to an array: `is_array` or `is_sharded_array` holds.
inline PyObject* aval_of(PyObject* array) { return slot(array, classes.aval); }
inline bool is_committed(PyObject* array) { return slot(array, classes.committed) == Py_True; }

// The buffer of an array of one device in the host's memory, or null when it is of another kind.
inline PyObject* host_buffer_of(PyObject* array) {
  PyObject* buffers = slot(array, classes.buffers);
  if (buffers == nullptr || !PyTuple_CheckExact(buffers) || PyTuple_Size(buffers) != 1) {
    return nullptr;
  }
  PyObject* buffer = PyTuple_GetItem(buffers, 0);
  return Py_TYPE(buffer) == classes.buffer ? buffer : nullptr;
}
inline PyObject* device_of(PyObject* buffer) { return slot(buffer, classes.device); }

// A new buffer over the NumPy array `host`, which nobody writes to; null with an exception set.
PyObject* make_host_buffer(PyObject* host, PyObject* device);

// The same over a block of memory; `type` is the tuple of its shape and dtype.
PyObject* make_block_buffer(PyObject* block, PyObject* type, PyObject* device);

// A new array over `buffer`, or null with an exception set.
PyObject* make_array(PyObject* aval, PyObject* buffer, bool committed);

// A new array of several devices over a tuple of buffers, whose reference it takes.
PyObject* make_sharded_array(PyObject* aval, PyObject* buffers, PyObject* sharding);

// A new buffer of `device` over the memory of a buffer that has a block, as `seen_from` makes it.
PyObject* make_seen_buffer(PyObject* buffer, PyObject* device);

void bind_arrays(nanobind::module_& module);

}  // namespace xpr
