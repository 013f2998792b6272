#include "arrays.h"

namespace xpr {

namespace nb = nanobind;

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
  slot(array, classes.sharding) = Ref::borrow(Py_None).release();
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
  found.host = slot_offset(found.buffer, "host");
  found.view = slot_offset(found.buffer, "view");
  found.device = slot_offset(found.buffer, "device");
  found.type = slot_offset(found.buffer, "_type");
  found.memory = slot_offset(found.buffer, "_memory");
  found.frozen = slot_offset(found.buffer, "_frozen");
  found.span = slot_offset(found.buffer, "_span");
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
