#include "block_object.h"
#include "call_state.h"
#include "numbers.h"

namespace xpr {

namespace nb = nanobind;

PyRef block_object(PyObject* buffer) {
  PyObject* block = slot(buffer, classes.block);
  if (!is_none(block)) return PyRef::borrow(block);
  return PyRef::steal(call_python(
      [&] { return PyObject_CallMethodObjArgs(buffer, around.native_block_name, nullptr); }));
}

namespace {

bool may_take_numbers() {
  PyRef guard = PyRef::steal(PyObject_GetAttr(around.settings, around.guard_name));
  if (!guard) PyErr_Clear();
  return guard && PyUnicode_Check(guard.get()) &&
         PyUnicode_CompareWithASCIIString(guard.get(), "allow") == 0;
}

}  // namespace

bool read_number(PyObject* number, int type, std::size_t size, Block& block) {
  Ref<Memory> memory = Memory::allocate(size);
  std::uint8_t* data = memory->data();
  if (!may_take_numbers() || !write_number(number, type, reinterpret_cast<char*>(data))) {
    return false;
  }
  block = {std::move(memory), data, size};
  return true;
}

int has_programs_waiting(PyObject* device) {
  PyRef queue = PyRef::steal(PyObject_GetAttr(device, around.queue_name));
  if (!queue) return -1;
  if (is_none(queue.get())) return 0;
  PyRef is_idle = PyRef::steal(PyObject_GetAttr(queue.get(), around.is_idle_name));
  if (!is_idle) return -1;
  int idle = PyObject_IsTrue(is_idle.get());
  return idle < 0 ? -1 : idle == 0;
}

bool take_block(PyObject* buffer, Block& block) {
  PyObject* object = slot(buffer, classes.block);
  bool alone = is_block_alone(buffer) && Py_REFCNT(object) == 1 &&
               nb::inst_ptr<Block>(nb::handle(object))->memory->is_own();
  if (alone) return true;
  PyRef own = PyRef::steal(call_python(
      [&] { return PyObject_CallMethodObjArgs(buffer, around.private_block_name, nullptr); }));
  if (!own) return false;
  block = *nb::inst_ptr<Block>(nb::handle(own.get()));
  return true;
}

Donations::~Donations() {
  // The exception that the call ends with, if it does, is not to be lost.
  nb::error_scope keep;
  for (const PyRef& buffer : buffers_) {
    if (is_block_alone(buffer.get()) && !is_none(slot(buffer.get(), classes.type))) {
      PyRef block = PyRef::steal(
          std::exchange(slot(buffer.get(), classes.block), PyRef::borrow(Py_None).release()));
    } else {
      PyRef done = PyRef::steal(call_python(
          [&] { return PyObject_CallMethodObjArgs(buffer.get(), around.delete_name, nullptr); }));
      if (!done) PyErr_WriteUnraisable(buffer.get());
    }
  }
}

}  // namespace xpr
