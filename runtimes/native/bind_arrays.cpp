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

namespace {

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
}

}  // namespace xpr
