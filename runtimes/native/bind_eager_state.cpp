#include "eager_state.h"

namespace xpr {

PyRef eager_settings() {
  if (eager_state.base == nullptr) return {};
  PyRef trace = PyRef::steal(PyObject_GetAttr(eager_state.context, eager_state.trace_name));
  if (!trace || trace.get() != eager_state.eager) {
    PyErr_Clear();
    return {};
  }
  PyRef key = PyRef::steal(PyObject_GetAttr(eager_state.settings, eager_state.trace_key_name));
  if (!key) PyErr_Clear();
  return key;
}

bool read_array(PyObject* array, HostOperand& operand) {
  PyObject* buffer = host_buffer_of(array);
  PyObject* aval = aval_of(array);
  if (buffer == nullptr || aval == nullptr) return false;
  PyObject* host = slot(buffer, classes.host);
  if (host == nullptr || !is_numpy_array(host)) {
    // In another form so far; this makes NumPy's, which the buffer keeps.
    PyRef made = PyRef::steal(call_python(
        [&] { return PyObject_CallMethodObjArgs(buffer, eager_state.host_view_name, nullptr); }));
    if (!made) PyErr_Clear();  // deleted: the Python path says so
    host = slot(buffer, classes.host);
    if (!made || host == nullptr || !is_numpy_array(host)) return false;
  }
  operand.object = array;
  operand.type = reinterpret_cast<std::uintptr_t>(aval);
  operand.host = reinterpret_cast<PyArrayObject*>(host);
  operand.device = device_of(buffer);
  operand.committed = is_committed(array);
  return PyArray_ISALIGNED(operand.host) && PyArray_ISNOTSWAPPED(operand.host);
}

bool begin_plan(PyObject* result, Plan& plan) {
  PyRef device =
      PyRef::steal(call_python([&] { return PyObject_CallNoArgs(eager_state.default_device); }));
  if (!device) return false;
  PyRef plain =
      PyRef::steal(call_python([&] { return PyObject_CallNoArgs(eager_state.is_plain); }));
  if (!plain) return false;
  if (plain.get() != Py_True) return true;
  plan.aval = PyRef::borrow(aval_of(result));
  plan.device = std::move(device);
  return true;
}

PyObject* finish(PyObject* aval, PyObject* host, PyObject* device, bool committed) {
  PyRef held = PyRef::steal(host);
  PyArray_CLEARFLAGS(reinterpret_cast<PyArrayObject*>(host), NPY_ARRAY_WRITEABLE);
  PyRef buffer = PyRef::steal(make_host_buffer(host, device));
  return buffer ? make_array(aval, buffer.get(), committed) : nullptr;
}

}  // namespace xpr
