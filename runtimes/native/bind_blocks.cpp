// Blocks of memory, and what NumPy makes of them.
#include <cstring>

#include "block_object.h"

namespace nb = nanobind;

namespace xpr {
namespace {

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  if (flags & PyBUF_WRITABLE) {
    PyErr_SetString(PyExc_BufferError, "the memory of an array is not to be written to");
    view->obj = nullptr;
    return -1;
  }
  const Block& block = *nb::inst_ptr<Block>(nb::handle(self));
  return PyBuffer_FillInfo(view, self, block.data, static_cast<Py_ssize_t>(block.size), 1, flags);
}

PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&get_buffer)}, {0, nullptr}};

// A block whose values are still to be made, by whoever made the block.
struct Unfinished {
  Block block;
};

int get_writable_buffer(PyObject* self, Py_buffer* view, int flags) {
  const Block& block = nb::inst_ptr<Unfinished>(nb::handle(self))->block;
  return PyBuffer_FillInfo(view, self, block.data, static_cast<Py_ssize_t>(block.size), 0, flags);
}

PyType_Slot writable_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&get_writable_buffer)},
                                {0, nullptr}};

struct Held {
  Py_buffer view;  // has a reference to the array
};

void let_go(void* owner) {
  auto* held = static_cast<Held*>(owner);
  if (Py_IsInitialized()) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyBuffer_Release(&held->view);
    PyGILState_Release(state);
  }
  delete held;
}

Block empty_block(size_t size) {
  Ref<Memory> memory = Memory::allocate(size);
  uint8_t* data = memory->data();
  return {std::move(memory), data, size};
}

class View {
 public:
  View(nb::handle array, int flags) {
    if (PyObject_GetBuffer(array.ptr(), &view_, flags) != 0) throw nb::python_error();
  }
  ~View() {
    if (held_) PyBuffer_Release(&view_);
  }
  View(const View&) = delete;
  View& operator=(const View&) = delete;
  const Py_buffer& get() const { return view_; }
  Py_buffer give_up() {
    held_ = false;
    return view_;
  }

 private:
  Py_buffer view_{};
  bool held_ = true;
};

Block copied(nb::handle array) {
  View view(array, PyBUF_C_CONTIGUOUS);
  Block made = empty_block(static_cast<size_t>(view.get().len));
  if (made.size) std::memcpy(made.data, view.get().buf, made.size);
  return made;
}

// A block over the array's own memory, or over a copy where that is small or not aligned.
Block over(nb::handle array, size_t small) {
  auto held = std::make_unique<View>(array, PyBUF_C_CONTIGUOUS);
  const Py_buffer& view = held->get();
  auto size = static_cast<size_t>(view.len);
  if (size <= small || reinterpret_cast<uintptr_t>(view.buf) % kAlignment != 0) {
    Block made = empty_block(size);
    if (size) std::memcpy(made.data, view.buf, size);
    return made;
  }
  auto* data = static_cast<uint8_t*>(view.buf);
  auto owner = std::make_unique<Held>();
  owner->view = held->give_up();
  return {Memory::borrow(data, size, owner.release(), &let_go), data, size};
}

}  // namespace

void bind_blocks(nb::module_& module) {
  nb::class_<Unfinished>(module, "Unfinished", nb::type_slots(writable_slots));
  nb::class_<Block>(module, "Block", nb::type_slots(slots))
      .def_static("empty", &empty_block, nb::arg("size"), "A block without values.")
      .def_static("copied", &copied, nb::arg("array"), "A block with a copy of a contiguous array.")
      .def_static("over", &over, nb::arg("array"), nb::arg("small"),
                  "A block over an array's memory; over a copy if it has at most `small` bytes or "
                  "is not aligned.")
      .def(
          "unfinished", [](const Block& b) { return Unfinished{b}; },
          "The memory of a block that nobody else has yet, for its values to be written.")
      .def_prop_ro(
          "address", [](const Block& b) { return reinterpret_cast<uintptr_t>(b.data); },
          "Where it begins.")
      .def_prop_ro(
          "nbytes", [](const Block& b) { return b.size; }, "How many bytes it has.")
      .def_prop_ro(
          "is_own", [](const Block& b) { return b.memory && b.memory->is_own(); },
          "Whether the memory was allocated for it, and is not that of an array of NumPy's.");
  module.def("bytes_in_use", &Memory::bytes_in_use, "Bytes of all blocks that live.");
}

}  // namespace xpr
