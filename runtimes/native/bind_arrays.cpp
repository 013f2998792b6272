#include <utility>

#include "arrays.h"

namespace xpr {

namespace nb = nanobind;

namespace {

// A buffer whose slots are None but for those that have a value.
PyObject* make_buffer(PyObject* host, PyObject* block, PyObject* type, PyObject* device) {
  PyObject* buffer = PyType_GenericAlloc(classes.buffer, 0);
  if (buffer == nullptr) return nullptr;
  for (Py_ssize_t at : classes.others) slot(buffer, at) = PyRef::borrow(Py_None).release();
  slot(buffer, classes.host) = PyRef::borrow(host).release();
  slot(buffer, classes.block) = PyRef::borrow(block).release();
  slot(buffer, classes.view) = PyRef::borrow(Py_None).release();
  slot(buffer, classes.memory) = PyRef::borrow(Py_None).release();
  slot(buffer, classes.type) = PyRef::borrow(type).release();
  slot(buffer, classes.device) = PyRef::borrow(device).release();
  slot(buffer, classes.frozen) = PyRef::borrow(Py_False).release();
  return buffer;
}

}  // namespace

PyObject* make_host_buffer(PyObject* host, PyObject* device) {
  return make_buffer(host, Py_None, Py_None, device);
}

PyObject* make_block_buffer(PyObject* block, PyObject* type, PyObject* device) {
  return make_buffer(Py_None, block, type, device);
}

PyObject* make_array(PyObject* aval, PyObject* buffer, bool committed) {
  PyObject* buffers = PyTuple_New(1);
  if (buffers == nullptr) return nullptr;
  Py_INCREF(buffer);
  PyTuple_SetItem(buffers, 0, buffer);
  PyObject* array = PyType_GenericAlloc(classes.array, 0);
  if (array == nullptr) {
    Py_DECREF(buffers);
    return nullptr;
  }
  Py_INCREF(aval);
  slot(array, classes.aval) = aval;
  slot(array, classes.buffers) = buffers;
  slot(array, classes.committed) = PyBool_FromLong(committed);
  slot(array, classes.sharding) = PyRef::borrow(Py_None).release();
  return array;
}

PyObject* make_sharded_array(PyObject* aval, PyObject* buffers, PyObject* sharding) {
  PyRef held = PyRef::steal(buffers);
  PyObject* array = PyType_GenericAlloc(classes.sharded, 0);
  if (array == nullptr) return nullptr;
  slot(array, classes.aval) = PyRef::borrow(aval).release();
  slot(array, classes.buffers) = held.release();
  slot(array, classes.committed) = PyRef::borrow(Py_True).release();
  slot(array, classes.sharding) = PyRef::borrow(sharding).release();
  slot(array, classes.gathered) = PyRef::borrow(Py_None).release();
  slot(array, classes.deleted) = PyRef::borrow(Py_False).release();
  return array;
}

PyObject* make_seen_buffer(PyObject* buffer, PyObject* device) {
  PyObject* host = slot(buffer, classes.host);
  PyObject* memory = slot(buffer, classes.memory);
  if (is_none(host) || is_none(memory)) {
    PyErr_SetString(PyExc_RuntimeError, "a buffer that others see needs an array over its memory");
    return nullptr;
  }
  PyObject* made =
      make_buffer(host, slot(buffer, classes.block), slot(buffer, classes.type), device);
  if (made == nullptr) return nullptr;
  for (Py_ssize_t at : {classes.view, classes.memory, classes.frozen}) {
    PyRef old =
        PyRef::steal(std::exchange(slot(made, at), PyRef::borrow(slot(buffer, at)).release()));
  }
  return made;
}

namespace {

void learn_sharded_arrays(nb::type_object sharded) {
  auto* type = as_type(sharded.ptr());
  for (auto [name, at] :
       {std::pair("aval", classes.aval), std::pair("_buffers", classes.buffers),
        std::pair("_committed", classes.committed), std::pair("_sharding", classes.sharding)}) {
    if (slot_offset(type, name) != at) throw nb::type_error("a class whose slots are elsewhere");
  }
  classes.gathered = slot_offset(type, "_gathered");
  classes.deleted = slot_offset(type, "_deleted");
  sharded.inc_ref();  // for as long as the process lives
  classes.sharded = type;
}

void learn_arrays(nb::type_object array, nb::type_object buffer) {
  ArrayClasses found;
  found.array = as_type(array.ptr());
  found.buffer = as_type(buffer.ptr());
  found.aval = slot_offset(found.array, "aval");
  found.buffers = slot_offset(found.array, "_buffers");
  found.committed = slot_offset(found.array, "_committed");
  found.sharding = slot_offset(found.array, "_sharding");
  for (nb::handle name : nb::borrow<nb::tuple>(buffer.attr("__slots__"))) {
    Py_ssize_t at = slot_offset(found.buffer, nb::borrow<nb::str>(name).c_str());
    if (nb::str("host").equal(name)) {
      found.host = at;
    } else if (nb::str("device").equal(name)) {
      found.device = at;
    } else if (nb::str("_frozen").equal(name)) {
      found.frozen = at;
    } else if (nb::str("_type").equal(name)) {
      found.type = at;
    } else if (nb::str("block").equal(name)) {
      found.block = at;
    } else if (nb::str("view").equal(name)) {
      found.view = at;
    } else if (nb::str("_memory").equal(name)) {
      found.memory = at;
    } else {
      found.others.push_back(at);
    }
  }
  array.inc_ref();  // for as long as the process lives
  buffer.inc_ref();
  classes = found;
}

}  // namespace

void bind_arrays(nb::module_& module) {
  module.def("learn_arrays", &learn_arrays,
             "Says which classes arrays and their buffers in the host's memory have.");
  module.def("learn_sharded_arrays", &learn_sharded_arrays,
             "Says which class arrays of several devices have; after `learn_arrays`.");
}

}  // namespace xpr
